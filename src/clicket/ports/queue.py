"""What a store says of its queues: how many calls wait for a process, and how many may start under a rate."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["Backlog", "Grant", "QueueName", "queue_name"]


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """One queue with calls that have no owner."""

    queue: str
    count: int
    oldest_at: float
    """When the oldest of them was made, in seconds since the epoch."""


class Grant(msgspec.Struct, frozen=True):
    """An answer to `Store.take`."""

    granted: int
    left: int
    """Whole tokens that the bucket still has."""
    wait: float
    """Seconds until the next token comes; 0 if there is one."""


class QueueName(NamedTuple):
    """The parts of a queue's name. `version`: the version of the tool that its calls were accepted with; empty: any. `owner`: the
    number of the only owner that may claim its calls, because it holds their session; None: every worker of the tool."""

    tool: str
    version: str = ""
    owner: int | None = None

    @classmethod
    def of(cls, queue: str) -> QueueName:
        left, _, version = queue.partition("@")
        tool, mark, owner = left.partition("#")
        return cls(tool, version, int(owner)) if mark and owner.isdecimal() else cls(left, version)


def queue_name(tool: str, version: str = "", owner: int | None = None) -> str:
    """The name of a queue: `tool`, `tool@version`, `tool#owner@version`. The name of a tool has neither of the marks."""
    place = tool if owner is None else f"{tool}#{owner}"
    return f"{place}@{version}" if version else place
