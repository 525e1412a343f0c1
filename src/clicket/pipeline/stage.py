"""A stage: a name and a function of a call. It changes the call's working values, or raises; the pipeline records how it went."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from clicket.journal import LiveCall
from clicket.model import EventType
from clicket.model import Stage as StageRecord

__all__ = ["Stage", "ended"]


class Stage(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, call: LiveCall) -> Awaitable[None] | None: ...


def ended(call: LiveCall, name: str, outcome: str, duration: float) -> tuple[EventType, dict[str, Any]]:
    """Note a stage's end on the call; the event that puts it on record."""
    call.stages[name] = StageRecord(outcome, duration)
    return "stage_ended", {"stage": name, "outcome": outcome, "duration": duration}
