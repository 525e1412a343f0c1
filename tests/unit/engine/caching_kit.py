"""Shared by the tests of `caching`."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.cache.caching import Caching
from clicket.engine.cache.single_flight import SingleFlight
from clicket.engine.lifecycle.ending import result_from
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model.codec import encode
from clicket.model.config import CacheOptions
from clicket.ports import CacheItem, Found

__all__ = ["Parts", "Slots", "look", "own", "plain", "windowed"]


@tool(cache=60)
async def look(city: str = "", day: int = 0) -> str:
    return ""


@tool(cache=60, cache_scope="thread")
async def own() -> str:
    return ""


@tool(cache=60, time_window=100.0)
async def windowed() -> str:
    return ""


@tool
async def plain() -> str:
    return ""


class Slots:
    """Slots that all processes share; `taken`: another process leads."""

    def __init__(self) -> None:
        self.taken = False
        self.broken = False
        self.given: list[str] = []

    async def take(self, name: str, capacity: int) -> bool:
        if self.broken:
            raise StoreUnavailable("away")
        return not self.taken

    def give(self, name: str) -> None:
        self.given.append(name)


class Parts(Lower):
    def __init__(self, *, shared: bool = False, options: CacheOptions | None = None) -> None:
        super().__init__(look, own, windowed, plain)
        if not shared:
            self.store.durability = "none"
        self.slots = Slots()
        self.cached: dict[str, CacheItem] = {}
        self.lookup_error: ClicketError | None = None
        self.store.cache_get = self._cache_get  # type: ignore[method-assign]
        slots: Any = self.slots
        self.caching = Caching(self.store, self.clock, options or CacheOptions())
        self.inputs.found_in_cache = self._serve
        self.inputs.go_on = lambda call: self.log.append(("run", call))
        self.inputs.joined = lambda call: self.log.append(("keep", call))
        self.flights = SingleFlight(
            self.caching, self.store, self.clock, slots, self.phase, self.inputs, spawn=self.spawn
        )

    def _serve(self, call: Call, output: Any) -> None:
        call.seal()
        self.log.append(("serve", (call, output)))

    def _cache_get(self, key: str, now: float, found: Found) -> None:
        found(self.cached.get(key), self.lookup_error)

    def call(self, name: str = "look", arguments: Any = None, **more: Any) -> Call:
        call = self.admitted(name, arguments, **more)
        self.caching.fit(call)
        return call

    def put(self, call: Call, output: Any) -> None:
        key, now = call.cache_key or "", self.clock.now()
        self.cached[key] = CacheItem(
            key=key, body=encode(output), tags=(), created_at=now, expires_at=now + 60, accessed_at=now
        )

    def end(self, call: Call, outcome: State, output: Any = None) -> None:
        """The call ran and ended."""
        call.outcome, call.output, call.slot = outcome, output, True
        self.flights.use_of(call)
        call.result = result_from(call)
        self.flights.left(call)
