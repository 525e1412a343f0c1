"""How many examples a property is tried with, and how large a crowd or a text is."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples", "in_long_runs"]

_SHORT = 50
"""Examples of a property in the short profile, unless it says otherwise (see `conftest.py`)."""


def examples(short: int) -> int:
    """`short` in a short run, and as many times more in a long run as for properties without a number of their own."""
    return max(short * settings().max_examples // _SHORT, 1)


def in_long_runs(large: int, *, else_: int) -> int:
    """`large` in a long run. A short run has a size that shows the same behaviour for less CPU time."""
    return large if settings.get_current_profile_name() == "long" else else_
