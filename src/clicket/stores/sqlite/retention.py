"""What is kept of ended calls, and what goes: the oldest end first, a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import apsw

from clicket.ports import Keep, Sweep
from clicket.stores.sqlite.schema import EVENT_BITS

__all__ = ["count_over", "end_pins", "kept_artifacts", "loose_pins", "next_over", "pin", "sweep"]

# SQLite would give the greatest key to the next call, and a reader of the old call would read events of the new one. So the row
# stays, empty, until there is a newer one. (AUTOINCREMENT would prevent it, too, for 8 microseconds more with each call.)
_EMPTY = """UPDATE calls SET id = 'swept:' || key, thread = '', caller = '', tool = '', state = 'swept', owner = 0, bytes = 0,
    ended_at = NULL, waiting_for = NULL, first_unit = NULL, last_unit = NULL WHERE key = ?"""

_Row = tuple[Any, ...]
"""A call's key and its size."""


def next_over(connection: apsw.Connection, keep: Keep, limit: int) -> dict[int, int]:
    """Up to `limit` calls that break a bound, by their keys, with their sizes."""
    return dict(islice(_over(connection, keep, limit), limit))


def sweep(connection: apsw.Connection, going: dict[int, int], *, more: bool) -> Sweep:
    """Remove these calls. `more`: whether there may be others to remove."""
    newest: int = connection.execute("SELECT max(key) FROM calls").get
    for key in going:
        connection.execute("DELETE FROM events WHERE row > ? AND row < ?", (key << EVENT_BITS, (key + 1) << EVENT_BITS))
        connection.execute("DELETE FROM artifacts WHERE call = ?", (key,))
        connection.execute(_EMPTY if key == newest else "DELETE FROM calls WHERE key = ?", (key,))
    connection.execute(
        "DELETE FROM calls WHERE owner = 0 AND ended_at IS NULL AND state = 'swept' AND key < ?", (newest,)
    )
    return Sweep(calls=len(going), bytes=sum(going.values()), more=more)


def count_over(connection: apsw.Connection, keep: Keep) -> Sweep:
    """All that would go."""
    going: dict[int, int] = dict(_over(connection, keep, -1))
    return Sweep(calls=len(going), bytes=sum(going.values()))


# Pins: artifacts that stay although no call names them.


def pin(connection: apsw.Connection, name: str, until: float) -> None:
    sql = "INSERT INTO pins VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)"
    connection.execute(sql, (name, until))


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


def _over(connection: apsw.Connection, keep: Keep, limit: int) -> Iterator[_Row]:
    """Calls that break a bound, by key and size; some may come twice. A limit of -1 is none."""
    if keep.since is not None:
        sql = "SELECT key, bytes FROM calls WHERE ended_at < ? ORDER BY ended_at LIMIT ?"
        yield from connection.execute(sql, (keep.since, limit))
    if keep.calls is not None or keep.bytes is not None:
        calls, size = next(
            iter(connection.execute("SELECT count(*), ifnull(sum(bytes), 0) FROM calls WHERE ended_at IS NOT NULL"))
        )
        sql = "SELECT key, bytes FROM calls WHERE ended_at IS NOT NULL ORDER BY ended_at, key"
        yield from _excess(connection.execute(sql), calls, size, keep.calls, keep.bytes)
    if keep.thread_calls is not None or keep.thread_bytes is not None:
        sql = """SELECT thread, count(*), sum(bytes) FROM calls WHERE ended_at IS NOT NULL GROUP BY thread
            HAVING count(*) > ifnull(?, 9e18) OR sum(bytes) > ifnull(?, 9e18)"""
        for thread, calls, size in list(connection.execute(sql, (keep.thread_calls, keep.thread_bytes))):
            sql = "SELECT key, bytes FROM calls WHERE thread = ? AND ended_at IS NOT NULL ORDER BY ended_at, key"
            rows = connection.execute(sql, (thread,))
            yield from _excess(rows, calls, size, keep.thread_calls, keep.thread_bytes)


def _excess(
    rows: Iterable[_Row], calls: int, size: int, max_calls: int | None, max_bytes: int | None
) -> Iterator[_Row]:
    """The first of `rows`, until what is left fits."""
    for key, weight in rows:
        if not ((max_calls is not None and calls > max_calls) or (max_bytes is not None and size > max_bytes)):
            return
        calls, size = calls - 1, size - weight
        yield key, weight
