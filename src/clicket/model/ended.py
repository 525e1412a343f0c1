"""How a call ended, read from its stored units without building its events: what the statistics count, and nothing else.

A unit is decoded into structs that name only the fields that are counted; the decoder skips all others. That takes a
twentieth of the time of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.model.figures import error_label

__all__ = ["Ended", "ended_from", "plain_end"]


class Ended(msgspec.Struct, frozen=True, gc=False):
    """What the statistics count of an ended call."""

    key: int
    """The store's handle of the call: the next page goes on below it."""
    caller: str
    tool: str
    """Empty for a tool that was not registered."""
    outcome: str
    error: str
    """As `Figure.error`."""
    seconds: float | None
    """The run time; None: the tool's code never ran, or the result came from the cache."""


class _Created(msgspec.Struct, gc=False):
    tool_version: Any = msgspec.UNSET


class _Start(msgspec.Struct, gc=False, array_like=True, tag="s"):
    """The beginning of `clicket.model.unit.Start`; the rest is skipped."""

    created: _Created


class _End(msgspec.Struct, gc=False, array_like=True, tag="e"):
    """The beginning of `clicket.model.unit.End`."""

    seq: int
    at: float
    before: str
    execute: float


class _Error(msgspec.Struct, gc=False):
    code: str = ""
    type: str = ""


class _Data(msgspec.Struct, gc=False):
    tool_version: Any = msgspec.UNSET
    stage: Any = None
    duration: Any = None
    error: Any = None
    cached: Any = False


_start, _end = msgspec.json.Decoder(_Start), msgspec.json.Decoder(_End)
_packed = msgspec.json.Decoder(_Start | _End)
_rows = msgspec.json.Decoder(list[tuple[int, float, str, str, _Data]])
_TERMINAL = frozenset({"completed", "failed", "timeout", "cancelled"})
_START_LENGTH, _END_LENGTH = 7, 4


class _Sum(msgspec.Struct):
    """What the units say so far."""

    events: int = 0
    is_registered: bool = False
    seconds: float | None = None
    outcome: str = ""
    error: str = ""
    cached: bool = False

    def add(self, unit: bytes) -> None:
        if unit[1:2] != b'"':
            for seq, _, kind, state, data in _rows.decode(unit):
                self._add_row(seq, kind, state, data)
            return
        packed = _packed.decode(unit)
        if isinstance(packed, _Start):
            self.is_registered = packed.created.tool_version is not msgspec.UNSET
            self.events += _START_LENGTH
        else:
            self.seconds = packed.execute
            self.outcome = "completed"
            self.events += _END_LENGTH

    def _add_row(self, seq: int, kind: str, state: str, data: _Data) -> None:
        self.events += 1
        if seq == 1:
            self.is_registered = data.tool_version is not msgspec.UNSET
        elif kind == "stage_ended":
            if data.stage == "execute":
                self.seconds = float(data.duration)
        elif kind == "state_changed" and state in _TERMINAL:
            self.outcome, self.cached = state, data.cached is True
            if data.error:
                error = msgspec.convert(data.error, _Error)
                self.error = error_label(error.code, error.type)


def plain_end(key: int, caller: str, tool: str, last: int, start: bytes, end: bytes) -> Ended | None:
    """As `ended_from`, for a call that began and ended as most do; None: it did not."""
    if last != _START_LENGTH + _END_LENGTH:
        return None
    try:
        created = _start.decode(start).created
        seconds = _end.decode(end).execute
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return Ended(key, caller, tool if created.tool_version is not msgspec.UNSET else "", "completed", "", seconds)


def ended_from(key: int, caller: str, tool: str, last: int, units: Sequence[bytes]) -> Ended | None:
    """What is counted of a call; None if its units have no end, or are not what clicket writes. `last`: how many events it has."""
    found = _Sum()
    try:
        for unit in units:
            found.add(unit)
    except (msgspec.MsgspecError, ValueError, RecursionError, TypeError):
        return None
    if found.events != last or not found.outcome:
        return None
    seconds = None if found.cached else found.seconds
    return Ended(key, caller, tool if found.is_registered else "", found.outcome, found.error, seconds)
