"""Which calls a question is about, and in which order: found by an index wherever there is one for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from clicket.kernel import State
from clicket.model.ended import Ended, ended_from, plain_end
from clicket.model.ports import CallPlace, Query, ScanEnd, Stored, ThreadCounts
from clicket.stores.sqlite.rows import conditions, select, units_of
from clicket.stores.sqlite.schema import PERIOD

__all__ = ["ended", "history", "places", "scan_end", "thread_counts"]

_LAST_KEY = 1 << 62
_SHORT = ("calls_live", "calls_asking", "calls_request")
"""Indexes of few calls, whatever the store holds."""


class _Search:
    """A query as SQL: the index along which calls are looked at, the conditions that it answers, and the other ones."""

    def __init__(self, connection: apsw.Connection, query: Query) -> None:
        self.walked: list[str] = ["1"]
        self.walked_values: list[Any] = []
        self.checked: list[str] = []
        self.checked_values: list[Any] = []
        self.order = f"ORDER BY key {'ASC' if query.ascending else 'DESC'}"
        self.index = self._choose_index(query)
        self._add_keys(connection, query)
        if query.since is not None:
            self._check("created_at >= ?", query.since)
        if query.until is not None:
            self._check("created_at < ?", query.until)
        for text in query.mentions:
            self._check(
                "(first_unit IS NULL OR last_unit IS NULL OR instr(first_unit, ?) > 0 OR instr(last_unit, ?) > 0)",
                text,
                text,
            )
        if query.id_contains is not None:
            self._check("instr(id, ?) > 0", query.id_contains)
        if query.id_prefix is not None:
            self._check("id >= ? AND id < ?", query.id_prefix, _after(query.id_prefix))

    def _choose_index(self, query: Query) -> str:
        """The index with the fewest calls, by what is known without counting. Completed calls, which most are, have none by state."""
        state = query.state
        bad = state is not None and state.is_terminal and state is not State.COMPLETED
        active = query.active or (state is not None and not state.is_terminal)
        index = ""
        if query.waiting_for is not None:
            index = "calls_asking"
            self._walk("waiting_for = ? AND ended_at IS NULL", query.waiting_for)
        elif active:
            index = "calls_live"
            self._walk("ended_at IS NULL")
        for name, column, value, partial in (
            ("calls_request", "request_id", query.request_id, " AND request_id IS NOT NULL"),
            ("calls_thread", "thread", query.thread, ""),
            ("calls_code", "code", query.code, " AND code IS NOT NULL"),
            ("calls_tool_ended_badly" if bad else "calls_tool", "tool", query.tool, ""),
            ("calls_ended_badly" if bad else "", "state", None if state is None else state.value, ""),
            ("calls_caller", "caller", query.caller, " AND caller <> ''" if query.caller else ""),
        ):
            if value is None:
                continue
            is_free = not index and name != "" and (name != "calls_caller" or value)
            if is_free:
                index = name
            if is_free or (column == "state" and index == "calls_tool_ended_badly"):
                self._walk(f"{column} = ?{partial}", value)
            else:
                self._check(f"{column} = ?", value)
        if index in ("calls_tool_ended_badly", "calls_ended_badly"):
            self._walk("ended_at IS NOT NULL AND state <> 'completed'")
        return index

    def _add_keys(self, connection: apsw.Connection, query: Query) -> None:
        if query.since is not None:
            self._walk("key >= ?", _first_key(connection, query.since))
        if query.until is not None:
            self._walk("key <= ?", _last_key(connection, query.until))
        if query.before is not None:
            self._walk("key < ?", query.before)
        if query.after is not None:
            self._walk("key > ?", query.after)

    def _walk(self, condition: str, *values: Any) -> None:
        self.walked.append(condition)
        self.walked_values += values

    def _check(self, condition: str, *values: Any) -> None:
        self.checked.append(condition)
        self.checked_values += values

    @property
    def hint(self) -> str:
        return f"INDEXED BY {self.index}" if self.index else "NOT INDEXED"


def history(connection: apsw.Connection, query: Query) -> list[Stored]:
    search = _Search(connection, query)
    where = " AND ".join((*search.walked, *search.checked, "state <> 'swept'"))  # see retention
    hint = "" if query.id_prefix is not None else search.hint  # ids have an index of their own
    clause = f"{hint} WHERE {where} {search.order} LIMIT ?"
    if search.index == "calls_live":
        # It is not in the order of keys. These are sorted alone: with their rows, which have units in them, that takes ten times as long.
        clause = f"WHERE key IN (SELECT key FROM calls {clause}) {search.order}"  # noqa: S608  # see conditions
    return select(connection, clause, [*search.walked_values, *search.checked_values, query.limit])


def scan_end(connection: apsw.Connection, query: Query, calls: int) -> ScanEnd | None:
    """See `LimitsScans`. Calls under way are few; those of one request, too."""
    search = _Search(connection, query)
    exact = {"created_at >= ?", "created_at < ?"}  # their keys are bounds of the walk already
    if search.index in _SHORT or not (set(search.checked) - exact or query.metadata):
        return None
    where = " AND ".join(search.walked)
    sql = f"SELECT key, created_at FROM calls {search.hint} WHERE {where} {search.order} LIMIT 1 OFFSET ?"  # noqa: S608  # constants
    for key, created_at in connection.execute(sql, [*search.walked_values, calls - 1]):
        return ScanEnd(key=key, created_at=created_at)
    return None


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


def _last_key(connection: apsw.Connection, until: float) -> int:
    """No call above this key was made before then, whatever the clocks of the writers were."""
    sql = "SELECT max(last) FROM call_times WHERE period <= ?"
    found: int | None = connection.execute(sql, (int(max(min(until // PERIOD, 1e15), -1e15)),)).get
    return found or 0


def _after(prefix: str) -> str:
    """The least text that is greater than every text with this prefix."""
    return prefix + "\U0010ffff"
