"""Taking calls over. A claim whose answer was lost keeps its ticket: the next one gets the very calls that it took."""

from __future__ import annotations

from typing import Any

from clicket import system
from clicket.errors import ClicketError
from clicket.model.ports import Bus, Stored
from clicket.stores.fair_order import last_caller
from clicket.stores.redis.dead_owners import DeadOwner, DeadOwners
from clicket.stores.redis.rows import packed_rows, stored
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["Claims"]

_STEP = 50
"""Calls that one answer brings, with all their events."""
_BUDGET = 5_000
"""Calls of dead owners that one script looks at, whether it may take them or not."""


class Claims:
    def __init__(self, client: ScriptClient, dead_owners: DeadOwners, bus: Bus) -> None:
        self._client = client
        self._dead_owners = dead_owners
        self._bus = bus
        self._last_caller = ""
        self._unanswered: dict[str, list[str]] = {}

    async def orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        waiting: dict[DeadOwner, int] = dict.fromkeys(await self._dead_owners.dead(), 0)
        found: list[Stored] = []
        while waiting or self._unanswered.get("claim_orphans"):
            dead = [(id, seen, at) for (id, seen), at in waiting.items()]
            arguments = {
                "dead": dead,
                "tools": sorted(tools),
                "limit": min(_STEP, limit - len(found)),
                "budget": _BUDGET,
            }
            try:
                rows, ends, freed = await self._execute("claim_orphans", arguments)
            except ClicketError:
                if not found:
                    raise
                break  # return what was claimed so far; the next claim reports the error
            if freed:
                self._bus.post("slot", 0)
            found += [stored(row) for row in rows]
            if len(found) >= limit:
                break
            if ends:
                waiting = {dead: at for dead, at in zip(waiting, ends, strict=True) if at >= 0}
        return found

    async def waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        if not tools:
            return []
        found: list[Stored] = []
        while len(found) < limit:
            step = min(_STEP, limit - len(found))
            try:
                arguments = {
                    "tools": sorted(tools),
                    "limit": step,
                    "last_caller": self._last_caller,
                }
                rows = packed_rows(await self._execute("claim_waiting", arguments))
            except ClicketError:
                if not found:
                    raise
                break
            found += [stored(row) for row in rows]
            self._last_caller = last_caller(found, self._last_caller)
            if len(rows) < step:
                break
        return found

    async def one(self, key: int) -> Stored | None:
        done, *rest = await self._execute("claim", {"key": key}, str(key))
        if not done:
            owner, record, renewed, now = rest
            _, dead = self._dead_owners.judge(int(owner), record, renewed, float(now))
            if dead is None:
                return None
            done, *rest = await self._execute("claim", {"key": key, "dead": str(dead[0]), "seen": dead[1]}, str(key))
        return next((stored(row) for row in rest[0]), None) if done else None

    async def _execute(self, name: str, arguments: dict[str, Any], about: str = "") -> Any:
        """Under a ticket of its own. One that got no answer is used again by the next question of its kind."""
        kind = name + about
        left = self._unanswered.pop(kind, [])
        again = bool(left)
        ticket = left.pop() if left else system.random_hex(16)
        if left:
            self._unanswered[kind] = left
        try:
            return await self._client.write(name, {**arguments, "ticket": ticket}, again=again)
        except BaseException:
            self._unanswered.setdefault(kind, []).append(ticket)
            raise
