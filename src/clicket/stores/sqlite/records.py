"""Standings, figures, papers and the audit log in SQLite. StatsBatch are written inside the transaction of their outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import apsw

from clicket.model.figures import Figure
from clicket.ports import Append, Audited, OutcomeStats, StoredDocument, ToolHealth, health_after

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
    "put_tool_health",
    "tool_health",
]

_NO_BUCKET = -(1 << 40)
"""A part of a primary key cannot be NULL."""


def _more(column: str, by: str) -> str:
    """So many more, whatever somebody wrote there: a number that cannot grow must not keep a call from ending."""
    return f"{column} = max(min({column}, 1 << 60), 0) + {by}"


_MOVE_STANDING = f"""INSERT INTO standings
    (caller, thread, tool, version, completions, failures, consecutive_failures, first_success_at, last_success_at,
     last_failure_at, last_error, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO UPDATE SET
    {_more("version", "?4")}, {_more("completions", "?5")}, {_more("failures", "?6")},
    consecutive_failures = iif(?13, 0, max(min(consecutive_failures, 1 << 60), 0)) + ?7,
    first_success_at = ifnull(first_success_at, ?8), last_success_at = ifnull(?9, last_success_at),
    last_failure_at = ifnull(?10, last_failure_at), last_error = iif(?6, ?11, last_error), updated_at = ?12"""  # noqa: S608  # constants
_ADD_FIGURE = f"""INSERT INTO figures (caller, tool, outcome, error, bucket, count, seconds, least, most)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET
    {_more("count", "?6")}, seconds = seconds + ?7, least = min(least, ?8), most = max(most, ?9)"""  # noqa: S608  # constants

_Place = tuple[str, str, str]
_Kind = tuple[str, str, str, str, int]
_Sum = tuple[int, float, float, float]


class StatsBatch:
    """StatsBatch of one transaction, added up: however many calls end in it, each row is written once."""

    def __init__(self) -> None:
        self._moves: dict[_Place, list[OutcomeStats]] = {}
        self._sums: dict[_Kind, _Sum] = {}

    def clear(self) -> None:
        self._moves.clear()
        self._sums.clear()

    def count(self, change: Append) -> None:
        """What the call that ends with this change adds; to be said once its outcome was taken."""
        stats = change.stats
        if stats is None:
            return
        seconds, bucket = stats.seconds, _NO_BUCKET if stats.bucket is None else stats.bucket
        kind = (change.call.caller, stats.tool, stats.outcome, stats.error, bucket)
        known = self._sums.get(kind)
        if known is None:
            self._sums[kind] = (1, seconds, seconds, seconds)
        else:
            count, total, least, most = known
            self._sums[kind] = (count + 1, total + seconds, min(least, seconds), max(most, seconds))
        if stats.effect != "none" and stats.tool:
            place = (change.call.caller, change.call.thread, stats.tool)
            moves = self._moves.get(place)
            if moves is None:
                self._moves[place] = [stats]
            else:
                moves.append(stats)

    def write(self, connection: apsw.Connection) -> None:
        """Move what is stored by what was added up. A standing that starts from nothing is its own difference; only
        whether failures in a row go on from those that are stored must be said beside it."""
        for place, stats_list in self._moves.items():
            connection.execute(
                _MOVE_STANDING, place + (_one(stats_list[0]) if len(stats_list) == 1 else _many(stats_list))
            )
        for kind, sums in self._sums.items():
            connection.execute(_ADD_FIGURE, kind + sums)
        self.clear()


def _one(stats: OutcomeStats) -> tuple[Any, ...]:
    at = stats.at
    if stats.effect == "failed":
        return 1, 0, 1, 1, None, None, at, stats.cause, at, False
    return 1, 1, 0, 0, at, at, None, "", at, stats.effect == "completed"


def _many(stats_list: Sequence[OutcomeStats]) -> tuple[Any, ...]:
    by: ToolHealth | None = None
    for stats in stats_list:
        by = health_after(by, stats)
    assert by is not None
    counts = (by.version, by.completions, by.failures, by.consecutive_failures)
    times = (by.first_success_at, by.last_success_at, by.last_failure_at)
    reset = any(stats.effect == "completed" for stats in stats_list)
    return *counts, *times, by.last_error, by.updated_at, reset


# Standings and figures.

_FIELDS = """completions, failures, consecutive_failures, first_success_at, last_success_at, last_failure_at, last_error,
    status, reason, by, announced, updated_at"""
_STANDINGS = f"SELECT tool, version, {_FIELDS} FROM standings WHERE caller = ? AND thread = ?"  # noqa: S608  # a constant
_STANDING = f"{_STANDINGS} AND tool = ?"
_CREATE_STANDING = f"""INSERT INTO standings (caller, thread, tool, version, {_FIELDS})
    VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""  # noqa: S608  # a constant
_PUT_STANDING = f"""UPDATE standings SET (version, {_FIELDS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    WHERE caller = ? AND thread = ? AND tool = ? AND version = ?"""  # noqa: S608  # a constant


def tool_health(connection: apsw.Connection, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth]:
    one = (caller, thread) if tool is None else (caller, thread, tool)
    rows = connection.execute(_STANDINGS if tool is None else _STANDING, one)
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
        )
        for (
            name, version, completions, failures, in_a_row, first, success, failure, error, status, reason, by, announced,
            updated,
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
    )
    if expect == 0:
        connection.execute(_CREATE_STANDING, place + values)
    else:
        connection.execute(_PUT_STANDING, (expect + 1, *values, *place, expect))
    return connection.changes() > 0


