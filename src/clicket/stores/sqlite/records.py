"""Tool health, figures, documents and the audit log in SQLite. Health and figures are written with the outcome of their call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from clicket import system
from clicket.model.figures import Figure
from clicket.model.ports import (
    SHARED_PLACE,
    Append,
    Audited,
    DocumentWrite,
    HealthEffect,
    OutcomeStats,
    StoredDocument,
    ToolHealth,
)
from clicket.model.ports.health import HEALTH_LAW, HealthRule, assignments, runs_of_outcomes

__all__ = [
    "StatsBatch",
    "audit",
    "audited",
    "delete_document",
    "document",
    "documents",
    "figures",
    "forget",
    "idle",
    "put_document",
    "put_documents",
    "put_tool_health",
    "tool_health",
]

_NO_BUCKET = -(1 << 40)
"""A part of a primary key cannot be NULL."""


def _more(column: str, by: str) -> str:
    """Add, clamped against values that another program wrote: a number that cannot grow must not keep a call from ending."""
    return f"max(min({column},1<<60),0)+{by}"


# A row exists nearly always, so it is updated first. The texts are short because apsw hashes them at each execution.
_RULES: dict[HealthRule, str] = {
    "add": _more("{column}", "?1"),
    "add_or_restart": f"CASE tool_version WHEN ?5 THEN {_more('{column}', '?1')} ELSE ?1 END",
    "zero": "0",
    "at": "?3",
    "at_if_unset": "ifnull({column},?2)",
    "cause": "?4",
    "tool_version": "?5",
}


def _change_health(effect: HealthEffect) -> str:
    changes = ",".join(f"{column}={value}" for column, value in assignments(effect, _RULES))
    return f"UPDATE tool_health SET {changes} WHERE caller=?6 AND thread=?7 AND tool=?8"  # noqa: S608  # constants


_CHANGE_HEALTH = {effect: _change_health(effect) for effect in HEALTH_LAW if HEALTH_LAW[effect]}
_NEW_HEALTH = """INSERT INTO tool_health (caller, thread, tool, version, completions, failures, consecutive_failures, last_error,
    updated_at) VALUES (?, ?, ?, 0, 0, 0, 0, '', 0.0)"""
_ADD_FIGURE = (
    f"UPDATE figures SET count={_more('count', '?1')},seconds=seconds+?2,least=min(least,?3),most=max(most,?4) "  # noqa: S608  # constants
    "WHERE caller=?5 AND tool=?6 AND outcome=?7 AND error=?8 AND bucket=?9"
)
_NEW_FIGURE = """INSERT INTO figures (count, seconds, least, most, caller, tool, outcome, error, bucket)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_Place = tuple[str, str, str]
_Kind = tuple[str, str, str, str, int]


