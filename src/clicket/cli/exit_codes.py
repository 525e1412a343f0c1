"""Exit codes of commands. They are a contract."""

from __future__ import annotations

__all__ = ["DONE", "FAILED", "INTERRUPTED", "UNREACHABLE", "WRONG_USE"]

DONE = 0
FAILED = 1
WRONG_USE = 2
UNREACHABLE = 3
INTERRUPTED = 130
