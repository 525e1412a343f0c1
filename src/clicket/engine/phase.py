"""Where a runtime is between its opening and its end. One value for all parts, so that none can be forgotten when it closes."""

from __future__ import annotations

__all__ = ["Phase"]


class Phase:
    """`closing.py` writes it."""

    def __init__(self) -> None:
        self.closing = False
        """No call is accepted, claimed or taken over any more; those that run finish or are stopped."""
        self.closed = False
        """The store is closed: nothing is written any more."""
