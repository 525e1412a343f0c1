"""A bucket of tokens, for rates. Its state is one number: the time at which it would be full again if no more were taken.

Redis (`lua/take_tokens.lua`) and PostgreSQL (function `take_tokens`) do the same on their server, by its clock.
"""

from __future__ import annotations

from math import floor

from clicket.model.ports import TakenTokens

__all__ = ["take_tokens"]

_SLIP = 1e-9
"""Of a token: sums of floating-point numbers come a little short of a whole one."""


def take_tokens(full_at: float, now: float, rate: float, burst: int, count: int) -> tuple[TakenTokens, float]:
    """The answer to `Store.take`, and the new state. A state that is in a far future comes from before the clock was set back, or from
    a rate that was lower: the bucket counts as empty then, not as in debt."""
    full_at = min(max(full_at, now), now + burst / rate)
    there = burst - (full_at - now) * rate
    taken = max(min(count, floor(there + _SLIP)), 0)
    left = there - taken
    wait = 0.0 if left + _SLIP >= 1 else (1 - left) / rate
    return TakenTokens(taken, floor(left + _SLIP), wait), full_at + taken / rate
