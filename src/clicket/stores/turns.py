"""Whose turn it is when waiting calls are claimed: callers take turns, so that one caller's many calls do not delay another's first.

Each store object remembers the caller that it served last, and goes on after it in the order of names. Only the first waiting calls
by priority and age are looked at, so that a claim costs the same however many wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from clicket.ports import Stored

__all__ = ["LOOKED_AT", "last_caller"]

LOOKED_AT = 1_000


def last_caller(claimed: Sequence[Stored], before: str) -> str:
    """The caller of the last of these calls; `before`, if there is none."""
    if not claimed or not claimed[-1].events:
        return before
    caller = claimed[-1].events[0].data.get("caller", "")
    return caller if isinstance(caller, str) else before
