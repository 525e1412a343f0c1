"""Rows become calls again. What somebody else wrote, or a disk spoiled, is shown as damaged and stops nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from clicket.model import Event, load_call, load_events
from clicket.ports import Stored
from clicket.stores.sqlite.schema import EVENT_BITS

__all__ = ["conditions", "read_events", "select"]

# Text that is not UTF-8 can only be read as bytes.
_COLUMNS = "key, CAST(id AS BLOB), seq, fence, claims, owner"


def conditions(wanted: dict[str, Any]) -> tuple[str, list[Any]]:
    """Column names come from this package alone; values are always bound."""
    given = {column: value for column, value in wanted.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given) or "1", list(given.values())


def select(connection: apsw.Connection, clause: str, values: Sequence[Any]) -> list[Stored]:
    rows = list(connection.execute(f"SELECT {_COLUMNS} FROM calls {clause}", values))  # noqa: S608  # see conditions
    return [_stored(connection, *row) for row in rows]


def _stored(connection: apsw.Connection, key: Any, id: Any, seq: int, fence: Any, claims: Any, owner: Any) -> Stored:
    low, high = key << EVENT_BITS, (key + 1) << EVENT_BITS
    rows = connection.execute("SELECT body FROM events WHERE row > ? AND row < ? ORDER BY row", (low, high))
    name = id.decode(errors="replace")
    events, damaged = load_call(name, [body for (body,) in rows], seq)
    return Stored(key=key, fence=fence, claims=claims, owner=owner, events=events, id=name, damaged=damaged)


def read_events(connection: apsw.Connection, key: int, call_id: str, after: int) -> list[Event]:
    """From the row that holds `after` on, so a few earlier events may come along. None, if the key is another call's now."""
    if connection.execute("SELECT 1 FROM calls WHERE key = ? AND id = ?", (key, call_id)).get is None:
        return []
    low, high = key << EVENT_BITS, (key + 1) << EVENT_BITS
    if after:
        start = connection.execute("SELECT max(row) FROM events WHERE row > ? AND row <= ?", (low, low | after)).get
        low = (start or low + 1) - 1
    rows = connection.execute("SELECT body FROM events WHERE row > ? AND row < ? ORDER BY row", (low, high))
    return [event for (body,) in rows for event in load_events(call_id, body)]
