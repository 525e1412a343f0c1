"""That a turn is another one, run again."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from clicket.errors import UsageError

__all__ = ["Again", "Effects", "checked_effects"]

Effects = Literal["recorded", "ask", "live"]
"""What becomes of a call that is not on record: it is refused, a person is asked, or it runs."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """A turn is turn `turn` of `thread`, run again."""

    thread: str
    turn: int
    effects: Effects = "recorded"


def checked_effects(effects: Any) -> Effects:
    if effects not in get_args(Effects):
        raise UsageError(f"effects is 'recorded', 'ask' or 'live', not {effects!r:.100}.")
    known: Effects = effects
    return known
