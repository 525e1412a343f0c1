"""Calls that have no owner, and rates of tools: SQL that runs inside transactions. The index `calls_queues` is read from caller to
caller, so that a claim costs the same however many calls of one caller wait."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import Any

import apsw

from clicket import system
from clicket.model.ports import Backlog, TakenTokens
from clicket.stores.bucket import take_tokens

__all__ = ["backlog", "keys_in_fair_order", "take"]

_UNOWNED = "owner IS NULL AND ended_at IS NULL AND ifnull(queue, tool) = ?"
# Callers are read as bytes: a row that another program wrote may hold text that is not UTF-8.
_NEXT_CALLER = f"SELECT CAST(min(caller) AS BLOB) FROM calls WHERE {_UNOWNED} AND caller > CAST(? AS TEXT)"  # noqa: S608  # fixed text
_FIRST_CALLER = f"SELECT CAST(min(caller) AS BLOB) FROM calls WHERE {_UNOWNED}"  # noqa: S608  # fixed text
_LINE = f"""SELECT -priority, key FROM calls WHERE {_UNOWNED} AND caller = CAST(? AS TEXT)
    ORDER BY priority DESC, key LIMIT ?"""  # noqa: S608  # fixed text
_NEXT_QUEUE = """SELECT ifnull(queue, tool) FROM calls INDEXED BY calls_queues
    WHERE owner IS NULL AND ended_at IS NULL AND ifnull(queue, tool) > ? ORDER BY 1 LIMIT 1"""
_COUNT = f"SELECT count(*), min(key) FROM calls WHERE {_UNOWNED}"  # noqa: S608  # fixed text


def keys_in_fair_order(connection: apsw.Connection, queues: frozenset[str], limit: int, last_caller: str) -> list[int]:
    """Keys of the calls to claim: of each caller one, beginning after `last_caller`, then of each a second, by priority within a
    caller. No more than `limit` callers are looked at: those that come next."""
    callers: dict[bytes, list[str]] = {}
    last = last_caller.encode("utf-8", "surrogatepass")
    for queue in queues:
        for caller in _callers(connection, queue, last, limit):
            callers.setdefault(caller, []).append(queue)
    taken_of: Counter[bytes] = Counter()
    ranked: list[tuple[int, bool, bytes, int]] = []
    for caller in sorted(callers, key=lambda name: (name <= last, name))[:limit]:
        lines: list[list[Any]] = [
            connection.execute(_LINE, (queue, caller, limit)).fetchall() for queue in callers[caller]
        ]
        for _, key in heapq.merge(*lines):
            taken_of[caller] += 1
            ranked.append((taken_of[caller], caller <= last, caller, key))
            if taken_of[caller] == limit:
                break
    ranked.sort()
    return [key for *_, key in ranked[:limit]]


def _callers(connection: apsw.Connection, queue: str, last_caller: bytes, limit: int) -> Iterator[bytes]:
    """The callers with calls in a queue: those after `last_caller` in the order of names, then those up to it."""
    found = 0
    caller = connection.execute(_NEXT_CALLER, (queue, last_caller)).get
    while caller is not None and found < limit:
        yield caller
        found, caller = found + 1, connection.execute(_NEXT_CALLER, (queue, caller)).get
    caller = connection.execute(_FIRST_CALLER, (queue,)).get
    while caller is not None and found < limit and caller <= last_caller:
        yield caller
        found, caller = found + 1, connection.execute(_NEXT_CALLER, (queue, caller)).get


def backlog(connection: apsw.Connection) -> list[Backlog]:
    found = []
    queue = connection.execute(_NEXT_QUEUE, ("",)).get
    while queue is not None:
        ((count, key),) = connection.execute(_COUNT, (queue,))
        oldest_at = connection.execute("SELECT created_at FROM calls WHERE key = ?", (key,)).get
        found.append(Backlog(queue=queue, count=count, oldest_at=oldest_at))
        queue = connection.execute(_NEXT_QUEUE, (queue,)).get
    return found


def take(connection: apsw.Connection, name: str, rate: float, burst: int, count: int) -> TakenTokens:
    """By the clock of the machine, which starts anew with it."""
    sql = "SELECT full_at FROM buckets WHERE name = ? AND boot = ?"
    before = connection.execute(sql, (name, system.current().process().boot)).get or 0.0
    taken, full_at = take_tokens(before, system.uptime(), rate, burst, count)
    if taken.count or full_at < before:
        connection.execute(
            "INSERT OR REPLACE INTO buckets (name, boot, full_at) VALUES (?, ?, ?)",
            (name, system.current().process().boot, full_at),
        )
    return taken
