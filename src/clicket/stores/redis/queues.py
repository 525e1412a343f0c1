"""Calls that have no owner, counted by their queue, and rates that all owners share."""

from __future__ import annotations

from clicket.model.ports import Backlog, TakenTokens
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["Queues"]

_MOST = 2**31 - 1


class Queues:
    def __init__(self, client: ScriptClient) -> None:
        self._client = client

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        """A request whose answer was lost is made again: its tokens are lost then, and no more than allowed are used."""
        arguments = {"name": name, "rate": repr(float(rate)), "burst": min(burst, _MOST), "count": min(count, _MOST)}
        taken, left, wait = await self._client.write("take_tokens", arguments)
        return TakenTokens(taken, left, float(wait))

    async def backlog(self) -> list[Backlog]:
        rows = await self._client.read("backlog", {})
        found = [
            Backlog(queue=queue.decode(errors="replace"), count=count, oldest_at=float(made or 0.0))
            for queue, count, made in rows
        ]
        return sorted(found, key=lambda each: each.queue)