class StatsBatch:
    """The outcomes of one transaction, added up: however many calls end in it, a row of figures is written once, and a row of
    health once for each run of equal effects."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.cursor().execute
        self._changes = connection.changes
        self._ended: list[Append] = []
        self.count: Callable[[Append], None] = self._ended.append
        """To be called with a change once it was accepted as the end of its call."""

    def clear(self) -> None:
        self._ended.clear()

    def write(self) -> None:
        """Write what the counted outcomes add."""
        sums: dict[_Kind, list[Any]] = {}
        outcomes: dict[_Place, list[OutcomeStats]] = {}
        for change in self._ended:
            call, stats = change.call, change.stats
            if stats is None:
                continue
            caller = call.caller
            tool = stats.tool
            bucket = stats.bucket
            seconds = stats.seconds
            kind = (caller, tool, stats.outcome, stats.error, _NO_BUCKET if bucket is None else bucket)
            known = sums.get(kind)
            if known is None:
                sums[kind] = [1, seconds, seconds, seconds]
            else:
                known[0] += 1
                known[1] += seconds
                if seconds < known[2]:
                    known[2] = seconds
                elif seconds > known[3]:
                    known[3] = seconds
            if stats.effect != "none" and tool:
                place = (caller, call.thread, tool)
                several = outcomes.get(place)
                if several is None:
                    outcomes[place] = [stats]
                else:
                    several.append(stats)
                if stats.shared:
                    outcomes.setdefault((*SHARED_PLACE, tool), []).append(stats)
        for place, several in outcomes.items():
            for run in runs_of_outcomes(several):
                self._change_health(
                    run.effect, (run.count, run.first_at, run.last_at, run.cause, run.tool_version), place
                )
        for kind, known in sums.items():
            self._add_figure((*known, *kind))
        self._ended.clear()

    def _change_health(self, effect: HealthEffect, run: tuple[int, float, float, str, str], place: _Place) -> None:
        sql = _CHANGE_HEALTH[effect]
        values = run + place
        self._execute(sql, values)
        if self._changes() == 0:
            self._execute(_NEW_HEALTH, place)
            self._execute(sql, values)

    def _add_figure(self, values: tuple[Any, ...]) -> None:
        """`values`: the sums, then the kind of the outcomes."""
        self._execute(_ADD_FIGURE, values)
        if self._changes() == 0:
            self._execute(_NEW_FIGURE, values)


# Tool health and figures.

_FIELDS = """completions, failures, consecutive_failures, first_success_at, last_success_at, last_failure_at, last_error,
    status, reason, by, announced, updated_at, tool_version"""
_THREAD_HEALTH = f"SELECT tool, version, {_FIELDS} FROM tool_health WHERE caller = ? AND thread = ?"  # noqa: S608  # a constant
_ONE_HEALTH = f"{_THREAD_HEALTH} AND tool = ?"
_CREATE_HEALTH = f"""INSERT INTO tool_health (caller, thread, tool, version, {_FIELDS})
    VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""  # noqa: S608  # a constant
_PUT_HEALTH = f"""UPDATE tool_health SET (version, {_FIELDS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    WHERE caller = ? AND thread = ? AND tool = ? AND version = ?"""  # noqa: S608  # a constant


def tool_health(connection: apsw.Connection, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth]:
    one = (caller, thread) if tool is None else (caller, thread, tool)
    rows = connection.execute(_THREAD_HEALTH if tool is None else _ONE_HEALTH, one)
    return [
        ToolHealth(
            tool=name,
            version=version,
            completions=completions,
            failures=failures,
            consecutive_failures=in_a_row,
            first_success_at=first,
            last_success_at=success,
            last_failure_at=failure,
            last_error=error,
            status=status,
            reason=reason,
            by=by,
            announced=announced,
            updated_at=updated,
            tool_version=tool_version,
        )
        for (
            name, version, completions, failures, in_a_row, first, success, failure, error, status, reason, by, announced,
            updated, tool_version,
        ) in rows
    ]  # fmt: skip


def put_tool_health(connection: apsw.Connection, caller: str, thread: str, new: ToolHealth, expect: int) -> bool:
    place = (caller, thread, new.tool)
    values = (
        new.completions,
        new.failures,
        new.consecutive_failures,
        new.first_success_at,
        new.last_success_at,
        new.last_failure_at,
        new.last_error,
        new.status,
        new.reason,
        new.by,
        new.announced,
        new.updated_at,
        new.tool_version,
    )
    if expect == 0:
        connection.execute(_CREATE_HEALTH, place + values)
    else:
        connection.execute(_PUT_HEALTH, (expect + 1, *values, *place, expect))
    return connection.changes() > 0


def idle(connection: apsw.Connection, since: float, after: _Place, limit: int) -> list[_Place]:
    """Health rows that nothing changed since then, in the order of their names. There is no index to find them, because every
    ending call would pay for it; this scan is made by a reader, and no call waits for it."""
    sql = """SELECT caller, thread, tool FROM tool_health WHERE updated_at < ? AND status IS NULL AND (caller, thread, tool) > (?, ?, ?)
        ORDER BY caller, thread, tool LIMIT ?"""
    return [(caller, thread, tool) for caller, thread, tool in connection.execute(sql, (since, *after, limit))]


