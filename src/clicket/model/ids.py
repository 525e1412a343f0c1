"""Ids that sort by time and cannot be guessed."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import time_ns

__all__ = ["new_id"]

_BYTES = 10
_BATCH = 200


def _generator() -> Callable[[], str]:
    """Randomness is fetched in batches: a system call per id would cost more than the rest of the id."""
    pool: list[str] = []
    millisecond, prefix = 0, ""

    def fill() -> str:
        first, *rest = os.urandom(_BYTES * _BATCH).hex(" ", _BYTES).split()
        pool.extend(rest)
        return first

    def generate() -> str:
        nonlocal millisecond, prefix
        now = time_ns() // 1_000_000
        if now != millisecond:
            prefix, millisecond = f"{now:012x}", now
        try:
            return prefix + pool.pop()
        except IndexError:
            return prefix + fill()

    os.register_at_fork(after_in_child=pool.clear)  # or parent and child would make the same ids
    return generate


new_id = _generator()
