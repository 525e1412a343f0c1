"""Why a file could not be read: one sentence for the person who put it there. It stops nobody but that file."""

from __future__ import annotations

__all__ = ["Unreadable"]


class Unreadable(Exception):
    """`again`: it may be otherwise next time, although the file is the same."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again
