"""Where a runtime is between its opening and its end: one value for the parts of the engine, so that none is forgotten when it closes."""

from __future__ import annotations

__all__ = ["Phase"]


class Phase:
    def __init__(self, *, leaves_calls: bool = False) -> None:
        self.closing = False
        """No call is accepted, claimed or taken over any more; those that run finish or are stopped."""
        self.leaves_calls = leaves_calls
        """Calls that are accepted here are run by other processes: always, or while this worker is drained or cordoned."""
        self.closed = False
        """Nothing is written any more."""
