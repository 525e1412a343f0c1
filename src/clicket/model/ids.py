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
    pool = ""
    at = 0

    def forget() -> None:
        nonlocal pool, at
        pool, at = "", 0

    def generate() -> str:
        nonlocal pool, at
        if at >= len(pool):
            pool, at = os.urandom(_BYTES * _BATCH).hex(), 0
        at += 2 * _BYTES
        return f"{time_ns() // 1_000_000:012x}{pool[at - 2 * _BYTES : at]}"

    os.register_at_fork(after_in_child=forget)  # or parent and child would make the same ids
    return generate


new_id = _generator()
