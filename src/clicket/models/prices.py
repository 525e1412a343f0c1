"""Token counts of a reply, as far as they can be trusted, and their cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.chat import Usage, input_parts

__all__ = ["Prices", "token_count"]

_MAX_COUNT = 1 << 53
"""A larger count is not a whole number in JSON any more."""


def token_count(value: Any) -> int:
    """A count that a server sent; 0 for anything but a positive integer."""
    return min(value, _MAX_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Prices:
    """Prices of a million tokens, in any currency. Without `cached` and `cache_write`, tokens that the vendor reads from its prompt cache
    or writes to it cost as much as other input."""

    def __init__(self, given: Mapping[str, float] | None) -> None:
        known = ("input", "output", "cached", "cache_write")
        for key, value in (given or {}).items():
            if key not in known:
                raise UsageError(
                    f"prices has no {key!r}.{did_you_mean(str(key), known)} Known: {', '.join(known)}, "
                    "each for a million tokens."
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise UsageError(f"prices: {key} is the price of a million tokens, 0 or more: {value!r}")
        made = dict(given or {})
        self._input, self._output = made.get("input", 0.0), made.get("output", 0.0)
        self._cached = made.get("cached", self._input)
        self._cache_write = made.get("cache_write", self._input)

    def priced(self, usage: Usage) -> Usage:
        fresh, cached, written = input_parts(usage)
        read = fresh * self._input + cached * self._cached + written * self._cache_write
        cost = (read + usage.output_tokens * self._output) / 1_000_000
        return usage if not cost else msgspec.structs.replace(usage, cost=cost)
