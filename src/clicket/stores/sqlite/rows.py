"""Rows become calls again. A row that another program wrote, or that a disk spoiled, is shown as damaged and stops no call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import clear_frames
from typing import Any, TypeVar

import apsw

from clicket.model import Event, load_call, load_events
from clicket.model.ports import Stored
from clicket.stores.sqlite.schema import EVENT_BITS

__all__ = ["at_one_moment", "conditions", "read_events", "select", "units_of"]

T = TypeVar("T")
# Text that is not UTF-8 can only be read as bytes.
_COLUMNS = "key, CAST(id AS BLOB), seq, fence, claims, owner, first_unit, last_unit, last_unit_seq"
_UNITS = "SELECT row, body FROM events WHERE row >= ? AND row < ? ORDER BY row"
_HOLDING = "SELECT max(row) FROM events WHERE row > ? AND row <= ?"


def conditions(wanted: dict[str, Any]) -> tuple[str, list[Any]]:
    """Column names come from this package alone; values are always bound."""
    given = {column: value for column, value in wanted.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given) or "1", list(given.values())


def select(connection: apsw.Connection, clause: str, values: Sequence[Any]) -> list[Stored]:
    rows = list(connection.execute(f"SELECT {_COLUMNS} FROM calls {clause}", values))  # noqa: S608  # see conditions
    return [_stored(connection, *row) for row in rows]


def _stored(
    connection: apsw.Connection, key: Any, id: Any, seq: int, fence: Any, claims: Any, owner: Any, *in_row: Any
) -> Stored:
    name = id.decode(errors="replace")
    events, damaged = load_call(name, units_of(connection, key, *in_row), seq)
    return Stored(key=key, fence=fence, claims=claims, owner=owner, events=events, id=name, damaged=damaged)


def read_events(connection: apsw.Connection, key: int, call_id: str, after: int) -> list[Event]:
    """From the unit that holds `after` on, so a few earlier events may come along. None, if the key is another call's now."""
    sql = "SELECT first_unit, last_unit, last_unit_seq FROM calls WHERE key = ? AND id = ?"
    for in_row in list(connection.execute(sql, (key, call_id))):
        return [
            event for unit in units_of(connection, key, *in_row, after=after) for event in load_events(call_id, unit)
        ]
    return []


def units_of(
    connection: apsw.Connection, key: int, first: Any, last: Any, last_seq: Any, *, after: int = 0
) -> list[bytes]:
    """The units of a call in order: those in its own row and those in rows of events, the latter from the one that holds event
    `after` on."""
    low, high = key << EVENT_BITS, (key + 1) << EVENT_BITS
    start = connection.execute(_HOLDING, (low, low | after)).get if after else None
    units = [(row - low, body) for row, body in connection.execute(_UNITS, (start or low, high))]
    if first is not None and start is None:
        units.insert(0, (1, first))
    if last is not None:  # a unit that was appended after the end of the call comes behind it
        number = last_seq or high
        units.insert(sum(1 for other, _ in units if other < number), (number, last))
    return [unit for _, unit in units]


def at_one_moment(connection: apsw.Connection, job: Callable[[apsw.Connection], T]) -> T:
    """Rows and events of one look belong together, whatever is written meanwhile."""
    connection.execute("BEGIN")
    try:
        return job(connection)
    except BaseException as error:
        clear_frames(error.__traceback__)  # a cursor that a frame still holds would keep the reader at this moment
        raise
    finally:
        connection.execute("COMMIT")
