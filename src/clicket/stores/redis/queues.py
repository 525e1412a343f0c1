"""Calls that have no owner, counted by their queue, and rates that all owners share."""

from __future__ import annotations

from clicket.model.ports import Backlog, Grant
from clicket.stores.redis.session import Session

__all__ = ["Queues"]

_MOST = 2**31 - 1


class Queues:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def take(self, name: str, rate: float, burst: int, count: int) -> Grant:
        """A request whose answer was lost is made again: its tokens are lost then, and no more than allowed are used."""
        arguments = {"name": name, "rate": repr(float(rate)), "burst": min(burst, _MOST), "count": min(count, _MOST)}
        granted, left, wait = await self._session.write("take_tokens", arguments)
        return Grant(granted, left, float(wait))

    async def backlog(self) -> list[Backlog]:
        rows = await self._session.read("backlog", {})
        found = [
            Backlog(queue=queue.decode(errors="replace"), count=count, oldest_at=float(made or 0.0))
            for queue, count, made in rows
        ]
        return sorted(found, key=lambda each: each.queue)
