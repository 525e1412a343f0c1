"""Leaving in order: no new calls, running ones finish or are stopped within a bound, waiting ones are handed back."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from clicket.engine.handover import Closed
from clicket.engine.local import LocalEngine
from clicket.errors import ClicketError
from clicket.execution import STOPPABLE
from clicket.journal import LiveCall

__all__ = ["close"]

logger = logging.getLogger("clicket.engine")


async def close(engine: LocalEngine, *, patience: float) -> None:
    """`patience`: seconds that running calls get to finish by themselves."""
    engine.closing = engine.pump.stopped = engine.caching.closed = engine.slots.closed = True
    running = [call for calls in engine.live.values() for call in calls if call.slot] + list(engine.superseded)
    await _let_waiting_go(engine)
    await _until_done(engine, patience)
    for call in running:
        if not call.settling and call.stopping in STOPPABLE:
            call.cancel_reason = "the runtime was closed"
            engine.runner.stop(call, "shutdown")
    await _until_done(engine, engine.limits.cancel_grace + 5.0)
    for tool in engine.registry:
        try:
            await tool.close()
        except Exception:
            logger.exception("tool %s could not be closed", tool.name)
    for each in engine.on_close:
        try:
            await each()
        except Exception:
            logger.exception("a part of the runtime could not be closed")
    await engine.processes.close()
    engine.runner.clocks.close()
    engine.workers.close(patience=0.2)
    engine.results.close()
    if engine.tasks:
        await asyncio.wait(engine.tasks, timeout=1.0)
    await engine.store.close()
    engine.closed = engine.journal.closed = True
    for calls in list(engine.live.values()):
        for call in list(calls):
            _dismiss(engine, call, f"the runtime was closed before the outcome of call {call.id} could be stored.")
    rest = [task for task in engine.tasks if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=engine.limits.cancel_grace)


async def _let_waiting_go(engine: LocalEngine) -> None:
    """What only waits here goes back to the store at once, where it outlives us; else it ends with us."""
    waiting = [call for calls in engine.live.values() for call in calls if not call.slot]
    for call in waiting:
        if engine.shares:
            engine.limiter.leave(call)
            engine.forget(call)
            _dismiss(engine, call, f"the runtime was closed; call {call.id} waits for the next one over this store.")
        else:
            call.cancel_reason = "the runtime was closed"
            engine.stop(call, "shutdown")
    keys = [call.key for call in waiting if call.key]
    if keys and engine.shares:
        with suppress(ClicketError):
            await engine.store.hand_back(keys)


def _dismiss(engine: LocalEngine, call: LiveCall, why: str) -> None:
    error = Closed(why)
    engine.answer(call, error)
    engine.dismiss(call, error)


async def _until_done(engine: LocalEngine, patience: float) -> None:
    """Wait until no call is running here; bodies that were abandoned are not waited for."""
    running = [call for calls in engine.live.values() for call in calls if call.slot and not call.settled]
    if patience <= 0 or not running:
        return
    ends = [asyncio.ensure_future(engine.outcome(call)) for call in running]
    try:
        await asyncio.wait(ends, timeout=patience)
    finally:
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
