"""What a runtime does now: stats of one process, which are in no journal."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import msgspec

from clicket import system
from clicket.errors import ClicketError
from clicket.model.figures import Figure
from clicket.model.notice import NoticeFigures
from clicket.model.ports import CacheStats, Clock, Store
from clicket.telemetry.backlog import by_tool
from clicket.telemetry.turns import PREFIX
from clicket.tools import Registry

__all__ = ["OpenRuntime", "ProcessStats", "collect"]

_STORE_TIMEOUT = 5.0
"""Seconds. After that the page says that the store is down; a page that hangs would say nothing."""
_ACTIVITY = (
    "active", "waiting_for_approval", "queued", "max_queue", "slots_used", "slots", "abandoned", "unsaved", "listener_errors",
    "due_released", "due_late_seconds", "schedule_firings", "schedule_late_seconds",
)  # fmt: skip
"""The fields that `runtime.activity()` has too."""


class ProcessStats(msgspec.Struct, frozen=True, kw_only=True):
    """Stats of one process at one moment."""

    tools: tuple[str, ...] = ()
    """The registered tools. Metrics list each of them, also before its first call."""
    agents: tuple[str, ...] = ()
    active: dict[str, int] = {}
    """Calls that this process holds, by the state in the store."""
    waiting_for_approval: int = 0
    queued: int = 0
    max_queue: int = 0
    slots_used: int = 0
    slots: int = 0
    abandoned: int = 0
    """Bodies that did not stop: their calls have ended, and they still hold their slots."""
    unsaved: int = 0
    """Calls whose last events could not be stored yet."""
    listener_errors: int = 0
    due_released: int = 0
    due_late_seconds: float = 0.0
    schedule_firings: int = 0
    schedule_late_seconds: float = 0.0
    cache: CacheStats | None = None
    backlog: dict[str, tuple[int, float]] | None = None
    """How many calls of each tool wait for a worker, in the whole store, and how long the oldest has waited."""
    notices: NoticeFigures | None = None
    """Of webhooks; None: this process has none."""
    store_up: bool = True
    store_latency: float | None = None
    store_kind: str = ""
    durability: str = ""


class OpenRuntime(Protocol):
    """What the stats need of a runtime."""

    @property
    def caller(self) -> str | None: ...
    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> Any: ...
    @property
    def notices(self) -> Any: ...
    def activity(self) -> Any: ...


async def collect(runtime: OpenRuntime) -> tuple[list[Figure], ProcessStats]:
    """The store's figures, of the runtime's caller or of all, and the stats of this process.

    If the store does not answer, there are no figures and `store_up` is False; nothing is raised.
    """
    stats = _in_memory(runtime)
    begun = system.monotonic()
    try:
        async with asyncio.timeout(_STORE_TIMEOUT):
            figures = await runtime.store.figures(runtime.caller)
            latency = system.monotonic() - begun
            cache = await runtime.store.cache_stats()
            backlog = await runtime.store.backlog() if runtime.caller is None else None
            sends = runtime.caller is None and runtime.settings.webhooks
            notices = await runtime.notices.figures() if sends else None
    except (ClicketError, TimeoutError):
        return [], msgspec.structs.replace(stats, store_up=False)
    waits = None
    if backlog is not None:
        now = runtime.clock.now()
        waits = {tool: (count, max(now - at, 0.0)) for tool, (count, at) in by_tool(backlog, stats.tools).items()}
    return figures, msgspec.structs.replace(stats, cache=cache, store_latency=latency, backlog=waits, notices=notices)


def _in_memory(runtime: OpenRuntime) -> ProcessStats:
    activity = runtime.activity()
    names = runtime.registry.names
    internal = {tool.name for tool in runtime.registry.inner_tools("") if tool.traits.internal}
    store = runtime.store
    return ProcessStats(
        tools=tuple(sorted(name for name in names if name not in internal)),
        agents=tuple(sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))),
        store_kind=store.url.partition(":")[0],
        durability=store.durability,
        **{name: getattr(activity, name) for name in _ACTIVITY},
    )
