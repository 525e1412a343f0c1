"""What a runtime is doing now: figures of one process, which no journal keeps."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from clicket.errors import ClicketError
from clicket.model.figures import Figure
from clicket.ports import CacheStats, Store
from clicket.telemetry.turns import PREFIX
from clicket.tools import Registry

__all__ = ["Active", "Live", "look", "survey"]

_PATIENCE = 5.0
"""Seconds that a store gets to answer. After that the page says that the store is down; a page that hangs would say nothing."""


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
    """Bodies that did not stop: their calls have ended, their slots are still taken."""
    unsaved: int = 0
    """Calls whose last events could not be stored yet."""
    listener_errors: int = 0
    cache: CacheStats | None = None
    store_up: bool = True
    store_latency: float | None = None
    store_kind: str = ""
    durability: str = ""


class Activity(Protocol):
    """What `runtime.activity()` answers."""

    @property
    def active(self) -> dict[str, int]: ...
    @property
    def waiting_for_approval(self) -> int: ...
    @property
    def queued(self) -> int: ...
    @property
    def max_queue(self) -> int: ...
    @property
    def slots_used(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def abandoned(self) -> int: ...
    @property
    def unsaved(self) -> int: ...
    @property
    def listener_errors(self) -> int: ...


class Active(Protocol):
    """What is read of an open runtime."""

    @property
    def caller(self) -> str | None: ...
    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Registry: ...
    def activity(self) -> Activity: ...


def look(runtime: Active) -> Live:
    """What is in memory: nothing is waited for."""
    now, names, store = runtime.activity(), runtime.registry.names, runtime.store
    return Live(
        tools=tuple(sorted(name for name in names if not name.startswith(PREFIX))),
        agents=tuple(sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))),
        active=now.active,
        waiting_for_approval=now.waiting_for_approval,
        queued=now.queued,
        max_queue=now.max_queue,
        slots_used=now.slots_used,
        slots=now.slots,
        abandoned=now.abandoned,
        unsaved=now.unsaved,
        listener_errors=now.listener_errors,
        store_kind=store.url.partition(":")[0],
        durability=store.durability,
    )


async def survey(runtime: Active) -> tuple[list[Figure], Live]:
    """The store's figures, of the runtime's caller or of all, and what the runtime does now.

    If the store does not answer, there are no figures and `store_up` is False; nothing is raised.
    """
    live, begun = look(runtime), time.perf_counter()
    try:
        async with asyncio.timeout(_PATIENCE):
            figures = await runtime.store.figures(runtime.caller)
            latency = time.perf_counter() - begun
            cache = await runtime.store.cache_stats()
    except (ClicketError, TimeoutError):
        return [], msgspec.structs.replace(live, store_up=False)
    return figures, msgspec.structs.replace(live, cache=cache, store_latency=latency)
