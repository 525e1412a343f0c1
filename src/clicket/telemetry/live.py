"""What a runtime is doing at this moment: the figures that no journal has, since they are gone with their process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from clicket.errors import ClicketError
from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.model.figures import Figure
from clicket.ports import CacheStats, Store
from clicket.telemetry.turns import PREFIX

__all__ = ["Live", "look", "survey"]

_PATIENCE = 5.0
"""Seconds that a store gets to answer; a page of metrics that hangs tells less than one that says that the store does."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """One process, now."""

    tools: tuple[str, ...] = ()
    """The registered tools: each is listed, also before its first call."""
    agents: tuple[str, ...] = ()
    active: dict[str, int] = {}
    """Calls in work here, by the state that the store has."""
    waiting_for_approval: int = 0
    queued: int = 0
    max_queue: int = 0
    slots_used: int = 0
    slots: int = 0
    abandoned: int = 0
    """Bodies that would not stop: their calls have ended, their slots are still taken."""
    unsaved: int = 0
    """Calls whose news could not be stored yet."""
    listener_errors: int = 0
    cache: CacheStats | None = None
    store_up: bool = True
    store_latency: float | None = None
    store_kind: str = ""
    durability: str = ""


class _Line(Protocol):
    queued: int
    max_queue: int
    used: dict[tuple[Any, ...], int]


class _Bounds(Protocol):
    @property
    def max_concurrency(self) -> int: ...


class _Named(Protocol):
    @property
    def names(self) -> Collection[str]: ...


class Works(Protocol):
    """What is looked at of an engine."""

    @property
    def live(self) -> Mapping[str, list[LiveCall]]: ...
    @property
    def lingering(self) -> Collection[LiveCall]: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def store(self) -> Store: ...
    @property
    def limiter(self) -> _Line: ...
    @property
    def limits(self) -> _Bounds: ...
    @property
    def registry(self) -> _Named: ...


def look(engine: Works) -> Live:
    """What is in memory: nothing is waited for."""
    active = dict.fromkeys((state.value for state in State if not state.is_terminal), 0)
    waiting = 0
    for calls in engine.live.values():
        for call in calls:
            state = call.visible_state
            if not state.is_terminal:
                active[state.value] += 1
                waiting += call.waiting_for == "approval"
    slots, names = engine.limits.max_concurrency, engine.registry.names
    return Live(
        tools=tuple(sorted(name for name in names if not name.startswith(PREFIX))),
        agents=tuple(sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))),
        active=active,
        waiting_for_approval=waiting,
        queued=engine.limiter.queued,
        max_queue=engine.limiter.max_queue,
        slots_used=engine.limiter.used.get(("runtime", slots), 0),
        slots=slots,
        abandoned=len(engine.lingering),
        unsaved=len(engine.journal.unsaved),
        listener_errors=engine.journal.listener_errors,
        store_kind=engine.store.url.partition(":")[0],
        durability=engine.store.durability,
    )


async def survey(engine: Works, caller: str | None = None) -> tuple[list[Figure], Live]:
    """The store's figures, of all callers or of one, and what the runtime does now.

    A store that does not answer is told as such, never raised.
    """
    live, begun = look(engine), time.perf_counter()
    try:
        async with asyncio.timeout(_PATIENCE):
            figures = await engine.store.figures(caller)
            latency = time.perf_counter() - begun
            cache = await engine.store.cache_stats()
    except (ClicketError, TimeoutError):
        return [], msgspec.structs.replace(live, store_up=False)
    return figures, msgspec.structs.replace(live, cache=cache, store_latency=latency)
