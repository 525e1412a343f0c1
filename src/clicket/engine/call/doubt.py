"""What becomes of an attempt whose outcome is not known: its process died or closed while it ran.

One rule for a take-over, for a runtime that closes, and for a body that was lost on another machine.
"""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = ["AfterDoubt", "Doubt", "after_doubt"]


class Doubt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the tool allows, and what is known."""

    may_repeat: bool
    """The tool may run again without a question: it says so, or it is safe to repeat and its author chose nothing else."""
    has_check: bool = False
    """The tool has a check that can be asked here whether the attempt had its effect."""
    asks: bool = False
    """A person decides about such attempts of the tool."""
    is_cancelled: bool = False
    """Somebody asked for a cancel: nobody needs to decide whether the call runs again."""


class AfterDoubt(Enum):
    REPEAT = "repeat"
    CHECK = "check"
    ASK = "ask"
    END_UNKNOWN = "end as outcome_unknown"


def after_doubt(doubt: Doubt) -> AfterDoubt:
    if doubt.may_repeat:
        return AfterDoubt.REPEAT
    if doubt.has_check:
        return AfterDoubt.CHECK
    if doubt.asks and not doubt.is_cancelled:
        return AfterDoubt.ASK
    return AfterDoubt.END_UNKNOWN
