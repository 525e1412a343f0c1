"""A stage: a name and a function of a call. It changes the call's working values, or raises; the pipeline records how it went."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from clicket.journal import Journal, LiveCall
from clicket.model import Stage as StageRecord

__all__ = ["Stage", "record_stage"]


class Stage(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, call: LiveCall) -> Awaitable[None] | None: ...


def record_stage(journal: Journal, call: LiveCall, name: str, outcome: str, duration: float) -> None:
    """Put a stage's end on record."""
    call.stages[name] = StageRecord(outcome=outcome, duration=duration)
    journal.record(call, "stage_ended", {"stage": name, "outcome": outcome, "duration": duration})
