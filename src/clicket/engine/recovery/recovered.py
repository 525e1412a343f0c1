"""What a recovery found: how many calls, and how each was handled."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

__all__ = ["Progress", "Recovered"]


class Recovered(msgspec.Struct, kw_only=True):
    """How many calls were found, and how each was handled."""

    queued: int = 0
    rerun: int = 0
    unknown: int = 0
    asked: int = 0
    reconciling: int = 0
    """Their tools are asked whether the attempt had its effect."""
    external: int = 0
    """They wait for a result from outside."""
    unavailable: int = 0
    cancelled: int = 0
    """They ended at once: cancelled, denied, answered by a person, or out of time."""
    damaged: int = 0

    @property
    def total(self) -> int:
        return sum(msgspec.structs.astuple(self))

    def count(self, what: str) -> None:
        """Count one more call under a field."""
        setattr(self, what, getattr(self, what) + 1)


Progress = Callable[[Recovered], None]