def idle(connection: apsw.Connection, since: float, after: _Place, limit: int) -> list[_Place]:
    """Standings that nothing touched, in the order of their names. There is no index to find them: every ending call would
    pay for it, and who looks through all of them here is a reader, for whom nobody waits."""
    sql = """SELECT caller, thread, tool FROM standings WHERE updated_at < ? AND status IS NULL AND (caller, thread, tool) > (?, ?, ?)
        ORDER BY caller, thread, tool LIMIT ?"""
    return [(caller, thread, tool) for caller, thread, tool in connection.execute(sql, (since, *after, limit))]


def forget(connection: apsw.Connection, since: float, places: Sequence[_Place]) -> None:
    """Unless something touched them meanwhile."""
    sql = "DELETE FROM standings WHERE caller = ? AND thread = ? AND tool = ? AND updated_at < ? AND status IS NULL"
    connection.executemany(sql, [(*place, since) for place in places])


def figures(connection: apsw.Connection, caller: str | None) -> list[Figure]:
    sql = "SELECT caller, tool, outcome, error, nullif(bucket, ?), count, seconds, least, most FROM figures"
    rows = connection.execute(
        sql if caller is None else f"{sql} WHERE caller = ?", (_NO_BUCKET,) if caller is None else (_NO_BUCKET, caller)
    )
    return [Figure(**dict(zip(Figure.__struct_fields__, row, strict=True))) for row in rows]


# Papers and the log.


def document(connection: apsw.Connection, kind: str, key: str) -> StoredDocument | None:
    sql = "SELECT body, version, updated_at FROM papers WHERE kind = ? AND key = ?"
    for body, version, updated in connection.execute(sql, (kind, key)):
        return StoredDocument(kind=kind, key=key, body=body, version=version, updated_at=updated)
    return None


def put_document(connection: apsw.Connection, kind: str, key: str, body: bytes, expect: int | None) -> bool:
    values = (body, time.time(), kind, key)
    if expect is None or expect == 0:
        sql = "INSERT INTO papers (body, updated_at, kind, key, version) VALUES (?1, ?2, ?3, ?4, 1) ON CONFLICT DO "
        update = f"UPDATE SET body = ?1, updated_at = ?2, {_more('version', '1')}"
        connection.execute(sql + ("NOTHING" if expect == 0 else update), values)
    else:
        sql = "UPDATE papers SET body = ?, updated_at = ?, version = version + 1 WHERE kind = ? AND key = ? AND version = ?"
        connection.execute(sql, (*values, expect))
    return connection.changes() > 0


def delete_document(connection: apsw.Connection, kind: str, key: str) -> bool:
    connection.execute("DELETE FROM papers WHERE kind = ? AND key = ?", (kind, key))
    return connection.changes() > 0


def documents(connection: apsw.Connection, kind: str, after: str, limit: int) -> list[StoredDocument]:
    """SQLite compares text byte by byte, which for UTF-8 is by code point."""
    sql = "SELECT key, body, version, updated_at FROM papers WHERE kind = ? AND key > ? ORDER BY key LIMIT ?"
    return [
        StoredDocument(kind=kind, key=key, body=body, version=version, updated_at=updated)
        for key, body, version, updated in connection.execute(sql, (kind, after, limit))
    ]


def audit(connection: apsw.Connection, bodies: Sequence[bytes]) -> None:
    now = time.time()
    connection.executemany("INSERT INTO audit (at, body) VALUES (?, ?)", [(now, body) for body in bodies])


def audited(connection: apsw.Connection, before: int | None, limit: int) -> list[Audited]:
    sql = "SELECT number, at, body FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?"
    rows = connection.execute(sql, ((1 << 63) - 1 if before is None else before, limit))
    return [Audited(number=number, at=at, body=body) for number, at, body in rows]
