"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_SHORT = 50
"""Examples of a property in the short profile, unless it says otherwise (see `conftest.py`)."""


def examples(short: int) -> int:
    """`short` in a short run, and as many times more in a long run as for properties without a number of their own."""
    return max(short * settings().max_examples // _SHORT, 1)
