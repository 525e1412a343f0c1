"""What a store says of its queues: how many calls wait for a process, and how many may start under a rate."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["LATER", "Backlog", "QueueName", "TakenTokens", "put_away"]

LATER = "later"
"""The holder in the name of the queue in which calls of a tool wait for their time, or for a dep or a model of a run. No worker has this
id."""


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """One queue with calls that have no owner."""

    queue: str
    count: int
    oldest_at: float
    """When the one of them that was stored first was made, in seconds since the epoch."""


class TakenTokens(msgspec.Struct, frozen=True):
    """An answer to `Store.take`."""

    count: int
    left: int
    """Whole tokens that the bucket still has."""
    wait: float
    """Seconds until the next token comes; 0 if there is one."""


class QueueName(NamedTuple):
    """The parts of a queue's name. `version`: the version of the tool that its calls were accepted with; empty: the first one, and
    calls without a version. `holder`: the only worker that may claim its calls, because it holds their session; empty: every worker."""

    tool: str
    version: str = ""
    holder: str = ""

    @classmethod
    def of(cls, queue: str) -> QueueName:
        left, _, version = queue.partition("@")
        tool, _, holder = left.partition("#")
        return cls(tool, version, holder)

    def __str__(self) -> str:
        """`tool`, `tool@version`, `tool#holder@version`. The name of a tool has neither of the marks."""
        place = f"{self.tool}#{self.holder}" if self.holder else self.tool
        return f"{place}@{self.version}" if self.version else place


def put_away(tool: str) -> str:
    """The queue from which no process claims. Its calls are claimed by their keys, by a process that has what they wait for."""
    return str(QueueName(tool, holder=LATER))