def forget(connection: apsw.Connection, since: float, places: Sequence[_Place]) -> None:
    """Remove these rows, unless an outcome changed them meanwhile."""
    sql = "DELETE FROM tool_health WHERE caller = ? AND thread = ? AND tool = ? AND updated_at < ? AND status IS NULL"
    connection.executemany(sql, [(*place, since) for place in places])


def figures(connection: apsw.Connection, caller: str | None) -> list[Figure]:
    sql = "SELECT caller, tool, outcome, error, nullif(bucket, ?), count, seconds, least, most FROM figures"
    rows = connection.execute(
        sql if caller is None else f"{sql} WHERE caller = ?", (_NO_BUCKET,) if caller is None else (_NO_BUCKET, caller)
    )
    return [Figure(**dict(zip(Figure.__struct_fields__, row, strict=True))) for row in rows]


# Documents and the audit log.


def document(connection: apsw.Connection, kind: str, key: str) -> StoredDocument | None:
    sql = "SELECT body, version, updated_at FROM documents WHERE kind = ? AND key = ?"
    for body, version, updated in connection.execute(sql, (kind, key)):
        return StoredDocument(kind=kind, key=key, body=body, version=version, updated_at=updated)
    return None


def put_document(connection: apsw.Connection, kind: str, key: str, body: bytes, expect: int | None) -> bool:
    values = (body, system.now(), kind, key)
    if expect is None or expect == 0:
        sql = "INSERT INTO documents (body, updated_at, kind, key, version) VALUES (?1, ?2, ?3, ?4, 1) ON CONFLICT DO "
        update = f"UPDATE SET body = ?1, updated_at = ?2, version = {_more('version', '1')}"
        connection.execute(sql + ("NOTHING" if expect == 0 else update), values)
    else:
        sql = "UPDATE documents SET body = ?, updated_at = ?, version = version + 1 WHERE kind = ? AND key = ? AND version = ?"
        connection.execute(sql, (*values, expect))
    return connection.changes() > 0


def put_documents(connection: apsw.Connection, writes: Sequence[DocumentWrite]) -> bool:
    """In a transaction, so that no version changes between the look and the write."""
    sql = "SELECT version FROM documents WHERE kind = ? AND key = ?"
    for write in writes:
        if (connection.execute(sql, (write.kind, write.key)).get or 0) != write.expect:
            return False
    for write in writes:
        put_document(connection, write.kind, write.key, write.body, write.expect)
    return True


def delete_document(connection: apsw.Connection, kind: str, key: str) -> bool:
    connection.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key))
    return connection.changes() > 0


def documents(connection: apsw.Connection, kind: str, after: str, limit: int) -> list[StoredDocument]:
    """SQLite compares text byte by byte, which for UTF-8 is by code point."""
    sql = "SELECT key, body, version, updated_at FROM documents WHERE kind = ? AND key > ? ORDER BY key LIMIT ?"
    return [
        StoredDocument(kind=kind, key=key, body=body, version=version, updated_at=updated)
        for key, body, version, updated in connection.execute(sql, (kind, after, limit))
    ]


def audit(connection: apsw.Connection, bodies: Sequence[bytes]) -> None:
    now = system.now()
    connection.executemany("INSERT INTO audit (at, body) VALUES (?, ?)", [(now, body) for body in bodies])


def audited(connection: apsw.Connection, before: int | None, limit: int) -> list[Audited]:
    sql = "SELECT number, at, body FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?"
    rows = connection.execute(sql, ((1 << 63) - 1 if before is None else before, limit))
    return [Audited(number=number, at=at, body=body) for number, at, body in rows]
