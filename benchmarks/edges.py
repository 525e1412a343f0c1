"""The call table as plain text, for peers that cannot import ours. `ours/kernel.py` uses the real one."""

from __future__ import annotations

__all__ = ["EDGES", "STATES"]

STATES = "pending initializing running streaming completed failed timeout cancelled retrying".split()
_BAD = ["failed", "timeout", "cancelled"]
EDGES = {
    "pending": ["initializing", "completed", *_BAD],
    "initializing": ["running", *_BAD],
    "running": ["streaming", "completed", "retrying", *_BAD],
    "streaming": ["completed", "retrying", *_BAD],
    "retrying": ["running", *_BAD],
}
