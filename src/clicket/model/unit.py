"""Units: the events of one call that are written together, packed as they are stored.

Most calls begin alike and end alike. The seven events of such a beginning differ in a few values, and so do the four of such an
ending: `Start` and `End` hold these values alone. Everything else is `Rows`, one row for each event. Events are made from a unit
only for readers; a plain call without readers never has any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from clicket.kernel import State
from clicket.model.event import Event, EventType

__all__ = [
    "End",
    "Row",
    "Rows",
    "Start",
    "Unit",
    "attempt_data",
    "dump_unit",
    "error_code_in",
    "events_in",
    "load_call",
    "load_events",
    "request_id_in",
    "rows_of",
]

Row = tuple[int, float, EventType, State, dict[str, Any]]
"""Number, time, type, the state after it, data: an event without the id of its call."""

_INITIALIZING = {"from": State.PENDING.value, "to": State.INITIALIZING.value}
_RUNNING = {"from": State.INITIALIZING.value, "to": State.RUNNING.value}


class Unit(Protocol):
    """What a journal hands to a store as one piece."""

    @property
    def length(self) -> int:
        """How many events it holds."""
        ...

    def rows(self) -> list[Row]:
        """Its events as rows."""
        ...

    def renumbered(self, by: int) -> Unit:
        """The same events with numbers that are higher by `by`."""
        ...


class Start(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="s"):
    """The beginning of a call that passed its first three stages and started at once: always events 1 to 7."""

    created: dict[str, Any]
    """The data of `created` without the arguments."""
    arguments: Any
    created_at: float
    find: float
    authorize: float
    validate: float
    """Seconds that the stages took."""
    started_at: float
    attempt: int
    worker: str = ""
    """The id of the worker, and the name of its host."""
    host: str = ""

    length: ClassVar[int] = 7

    def rows(self) -> list[Row]:
        created_at, started_at = self.created_at, self.started_at
        pending, ready, running = State.PENDING, State.INITIALIZING, State.RUNNING
        return [
            (1, created_at, "created", pending, {**self.created, "arguments": self.arguments}),
            (2, created_at, "stage_ended", pending, {"stage": "find", "outcome": "ok", "duration": self.find}),
            (
                3,
                created_at,
                "stage_ended",
                pending,
                {"stage": "authorize", "outcome": "ok", "duration": self.authorize},
            ),
            (4, created_at, "stage_ended", pending, {"stage": "validate", "outcome": "ok", "duration": self.validate}),
            (5, started_at, "state_changed", ready, _INITIALIZING.copy()),
            (6, started_at, "state_changed", running, _RUNNING.copy()),
            (7, started_at, "attempt_started", running, attempt_data(self.attempt, self.worker, self.host)),
        ]

    def renumbered(self, by: int) -> Start:
        raise AssertionError("a call starts with number 1")


def attempt_data(attempt: int, worker: str, host: str) -> dict[str, Any]:
    """The data of `attempt_started`."""
    return {"attempt": attempt, "worker": worker, "host": host} if worker else {"attempt": attempt}


class End(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="e"):
    """The end of a call whose tool completed with an output that is stored as it is: four events."""

    seq: int
    """The number of the first one."""
    at: float
    before: State
    """The state that the call ended from."""
    execute: float
    process: float
    persist: float
    """Seconds that the stages took."""
    duration: float
    """Seconds from the call's creation."""
    output: Any
    metadata: dict[str, Any] | None = None

    length: ClassVar[int] = 4

    def rows(self) -> list[Row]:
        seq, at, before = self.seq, self.at, self.before
        data = {"from": before.value, "to": "completed", "duration": self.duration, "output": self.output}
        if self.metadata:
            data["metadata"] = self.metadata
        return [
            (seq, at, "stage_ended", before, {"stage": "execute", "outcome": "ok", "duration": self.execute}),
            (seq + 1, at, "stage_ended", before, {"stage": "process", "outcome": "ok", "duration": self.process}),
            (seq + 2, at, "stage_ended", before, {"stage": "persist", "outcome": "ok", "duration": self.persist}),
            (seq + 3, at, "state_changed", State.COMPLETED, data),
        ]

    def renumbered(self, by: int) -> End:
        return msgspec.structs.replace(self, seq=self.seq + by)


class Rows(list[Row]):
    """Events of any kind, one row for each."""

    __slots__ = ()

    length = property(list.__len__)  # no function of Python's is called

    def rows(self) -> list[Row]:
        return self

    def renumbered(self, by: int) -> Rows:
        return Rows((seq + by, at, kind, state, data) for seq, at, kind, state, data in self)


dump_unit: Callable[[Unit], bytes] = msgspec.json.Encoder().encode
"""A unit as it is stored: JSON, the call's id left to the store."""
_decode_rows = msgspec.json.Decoder(list[Row]).decode
_decode_packed = msgspec.json.Decoder(Start | End).decode


def rows_of(events: Iterable[Event]) -> Rows:
    return Rows((event.seq, event.at, event.type, event.state, event.data) for event in events)


def request_id_in(unit: Unit | None) -> str | None:
    """The request that a call is part of, from its first unit."""
    if unit is None:
        return None
    found = (unit.created if isinstance(unit, Start) else unit.rows()[0][4]).get("request_id")
    return found if isinstance(found, str) and found else None


def error_code_in(unit: Unit | None) -> str | None:
    """The code of the error that ends a call, from the unit that ends it; None: it completed, or does not end."""
    if unit is None or isinstance(unit, Start | End):
        return None
    error = next((row[4].get("error") for row in reversed(unit.rows()) if row[3].is_terminal), None)
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


def events_in(unit: Unit, call_id: str) -> list[Event]:
    return [Event(call_id, seq, at, kind, state, data) for seq, at, kind, state, data in unit.rows()]


def load_events(call_id: str, text: bytes) -> list[Event]:
    """The events of a stored unit; raises a MsgspecError or a ValueError on text that `dump_unit` did not write."""
    rows = _decode_packed(text).rows() if text[1:2] == b'"' else _decode_rows(text)
    return [Event(call_id, seq, at, kind, state, data) for seq, at, kind, state, data in rows]


def load_call(call_id: str, units: Sequence[bytes], last: int | None = None) -> tuple[list[Event], str | None]:
    """All events of a call, or none and the reason why they cannot be a call's. For stores that other programs may write to.

    `last` is the number of the last event as the store has it beside the events.
    """
    events: list[Event] = []
    try:
        for unit in units:
            events += load_events(call_id, unit)
    except (msgspec.MsgspecError, ValueError, RecursionError, TypeError) as error:
        return [], f"not events as clicket writes them: {error}"
    if not events:
        return [], "there are no events"
    if last is not None and last != events[-1].seq:
        return [], f"there are {events[-1].seq}, where {last} are on record"
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        return [], "their numbers are not 1, 2, 3 …"
    first = events[0]
    names = (first.data.get("tool"), first.data.get("thread"), first.data.get("caller", ""))
    if first.type != "created" or set(map(type, names)) != {str}:
        return [], "the first one does not say what was called, and by whom"
    return events, None
