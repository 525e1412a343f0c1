"""What is kept of ended calls, and what goes: the oldest end first, a few at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import apsw

from clicket.model.codec import encode
from clicket.model.ports import Keep, Sweep
from clicket.stores.sqlite.schema import EVENT_BITS

__all__ = [
    "SPARE_PAGES", "SweepPlan", "count_over", "end_pins", "give_back", "kept_artifacts", "loose_pins", "next_over", "pin", "release",
    "remove", "sweep", "unpin",
]  # fmt: skip

_KEYS = "(SELECT value FROM json_each(?1))"
_DELETE_EVENTS = f"""DELETE FROM events WHERE row IN (SELECT events.row FROM json_each(?1) AS going CROSS JOIN events
    ON events.row > going.value << {EVENT_BITS} AND events.row < (going.value + 1) << {EVENT_BITS})"""  # noqa: S608  # constants
_PAGES_AT_ONCE = 200
SPARE_PAGES = 1_000
"""Free pages that stay in the file: the next calls use them."""
_READ_AHEAD = 50
# SQLite would give the greatest key to the next call, and a reader of the old call would read events of the new one. So the row
# stays, empty, until there is a newer one. (AUTOINCREMENT would prevent it, too, for 8 microseconds more with each call.)
# No append expects the number 0, so what the old call's writer still sends is refused.
_EMPTY = """UPDATE calls SET id = 'swept:' || key, thread = '', caller = '', tool = '', state = 'swept', seq = 0, owner = 0, bytes = 0,
    ended_at = NULL, waiting_for = NULL, first_unit = NULL, last_unit = NULL WHERE key = ?"""

Cut = tuple[float, int]
"""Calls whose (ended_at, key) is not above it break a bound of the whole store."""

_Row = tuple[Any, ...]
"""A call's key and its size."""


class SweepPlan:
    """What a sweep removes, counted once and removed in many steps: counting looks at all ended calls."""

    def __init__(self, keep: Keep, until: float) -> None:
        self.keep = keep
        self.until = until
        """By the monotonic clock: then it is counted anew."""
        self.cut: Cut | None = None
        self.of_threads: list[tuple[int, int]] | None = None
        """Calls, by key and size, that break a bound of their thread; None: not looked for yet."""

    def is_for(self, keep: Keep, now: float) -> bool:
        return keep == self.keep and now < self.until


def next_over(connection: apsw.Connection, plan: SweepPlan, limit: int) -> dict[int, int]:
    """Up to `limit` calls that break a bound, by their keys, with their sizes."""
    keep = plan.keep
    going: dict[int, int] = dict(_before(connection, _cut_by_age(keep), limit))
    if len(going) < limit and not (keep.thread_calls is None and keep.thread_bytes is None):
        if plan.of_threads is None:
            plan.of_threads = list(islice(_over_in_threads(connection, keep), limit * _READ_AHEAD))
        while plan.of_threads and len(going) < limit:
            room = limit - len(going)
            some, plan.of_threads = plan.of_threads[:room], plan.of_threads[room:]
            going |= dict(_still_there(connection, [key for key, _ in some]))
        if not plan.of_threads:
            plan.of_threads = None
    if len(going) < limit and not (keep.calls is None and keep.bytes is None):
        if plan.cut is None:  # what goes for its age or its thread does not count
            plan.cut = _find_cut(connection, keep, going)
        going |= dict(islice(_others(connection, plan.cut, going), limit - len(going)))
    return going


def _still_there(connection: apsw.Connection, keys: list[int]) -> Iterator[_Row]:
    """Those that were neither removed nor kept since they were counted, by key and size."""
    sql = f"SELECT key, bytes FROM calls WHERE key IN {_KEYS} AND ended_at IS NOT NULL AND kept IS NULL"  # noqa: S608  # a constant
    yield from connection.execute(sql, (encode(keys).decode(),))


def sweep(connection: apsw.Connection, going: dict[int, int], kept: Collection[int], *, more: bool) -> Sweep:
    """Remove these calls, but for those that are `kept`. `more`: whether there may be others to remove."""
    if kept:
        connection.execute(f"UPDATE calls SET kept = 1 WHERE key IN {_KEYS}", (encode(sorted(kept)).decode(),))  # noqa: S608  # a constant
        going = {key: weight for key, weight in going.items() if key not in kept}
    newest: int = connection.execute("SELECT max(key) FROM calls").get
    keys = (encode(list(going)).decode(),)
    connection.execute(_DELETE_EVENTS, keys)
    connection.execute(f"DELETE FROM artifacts WHERE call IN {_KEYS}", keys)  # noqa: S608  # a constant
    if newest in going:
        connection.execute(_EMPTY, (newest,))
    connection.execute(f"DELETE FROM calls WHERE key IN {_KEYS} AND state <> 'swept'", keys)  # noqa: S608  # a constant
    connection.execute(
        "DELETE FROM calls WHERE owner = 0 AND ended_at IS NULL AND state = 'swept' AND key < ?", (newest,)
    )
    return Sweep(calls=len(going), bytes=sum(going.values()), more=more)


def remove(connection: apsw.Connection, keys: Collection[int]) -> Sweep:
    """Remove those that have ended."""
    sql = f"SELECT key, bytes FROM calls WHERE key IN {_KEYS} AND ended_at IS NOT NULL"  # noqa: S608  # a constant
    return sweep(connection, dict(connection.execute(sql, (encode(list(keys)).decode(),))), (), more=False)


