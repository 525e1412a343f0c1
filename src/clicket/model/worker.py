"""A worker as it is listed: a runtime over a store, with its tools, its load and its state."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["WorkerInfo", "WorkerRole", "WorkerState"]

WorkerRole = Literal["worker", "server", "runtime"]
"""`worker`: `clicket worker`, which ends when it is drained. `server`: `clicket serve`. `runtime`: any other program."""

WorkerState = Literal["active", "draining", "cordoned", "lost"]
"""`active`: it takes calls. `cordoned`: it takes no new calls. `draining`: as cordoned, and its waiting calls go to other workers; a
worker process ends when its running calls have ended. `lost`: it ended without signing off, or does not renew its lease."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime that has a store open. Times are seconds since the epoch, by the clock of the worker's host."""

    id: str
    """The name of the host, the process id, and some random digits. Attempts have the same (`record.attempts[0].worker`)."""
    host: str
    pid: int
    version: str
    """Of clicket."""
    role: WorkerRole
    state: WorkerState
    tools: dict[str, str]
    """Names and versions of the tools whose calls run there: it has the labels that they need."""
    labels: tuple[str, ...]
    running: int
    """Calls that run there."""
    capacity: int
    """How many calls may run there at once. 0: it leaves all calls to other workers."""
    started_at: float
    seen_at: float
    """When it last renewed its entry, which it does every third of its lease."""
