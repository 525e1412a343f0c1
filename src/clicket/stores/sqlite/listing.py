"""Which calls a question is about, and in which order: found by an index wherever there is one for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from clicket.kernel import State
from clicket.model.ended import Ended, ended_from, plain_end
from clicket.ports import CallPlace, Query, Stored, ThreadCounts
from clicket.stores.sqlite.rows import conditions, select, units_of
from clicket.stores.sqlite.schema import PERIOD

__all__ = ["ended", "history", "places", "thread_counts"]

_LAST_KEY = 1 << 62


def history(connection: apsw.Connection, query: Query) -> list[Stored]:
    state = query.state.value if query.state is not None else None
    where, values = conditions({"thread": query.thread, "tool": query.tool, "state": state, "caller": query.caller})
    where += " AND state <> 'swept'"  # see retention
    active = query.active
    if query.state is not None and query.state is not State.COMPLETED:
        # These are the conditions of the partial indexes. Completed calls, which most are, are found in the order of their keys.
        active = active or not query.state.is_terminal
        where += " AND ended_at IS NOT NULL AND state <> 'completed'" if query.state.is_terminal else ""
    if query.waiting_for is not None:
        where, values = where + " AND waiting_for = ? AND ended_at IS NULL", [*values, query.waiting_for]
    elif active:
        where += " AND ended_at IS NULL"
    if query.since is not None:
        lowest = _first_key(connection, query.since)
        where, values = where + " AND created_at >= ? AND key >= ?", [*values, query.since, lowest]
    if query.until is not None:
        where, values = where + " AND created_at < ?", [*values, query.until]
    for text in query.mentions:
        where += " AND (first_unit IS NULL OR last_unit IS NULL OR instr(first_unit, ?) > 0 OR instr(last_unit, ?) > 0)"
        values = [*values, text, text]
    if query.before is not None:
        where, values = where + " AND key < ?", [*values, query.before]
    if query.after is not None:
        where, values = where + " AND key > ?", [*values, query.after]
    if query.id_contains is not None:
        where, values = where + " AND instr(id, ?) > 0", [*values, query.id_contains]
    if query.id_prefix is not None:
        where, values = where + " AND id >= ? AND id < ?", [*values, query.id_prefix, _after(query.id_prefix)]
    order = f"ORDER BY key {'ASC' if query.ascending else 'DESC'}"
    clause = f"WHERE {where} {order} LIMIT ?"
    if active and query.waiting_for is None:
        # Few calls are active. SQLite does not know that, and would go through all calls in the order of their keys. Keys are
        # sorted alone: with their rows, which have units in them, that takes ten times as long.
        live = f"SELECT key FROM calls INDEXED BY calls_live {clause}"  # noqa: S608  # see conditions
        clause = f"WHERE key IN ({live}) {order}"
    return select(connection, clause, [*values, query.limit])


def ended(
    connection: apsw.Connection, caller: str | None, tool: str | None, since: float, before: int | None, limit: int
) -> list[Ended]:
    """Calls that have ended: only what is counted of them."""
    where, values = conditions({"caller": caller, "tool": tool})
    clause = (
        f"WHERE {where} AND ended_at IS NOT NULL AND created_at >= ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT ?"
    )
    bounds = [since, _first_key(connection, since), _LAST_KEY if before is None else before, limit]
    return _ended(connection, clause, [*values, *bounds])


def places(connection: apsw.Connection, before: int | None, limit: int) -> list[CallPlace]:
    sql = "SELECT key, caller, thread FROM calls WHERE key < ? AND state <> 'swept' ORDER BY key DESC LIMIT ?"
    rows = connection.execute(sql, (_LAST_KEY if before is None else before, limit))
    return [CallPlace(key, caller, thread) for key, caller, thread in rows]


_COUNTS = """SELECT state, count(*), max(key), max(max(created_at, ifnull(ended_at, 0.0))) FROM (
        SELECT state, key, created_at, ended_at FROM calls WHERE thread = ? AND caller = ? AND state <> 'swept'
        ORDER BY key DESC LIMIT ?) GROUP BY state"""


def thread_counts(connection: apsw.Connection, caller: str, thread: str, limit: int) -> ThreadCounts:
    rows = list(connection.execute(_COUNTS, (thread, caller, limit)))
    return ThreadCounts(
        states={state: count for state, count, _, _ in rows},
        newest=max((key for _, _, key, _ in rows), default=0),
        last_at=max((at for *_, at in rows), default=0.0),
    )


def _ended(connection: apsw.Connection, clause: str, values: Sequence[Any]) -> list[Ended]:
    sql = f"SELECT key, caller, tool, seq, first_unit, last_unit, last_unit_seq FROM calls {clause}"  # noqa: S608  # see conditions
    found = []
    for key, caller, tool, seq, first, last, last_seq in list(connection.execute(sql, values)):
        facts = plain_end(key, caller, tool, seq, first, last) if first and last else None
        if facts is None:
            facts = ended_from(key, caller, tool, seq, units_of(connection, key, first, last, last_seq))
        found.append(facts or Ended(key, caller, tool, "", "", None))
    return found


def _first_key(connection: apsw.Connection, since: float) -> int:
    """No call below this key was made since then: calls get their keys in the order in which they are stored."""
    sql = "SELECT min(key) FROM call_times WHERE period >= ?"
    period = int(max(min(since // PERIOD, 1e15), -1e15))
    found: int | None = connection.execute(sql, (period,)).get
    if found is not None:
        return found
    newest: int | None = connection.execute("SELECT max(key) FROM calls").get
    return (newest or 0) + 1


def _after(prefix: str) -> str:
    """The least text that is greater than every text with this prefix."""
    return prefix + "\U0010ffff"