def release(connection: apsw.Connection, caller: str, thread: str, limit: int) -> bool:
    """Let sweeps remove calls of a thread that were kept. True: there may be more."""
    sql = """UPDATE calls SET kept = NULL WHERE key IN (
        SELECT key FROM calls INDEXED BY calls_thread WHERE thread = ? AND caller = ? AND kept IS NOT NULL LIMIT ?)"""
    connection.execute(sql, (thread, caller, limit))
    return connection.changes() == limit


def count_over(connection: apsw.Connection, keep: Keep) -> Sweep:
    """All that would go."""
    going: dict[int, int] = dict(_before(connection, _cut_by_age(keep), -1))
    going |= dict(_over_in_threads(connection, keep))
    going |= dict(_others(connection, _find_cut(connection, keep, going), going))
    return Sweep(calls=len(going), bytes=sum(going.values()))


def give_back(connection: apsw.Connection) -> bool:
    """Return some free pages to the disk. True: there are more."""
    if connection.pragma("freelist_count") <= SPARE_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
    return bool(connection.pragma("freelist_count") > SPARE_PAGES)


# Pins: artifacts that stay although no call names them.


def pin(connection: apsw.Connection, name: str, until: float) -> None:
    sql = "INSERT INTO pins VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)"
    connection.execute(sql, (name, until))


def unpin(connection: apsw.Connection, names: Collection[str]) -> None:
    sql = "UPDATE pins SET until = 0 WHERE name IN (SELECT value FROM json_each(?))"
    connection.execute(sql, (encode(list(names)).decode(),))


def loose_pins(connection: apsw.Connection, now: float) -> tuple[int, list[str]]:
    """How many pins are over, and which of their artifacts no call names."""
    sql = "SELECT name, name IN (SELECT name FROM artifacts) FROM pins WHERE until <= ?"
    over = list(connection.execute(sql, (now,)))
    return len(over), [name for name, named in over if not named]


def end_pins(connection: apsw.Connection, now: float) -> list[str]:
    """Remove pins that are over; their artifacts that no call names."""
    _, loose = loose_pins(connection, now)
    connection.execute("DELETE FROM pins WHERE until <= ?", (now,))
    return loose


def kept_artifacts(connection: apsw.Connection) -> set[str]:
    """Those that a call names, or a pin."""
    return {row[0] for row in connection.execute("SELECT name FROM artifacts UNION SELECT name FROM pins")}


def _cut_by_age(keep: Keep) -> Cut:
    return (-1e308, 0) if keep.since is None else (keep.since, -1)


def _find_cut(connection: apsw.Connection, keep: Keep, going: dict[int, int]) -> Cut:
    """The last call, in the order of ends, that breaks a bound of the whole store; those that are `going` do not count."""
    cut: Cut = (-1e308, 0)
    if keep.calls is None and keep.bytes is None:
        return cut
    sql = "SELECT count(*), ifnull(sum(bytes), 0) FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL"
    calls, size = next(iter(connection.execute(sql)))
    calls, size = calls - len(going), size - sum(going.values())
    sql = "SELECT key, bytes, ended_at FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL ORDER BY ended_at, key"
    for key, weight, ended_at in connection.execute(sql):
        if not _is_over(calls, keep.calls) and not _is_over(size, keep.bytes):
            break
        if key not in going:
            calls, size = calls - 1, size - weight
            cut = (ended_at, key)
    return cut


def _others(connection: apsw.Connection, cut: Cut, going: dict[int, int]) -> Iterator[_Row]:
    """Calls up to the cut that are not `going` already."""
    return (row for row in _before(connection, cut, -1) if row[0] not in going)


def _before(connection: apsw.Connection, cut: Cut, limit: int) -> Iterator[_Row]:
    """Calls up to the cut, by key and size. A limit of -1 is none."""
    sql = """SELECT key, bytes FROM calls WHERE ended_at <= ?1 AND kept IS NULL AND (ended_at < ?1 OR key <= ?2)
        ORDER BY ended_at, key LIMIT ?3"""
    yield from connection.execute(sql, (*cut, limit))


def _over_in_threads(connection: apsw.Connection, keep: Keep) -> Iterator[_Row]:
    """Calls that break a bound of their thread, by key and size."""
    if keep.thread_calls is None and keep.thread_bytes is None:
        return
    sql = """SELECT thread, count(*), sum(bytes) FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL GROUP BY thread
        HAVING count(*) > ifnull(?, 9e18) OR sum(bytes) > ifnull(?, 9e18)"""
    for thread, calls, size in list(connection.execute(sql, (keep.thread_calls, keep.thread_bytes))):
        sql = "SELECT key, bytes FROM calls WHERE thread = ? AND ended_at IS NOT NULL AND kept IS NULL ORDER BY ended_at, key"
        for key, weight in connection.execute(sql, (thread,)):
            if not _is_over(calls, keep.thread_calls) and not _is_over(size, keep.thread_bytes):
                break
            calls, size = calls - 1, size - weight  # noqa: PLW2901  # what is left of them
            yield key, weight


def _is_over(value: int, bound: int | None) -> bool:
    return bound is not None and value > bound
