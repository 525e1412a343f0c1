"""Tokens and notes of the running stage of a search.

A part may serve many searches at once, so it holds no counters. `Part.run` opens a `StageUsage` around each stage in a context
variable; `add_usage` and `add_note` write to it from any task of that stage, also when the stage is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from clicket.model.chat import Usage

__all__ = ["StageUsage", "add_note", "add_usage", "current_usage", "track_usage"]

_MAX_NOTES = 20
_MAX_NOTE = 500


class StageUsage:
    """What one stage used and noted. `max_tokens` is what models may still use in it, `seconds` how long it may take; None means
    no limit."""

    def __init__(self, max_tokens: int | None = None, seconds: float | None = None) -> None:
        self.max_tokens = max_tokens
        self.seconds = seconds
        self.usage = Usage()
        self.notes: list[str] = []

    @property
    def tokens_left(self) -> int | None:
        return None if self.max_tokens is None else max(self.max_tokens - self.usage.total, 0)


_CURRENT: ContextVar[StageUsage | None] = ContextVar("clicket_search_usage", default=None)


@contextmanager
def track_usage(max_tokens: int | None = None, seconds: float | None = None) -> Iterator[StageUsage]:
    """Collect the usage and the notes of what runs inside."""
    stage = StageUsage(max_tokens, seconds)
    outer = _CURRENT.get()
    _CURRENT.set(stage)
    try:
        yield stage
    finally:
        _CURRENT.set(outer)


def current_usage() -> StageUsage:
    """The usage of the running stage; outside of a stage, a new one without limits."""
    return _CURRENT.get() or StageUsage()


def add_usage(usage: Usage) -> None:
    stage = current_usage()
    stage.usage = stage.usage + usage


def add_note(text: str) -> None:
    """Add a note to the stage's. Repeated texts are added once; number and length are bounded."""
    notes = current_usage().notes
    if text[:_MAX_NOTE] not in notes and len(notes) < _MAX_NOTES:
        notes.append(text[:_MAX_NOTE])
