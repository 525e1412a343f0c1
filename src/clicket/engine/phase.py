"""Where a runtime is between its opening and its end: one value for the parts of the engine, so that none is forgotten when it closes."""

from __future__ import annotations

__all__ = ["Phase"]


class Phase:
    def __init__(self) -> None:
        self.closing = False
        """No call is accepted, claimed or taken over any more; those that run finish or are stopped."""
        self.closed = False
        """Nothing is written any more."""
