"""The calls that wait for a worker, as people and autoscalers see them."""

from __future__ import annotations

import msgspec

__all__ = ["QueueReport", "WaitingCalls"]


class WaitingCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a tool that no process has, of one version of it."""

    tool: str
    version: str
    """The version of the tool that accepted them."""
    worker: str = ""
    """The only worker that takes them, because it holds their session; empty: every worker of the tool."""
    length: int
    oldest_at: float
    """When the oldest was made, in seconds since the epoch."""
    oldest_seconds: float
    """How long the oldest has waited."""
    served: bool
    """Does a living worker run this version of the tool, with its labels? If not, workers of another version take them."""


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of a store that wait for a worker, or those of one tool."""

    length: int
    oldest_seconds: float
    """0 if none waits."""
    items: list[WaitingCalls]
    later: int = 0
    """Calls that wait for their time (`not_before`), or for a dep or a model of a run; `length` does not count them."""
