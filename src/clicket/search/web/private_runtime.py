"""The runtime of an engine that was given none. It is open while a search runs.

Its store outlives it, so the breaker works across searches on the same event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from clicket.model.ports import Clock, Keep, Store
from clicket.runtime.compose import open_store
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings

__all__ = ["PrivateRuntime"]

_KEPT_CALLS = 200
_SWEEP_LIMIT = 10_000
_CLOSE_TIMEOUT = 1.0


class _SharedRuntime:
    """The store and the runtime that all searches on one event loop shared."""

    def __init__(self, settings: Settings) -> None:
        self.store: Store = open_store(settings)
        self.lock = asyncio.Lock()
        self.users = 0
        self.runtime: Runtime | None = None


class PrivateRuntime:
    """`async with private_runtime.open(thread) as runtime:` returns the open runtime, or opens it. The last user closes it."""

    def __init__(self, tool: Any, *, clock: Clock | None = None) -> None:
        self._tool = tool
        self._clock = clock
        self._settings = Settings(store="memory://", telemetry="off", cache=False)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedRuntime] = WeakKeyDictionary()

    @asynccontextmanager
    async def open(self, thread: str) -> AsyncIterator[Runtime]:
        loop = asyncio.get_running_loop()
        shared = self._by_loop.get(loop)
        if shared is None:
            shared = self._by_loop[loop] = _SharedRuntime(self._settings)
        async with shared.lock:
            if shared.runtime is None:
                shared.runtime = await self._open_runtime(shared.store, thread)
            shared.users += 1
            runtime = shared.runtime
        try:
            yield runtime
        finally:
            shared.users -= 1
            if not shared.users:
                # Shielded: a cancelled search must still close the runtime.
                await asyncio.shield(asyncio.ensure_future(_close(shared)))

    async def _open_runtime(self, store: Store, thread: str) -> Runtime:
        runtime = Runtime([self._tool], store=store, settings=self._settings)
        runtime._clock = self._clock
        await runtime.open()
        # A new hub assumes that its tools are available; this reads the states that the store has kept.
        await runtime.hub(thread).states()
        return runtime


async def _close(shared: _SharedRuntime) -> None:
    async with shared.lock:
        if shared.users or shared.runtime is None:
            return  # another search has begun
        runtime, shared.runtime = shared.runtime, None
        await shared.store.sweep(Keep(calls=_KEPT_CALLS), _SWEEP_LIMIT)
        await runtime.close(patience=_CLOSE_TIMEOUT)
