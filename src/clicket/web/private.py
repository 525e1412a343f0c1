"""A runtime of an engine's own, for those that are used without one. It is open while somebody searches, and leaves nothing behind.

What it knows of its tools' failures outlives it, so the breaker holds from one search to the next on the same loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from clicket.compose import open_store
from clicket.ports import Clock, Keep, Store
from clicket.runtime import Runtime
from clicket.settings import Settings

__all__ = ["Private"]

_KEPT_CALLS = 200
_SWEEP_LIMIT = 10_000
_PATIENCE = 1.0


class _Share:
    """What the searches on one loop have in common."""

    def __init__(self, settings: Settings) -> None:
        self.store: Store = open_store(settings)
        self.lock = asyncio.Lock()
        self.users = 0
        self.runtime: Runtime | None = None


class Private:
    """`async with private.open(thread) as runtime:` gives the one that is open, or opens it; the last to leave closes it."""

    def __init__(self, tool: Any, *, clock: Clock | None = None) -> None:
        self._tool = tool
        self._clock = clock
        self._settings = Settings(store="memory://", telemetry="off", cache=False)
        self._shares: WeakKeyDictionary[asyncio.AbstractEventLoop, _Share] = WeakKeyDictionary()

    @asynccontextmanager
    async def open(self, thread: str) -> AsyncIterator[Runtime]:
        loop = asyncio.get_running_loop()
        share = self._shares.get(loop)
        if share is None:
            share = self._shares[loop] = _Share(self._settings)
        async with share.lock:
            if share.runtime is None:
                share.runtime = await self._opened(share.store, thread)
            share.users += 1
            runtime = share.runtime
        try:
            yield runtime
        finally:
            share.users -= 1
            if not share.users:
                # Shielded: who is cancelled while it leaves must not leave the door open.
                await asyncio.shield(asyncio.ensure_future(_close(share)))

    async def _opened(self, store: Store, thread: str) -> Runtime:
        runtime = Runtime([self._tool], store=store, settings=self._settings)
        runtime._clock = self._clock
        await runtime.open()
        # A hub takes an empty memory for a good one; this store remembers what it was told before.
        await runtime.hub(thread).states()
        return runtime


async def _close(share: _Share) -> None:
    async with share.lock:
        if share.users or share.runtime is None:
            return  # somebody came in again
        runtime, share.runtime = share.runtime, None
        await share.store.sweep(Keep(calls=_KEPT_CALLS), _SWEEP_LIMIT)
        await runtime.close(patience=_PATIENCE)
