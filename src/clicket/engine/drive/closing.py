"""Closing a runtime: it takes no new calls; running calls finish or are stopped within a bound; waiting calls are released."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from clicket.engine.core import Core
from clicket.engine.executors import ProcessPool, can_stop, stop
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.runner import Runner
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call
from clicket.engine.local.background import Background
from clicket.engine.local.tasks import Tasks
from clicket.engine.records.stored_calls import Closed
from clicket.errors import ClicketError
from clicket.system.bridge import ThreadPool

__all__ = ["Closing"]

logger = logging.getLogger("clicket.engine")
_WHY = "the runtime was closed"


class Closing:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        stopping: Stopping,
        runner: Runner,
        processes: ProcessPool,
        thread_pools: Sequence[ThreadPool],
        tasks: Tasks,
        background: Background,
    ) -> None:
        self._store = core.store
        self._registry = core.registry
        self._live = core.live
        self._limiter = core.limiter
        self._journal = core.journal
        self._shares = core.shares
        self._phase = core.phase
        self._cancel_grace = core.limits.cancel_grace
        self._ending = ending
        self._stopping = stopping
        self._runner = runner
        self._processes = processes
        self._thread_pools = thread_pools
        self._tasks = tasks
        self._background = background
        self.on_close: list[Callable[[], Coroutine[Any, Any, object]]] = []

    async def close(self, *, patience: float) -> None:
        """`patience`: seconds that running calls get to finish by themselves."""
        self._phase.closing = True
        running = [call for call in self._live if call.slot] + list(self._ending.superseded)
        await self._release_waiting()
        await self._until_done(patience)
        for call in running:
            if can_stop(call):
                stop(call, "shutdown", _WHY)
        await self._until_done(self._cancel_grace + 5.0)
        await self._close_parts()
        self._background.stop()  # no chore asks a closed store
        if self._tasks.running:
            await asyncio.wait(self._tasks.running, timeout=1.0)
        await self._store.close()
        self._phase.closed = self._journal.closed = True
        for call in self._live:
            self._dismiss(call, f"the runtime was closed before the outcome of call {call.id} could be stored.")
        rest = [task for task in self._tasks.running if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=self._cancel_grace)

    async def _close_parts(self) -> None:
        for tool in self._registry.all():
            try:
                await tool.close()
            except Exception:
                logger.exception("tool %s could not be closed", tool.name)
        for callback in self.on_close:
            try:
                await callback()
            except Exception:
                logger.exception("a part of the runtime could not be closed")
        await self._processes.close()
        await self._runner.close()
        for pool, patience in zip(self._thread_pools, (0.2, 1.0, 0.2), strict=True):
            pool.close(patience=patience)

    async def _release_waiting(self) -> None:
        """Release a waiting call at once, if the store is durable; else end it."""
        waiting = [call for call in self._live if not call.slot]
        for call in waiting:
            if self._shares:
                self._limiter.leave(call)
                self._ending.forget(call)
                self._dismiss(call, f"the runtime was closed; call {call.id} waits for the next one over this store.")
            else:
                self._stopping.stop(call, "shutdown", _WHY)
        keys = [call.entry.key for call in waiting if call.entry.key]
        if keys and self._shares:
            with suppress(ClicketError):
                await self._store.hand_back(keys)

    def _dismiss(self, call: Call, why: str) -> None:
        error = Closed(why)
        self._ending.answer(call, error)
        self._ending.dismiss(call, error)

    async def _until_done(self, patience: float) -> None:
        """Wait until no call is running here. Not waited for are bodies that were abandoned, and outcomes that cannot be stored."""
        running = [
            call for call in self._live if call.slot and not call.ended and not self._journal.is_stuck(call.entry)
        ]
        if patience <= 0 or not running:
            return
        ends = [asyncio.ensure_future(self._ending.outcome(call)) for call in running]
        try:
            await asyncio.wait(ends, timeout=patience)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
