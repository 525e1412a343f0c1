"""Ids that sort by time and cannot be guessed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["new_id"]

_BYTES = 10
_BATCH = 200


def _generator() -> Callable[[], str]:
    """Randomness is fetched in batches: a system call per id would cost more than the rest of the id."""
    pool = b""
    at = 0

    def forget() -> None:
        nonlocal pool, at
        pool, at = b"", 0

    def generate() -> str:
        nonlocal pool, at
        if at >= len(pool):
            pool, at = os.urandom(_BYTES * _BATCH), 0
        piece = pool[at : at + _BYTES]
        at += _BYTES
        return f"{time.time_ns() // 1_000_000:012x}{piece.hex()}"

    os.register_at_fork(after_in_child=forget)  # or parent and child would make the same ids
    return generate


new_id = _generator()
