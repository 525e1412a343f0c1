"""`Runtime.queue`: the calls of the store that wait for a worker."""

from __future__ import annotations

from clicket.engine.queues import FIRST_VERSION, is_served
from clicket.engine.worker_list import living_workers
from clicket.errors import PermissionDenied
from clicket.model.queue import QueueReport, WaitingCalls
from clicket.ports import Clock, QueueName, Store

__all__ = ["read_queue"]


async def read_queue(store: Store, clock: Clock, caller: str | None, tool: str | None) -> QueueReport:
    """Read from the store, so the same in every process. A runtime for one caller (`acting_for`) may not read it."""
    if caller is not None:
        raise PermissionDenied("the queue is for the operator of this runtime, not for one of its callers.")
    backlog = await store.backlog()
    workers = await living_workers(store) if backlog else []
    now = clock.now()
    items = []
    for each in backlog:
        queue = QueueName.of(each.queue)
        if tool is None or queue.tool == tool:
            items.append(
                WaitingCalls(
                    tool=queue.tool,
                    version=queue.version or FIRST_VERSION,
                    worker=queue.holder,
                    length=each.count,
                    oldest_at=each.oldest_at,
                    oldest_seconds=max(now - each.oldest_at, 0.0),
                    served=is_served(queue, workers),
                )
            )
    oldest = max((each.oldest_seconds for each in items), default=0.0)
    return QueueReport(length=sum(each.length for each in items), oldest_seconds=oldest, items=items)
