"""Which owner holds which calls and slots: SQL that runs inside the writer's transactions."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from clicket import system
from clicket.model.ports import Owner, Presence, Stored
from clicket.stores.liveness import is_dead
from clicket.stores.sqlite.queues import keys_in_fair_order
from clicket.stores.sqlite.rows import select

__all__ = ["claim_one", "claim_orphans", "claim_waiting", "dead_owners", "hold", "presences", "register", "sign_off"]

_MOST = 1 << 62
_OWNERS = """SELECT id, pid, lease, renewed, CAST(host AS BLOB), CAST(boot AS BLOB), CAST(started AS BLOB) FROM owners
    ORDER BY id"""
_HOLDERS = "SELECT owner FROM calls WHERE ended_at IS NULL UNION SELECT owner FROM slots"


def register(connection: apsw.Connection, owner: Owner, id: int | None = None) -> int:
    """Make an owner known, or (with its id) known again: it may have been given up for dead meanwhile."""
    connection.execute(
        "INSERT INTO owners (id, host, boot, pid, started, lease, renewed) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET renewed = excluded.renewed",
        (id, owner.host, owner.boot, owner.pid, owner.started, owner.lease, system.uptime()),
    )
    return connection.last_insert_rowid() if id is None else id


def sign_off(connection: apsw.Connection, owner: int) -> None:
    connection.execute("UPDATE calls SET owner = NULL WHERE owner = ? AND ended_at IS NULL", (owner,))
    connection.execute("DELETE FROM slots WHERE owner = ?", (owner,))
    connection.execute("DELETE FROM owners WHERE id = ?", (owner,))


def presences(connection: apsw.Connection, mine: int) -> list[Presence]:
    found = []
    for id, pid, lease, renewed, *texts in connection.execute(_OWNERS):
        host, boot, started = (text.decode(errors="replace") for text in texts)
        owner = Owner(host=host, boot=boot, pid=pid, started=started, lease=lease)
        found.append(Presence(id=id, owner=owner, alive=id == mine or not is_dead(owner, renewed), mine=id == mine))
    return found


def dead_owners(connection: apsw.Connection, mine: int) -> list[int]:
    """Owners whose calls are abandoned: dead ones, and those that left no trace but their calls or slots."""
    known = presences(connection, mine)
    held = {row[0] for row in connection.execute(_HOLDERS)}
    gone = [presence.id for presence in known if not presence.alive]
    return gone + sorted(held - {presence.id for presence in known} - {None, 0, mine})


def claim_orphans(connection: apsw.Connection, mine: int, tools: frozenset[str], limit: int) -> list[Stored]:
    dead = dead_owners(connection, mine)
    if not dead:
        return []
    marks, names = _marks(dead), _marks(list(tools))
    clause = f"WHERE ended_at IS NULL AND owner IN ({marks}) AND ifnull(queue, tool) IN ({names}) ORDER BY key LIMIT ?"
    claimed = _take(connection, mine, select(connection, clause, [*dead, *tools, limit]))
    connection.execute(f"DELETE FROM slots WHERE owner IN ({marks})", dead)  # noqa: S608  # question marks
    connection.execute(
        f"DELETE FROM owners WHERE id IN ({marks}) AND id NOT IN (SELECT ifnull(owner, 0) FROM calls WHERE ended_at IS NULL)",  # noqa: S608  # question marks
        dead,
    )
    return claimed


def claim_waiting(
    connection: apsw.Connection, mine: int, tools: frozenset[str], limit: int, last_caller: str
) -> list[Stored]:
    """Calls of all callers in turn, beginning after `last_caller` in the order of names."""
    keys = keys_in_fair_order(connection, tools, limit, last_caller)
    return _take(connection, mine, [call for key in keys for call in select(connection, "WHERE key = ?", [key])])


def claim_one(connection: apsw.Connection, mine: int, key: int) -> Stored | None:
    free = [None, *dead_owners(connection, mine)]
    found = select(connection, "WHERE key = ? AND ended_at IS NULL", [key])
    taken = _take(connection, mine, [stored for stored in found if stored.owner in free])
    return taken[0] if taken else None


def _take(connection: apsw.Connection, mine: int, found: list[Stored]) -> list[Stored]:
    for stored in found:
        if max(stored.fence, stored.claims) >= _MOST:
            stored.events, stored.damaged = [], "it was claimed more often than can be"
            stored.fence, stored.claims = _MOST - 1, _MOST - 1
        stored.fence += 1
        stored.claims += 1
        stored.owner, stored.taken_from = mine if stored.damaged is None else 0, stored.owner
        connection.execute(
            "UPDATE calls SET owner = ?, fence = ?, claims = ?, signal = 0 WHERE key = ?",
            (stored.owner, stored.fence, stored.claims, stored.key),
        )
    return found


def hold(connection: apsw.Connection, mine: int, name: str, count: int, capacity: int) -> bool:
    sql = "SELECT owner, held FROM slots WHERE name = ?"
    held: dict[int, int] = dict(connection.execute(sql, (name,)))
    before = held.pop(mine, 0)
    if count > before and sum(held.values()) + count > capacity:
        return False
    if count == 0:
        connection.execute("DELETE FROM slots WHERE name = ? AND owner = ?", (name, mine))
    else:
        connection.execute("INSERT OR REPLACE INTO slots (name, owner, held) VALUES (?, ?, ?)", (name, mine, count))
    return True


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
