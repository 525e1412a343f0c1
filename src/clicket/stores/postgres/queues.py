"""Calls that have no owner, counted by their queue, and rates that all owners share."""

from __future__ import annotations

from clicket.model.ports import Backlog, TakenTokens
from clicket.stores.postgres.pool import Pool

__all__ = ["Queues"]

_TAKE = "SELECT granted, remaining, wait FROM take_tokens($1::text, $2::float8, $3::integer, $4::integer)"
# The index is read from queue to queue and counted; of each queue one call is read for its time.
_BACKLOG = """WITH RECURSIVE queues AS (
        (SELECT c.queue FROM calls c WHERE c.ended_at IS NULL AND c.owner IS NULL AND c.queue IS NOT NULL
            ORDER BY c.queue LIMIT 1)
        UNION ALL
        SELECT next.queue FROM queues q CROSS JOIN LATERAL (
            SELECT c.queue FROM calls c WHERE c.ended_at IS NULL AND c.owner IS NULL AND c.queue > q.queue
            ORDER BY c.queue LIMIT 1) next)
    SELECT q.queue, counted.number, (SELECT c.created_at FROM calls c WHERE c.key = counted.oldest)
    FROM queues q CROSS JOIN LATERAL (
        SELECT count(*) AS number, min(c.key) AS oldest FROM calls c
        WHERE c.queue = q.queue AND c.ended_at IS NULL AND c.owner IS NULL) counted
    WHERE counted.number > 0 ORDER BY q.queue"""
_MOST = 2**31 - 1


class Queues:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        """A request whose answer was lost is made again: its tokens are lost then, and no more than allowed are used."""
        rows = await self._pool.query(_TAKE, name, float(rate), min(burst, _MOST), min(count, _MOST))
        return TakenTokens(*rows[0])

    async def backlog(self) -> list[Backlog]:
        rows = await self._pool.query(_BACKLOG)
        return [Backlog(queue=queue, count=count, oldest_at=oldest) for queue, count, oldest in rows]
