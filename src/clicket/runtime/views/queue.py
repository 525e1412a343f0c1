"""`Runtime.queue`: the calls of the store that wait for a worker."""

from __future__ import annotations

from typing import Protocol

from clicket.engine.fleet.queues import FIRST_VERSION, is_served
from clicket.engine.fleet.worker_list import living_workers
from clicket.errors import PermissionDenied
from clicket.model.ports import LATER, Clock, QueueName, Store
from clicket.model.queue import QueueReport, WaitingCalls

__all__ = ["queue"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...


async def queue(runtime: _Runtime, tool: str | None = None) -> QueueReport:
    """The calls that wait for a worker, of all tools or one, in the whole store. Read from the store, so the same in every process. A
    runtime for one caller (`acting_for`) may not read it."""
    if runtime._caller is not None:
        raise PermissionDenied("the queue is for the operator of this runtime, not for one of its callers.")
    store = runtime.store
    backlog = await store.backlog()
    workers = await living_workers(store) if backlog else []
    now = runtime.clock.now()
    items, later = [], 0
    for each in backlog:
        name = QueueName.of(each.queue)
        if name.holder == LATER:
            later += each.count if tool in (None, name.tool) else 0
        elif tool is None or name.tool == tool:
            items.append(
                WaitingCalls(
                    tool=name.tool,
                    version=name.version or FIRST_VERSION,
                    worker=name.holder,
                    length=each.count,
                    oldest_at=each.oldest_at,
                    oldest_seconds=max(now - each.oldest_at, 0.0),
                    served=is_served(name, workers),
                )
            )
    oldest = max((each.oldest_seconds for each in items), default=0.0)
    return QueueReport(length=sum(each.length for each in items), oldest_seconds=oldest, items=items, later=later)
