"""What a part says beside its answer: tokens that it spent, and what it could not do. Kept for one stage of one search.

A part may serve many searches at once, so it keeps no account itself. Whoever runs a stage opens a ledger around it; what
is told inside, in tasks of that stage too, lands there, even when the stage is cut off in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from clicket.model.chat import Usage

__all__ = ["Ledger", "current", "note", "opened", "spend"]

_MAX_NOTES = 20
_MAX_NOTE = 500


class Ledger:
    """The account of one stage. `max_tokens` is what models may still use in it, `seconds` how long it may take.

    None means that nobody counts.
    """

    def __init__(self, max_tokens: int | None = None, seconds: float | None = None) -> None:
        self.max_tokens = max_tokens
        self.seconds = seconds
        self.usage = Usage()
        self.notes: list[str] = []

    @property
    def left(self) -> int | None:
        return None if self.max_tokens is None else max(self.max_tokens - self.usage.total, 0)


_CURRENT: ContextVar[Ledger | None] = ContextVar("clicket_search_ledger", default=None)


@contextmanager
def opened(max_tokens: int | None = None, seconds: float | None = None) -> Iterator[Ledger]:
    """A new ledger for what is run inside."""
    ledger, outer = Ledger(max_tokens, seconds), _CURRENT.get()
    _CURRENT.set(ledger)
    try:
        yield ledger
    finally:
        _CURRENT.set(outer)


def current() -> Ledger:
    """The ledger of the stage that is under way; outside of any, one that nobody reads."""
    return _CURRENT.get() or Ledger()


def spend(usage: Usage) -> None:
    ledger = current()
    ledger.usage = ledger.usage + usage


def note(text: str) -> None:
    """Once for each text, and bounded: a part that complains in a loop fills no result."""
    notes = current().notes
    if text[:_MAX_NOTE] not in notes and len(notes) < _MAX_NOTES:
        notes.append(text[:_MAX_NOTE])
