"""Tokens of tools with a rate. The store counts them for all processes; this process remembers when the next one can come at the
earliest, so that it asks no more often than once a token."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from clicket.engine.phase import Phase
from clicket.model.ports import Capacity, Clock
from clicket.tools import Registry, Tool
from clicket.tools.rate import Rate

__all__ = ["SOON", "Rates"]

SOON = 0.25
"""A worker claims one call of a tool whose next token comes within this many seconds, so that it starts on time."""

_ASK_AGAIN = 0.01
"""Seconds after which `allowed` is asked again when calls of this process were about to take the tokens that the store had left."""


class Rates:
    def __init__(self, store: Capacity, registry: Registry, clock: Clock, phase: Phase) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._phase = phase
        self._next_at: dict[str, float] = {}
        self._asking: Counter[str] = Counter()
        """Calls of each tool that have a slot here and no token yet."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def begin(self, tool: Tool) -> None:
        """A call of the tool is about to take a token: until `end`, `allowed` leaves one for it."""
        self._asking[tool.name] += 1

    def end(self, tool: Tool) -> None:
        self._asking[tool.name] -= 1

    async def take(self, tool: Tool, rate: Rate) -> float:
        """Take a token for a call that starts. Returns 0, or the seconds until the next token can come. Raises `ClicketError`."""
        async with self._locks[tool.name]:
            wait = self._wait(tool.name)
            if wait > 0:
                return wait
            taken = await self._store.take(_name(tool), rate.per_second, rate.burst, 1)
            self._next_at[tool.name] = self._clock.monotonic() + taken.wait
            return 0.0 if taken.count else max(taken.wait, 0.001)

    async def allowed(self, rooms: Mapping[str, int], *, again: Callable[[], None]) -> dict[str, int]:
        """How many calls of each tool may be claimed: no more than could start under its rate now. `again` is called when a tool that
        is left out may start calls again."""
        found: dict[str, int] = {}
        waits: list[float] = []
        for name, room in rooms.items():
            tool = self._registry.get(name)
            rate = None if tool is None else tool.options.rate
            if tool is None or rate is None:
                found[name] = room
                continue
            wait = self._wait(name)
            if wait <= 0:
                asking = self._asking[name]  # the store may count before or after they take their tokens
                taken = await self._store.take(_name(tool), rate.per_second, rate.burst, 0)
                left = taken.left - asking
                wait = taken.wait
                if left > 0:
                    found[name] = min(room, left)
                    continue
                if asking:
                    waits.append(_ASK_AGAIN)
                    continue
                self._next_at[name] = self._clock.monotonic() + wait
            if wait <= SOON:
                found[name] = min(room, 1)
            else:
                waits.append(wait - SOON)
        if waits and not self._phase.closing:
            self._clock.call_later(min(waits), again)
        return found

    def _wait(self, name: str) -> float:
        return self._next_at.get(name, 0.0) - self._clock.monotonic()


def _name(tool: Tool) -> str:
    return f"tool:{tool.name}"
