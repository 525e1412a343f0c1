"""Where a fork comes from."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from clicket.model.codec import canonical
from clicket.model.ids import new_id

__all__ = ["Fork", "Origin", "fork_name"]

_DIGEST = 16
_MAX_STEM = 480


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a fork: it has the turns of `thread` up to `after`, and with `step` the next one up to the results of that step."""

    thread: str
    after: int
    step: int | None = None
    at: float = 0.0
    """When the last thing that it has happened, in seconds since the epoch."""

    def is_same(self, other: Origin | None) -> bool:
        return other is not None and (self.thread, self.after, self.step) == (other.thread, other.after, other.step)

    @property
    def digest(self) -> str:
        return sha256(canonical([self.thread, self.after, self.step])).hexdigest()[:_DIGEST]


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A fork, in the tree of forks of a thread. `turns`: how many have ended, those that it took along included."""

    thread: str
    agent: str
    origin: Origin
    made_at: float
    turns: int
    forks: list[Fork] = []
    """Of this fork."""


def fork_name(thread: str) -> str:
    """A new name for a fork of a thread."""
    return f"{thread[:_MAX_STEM]}-fork-{new_id()[-8:]}"
