"""Progress reports of long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["progress"]

_SILENCE = 10.0
"""Seconds between two lines about the same work."""


def progress(what: str) -> Callable[[int, int], None]:
    """Reports progress on stderr: in place on a terminal, elsewhere a line now and then, and one at the end."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if sys.stderr.isatty():
            print(
                f"\r{what}: {done:,} of {total:,}\x1b[K", end="\n" if done >= total else "", file=sys.stderr, flush=True
            )
        elif done >= total or time.monotonic() - told > _SILENCE:
            told = time.monotonic()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return tell
