"""Taking calls over. A claim whose answer was lost keeps its ticket: the next one gets the very calls that it took."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from clicket.ports import Stored
from clicket.stores.redis.door import Door
from clicket.stores.redis.owners import Coroner, Death
from clicket.stores.redis.rows import stored

__all__ = ["Claims"]

_BUDGET = 5_000
"""Calls of dead owners that one script looks at, whether it may take them or not."""


class Claims:
    def __init__(self, door: Door, coroner: Coroner) -> None:
        self._door = door
        self._coroner = coroner
        self._unanswered: dict[str, str] = {}

    async def orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        waiting: dict[Death, int] = dict.fromkeys(await self._coroner.deaths(), 0)
        found: list[Stored] = []
        while waiting or "claim_orphans" in self._unanswered:
            dead = [(id, seen, at) for (id, seen), at in waiting.items()]
            ask = {"dead": dead, "tools": sorted(tools), "limit": limit - len(found), "budget": _BUDGET}
            rows, ends = await self._ask("claim_orphans", ask)
            found += [stored(row) for row in rows]
            if len(found) >= limit:
                break
            if ends:
                waiting = {death: at for death, at in zip(waiting, ends, strict=True) if at >= 0}
        return found

    async def waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        if not tools:
            return []
        return [stored(row) for row in await self._ask("claim_waiting", {"tools": sorted(tools), "limit": limit})]

    async def one(self, key: int) -> Stored | None:
        done, *told = await self._ask("claim", {"key": key}, str(key))
        if not done:
            owner, record, renewed, now = told
            _, death = self._coroner.judge(int(owner), record, renewed, float(now))
            if death is None:
                return None
            done, *told = await self._ask("claim", {"key": key, "dead": str(death[0]), "seen": death[1]}, str(key))
        return next((stored(row) for row in told[0]), None) if done else None

    async def _ask(self, name: str, ask: dict[str, Any], about: str = "") -> Any:
        """Under a ticket that stays open until there is an answer, also beyond this question."""
        again = name + about in self._unanswered
        ticket = self._unanswered.setdefault(name + about, uuid4().hex)
        answer = await self._door.write(name, {**ask, "ticket": ticket}, again=again)
        del self._unanswered[name + about]
        return answer
