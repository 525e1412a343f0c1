"""What goes on in the background: renew the lease, hear requests of other processes, take over orphans, sweep what is old."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from clicket.engine.local import LocalEngine
from clicket.engine.recovery import recover
from clicket.errors import ClicketError
from clicket.ports import Sweep, Timer

__all__ = ["Housekeeping", "sweep"]

logger = logging.getLogger("clicket.engine")

LISTEN_EVERY = 0.25
SWEEP_EVERY = 300.0
_SWEEP_STEP = 200


class Housekeeping:
    """Each chore runs on its own timer, never twice at once; one that fails is logged and tried again."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def start(self) -> None:
        lease = self._engine.limits.lease
        self._every(LISTEN_EVERY, "listen", self._listen)
        self._every(lease / 3, "renew", self._engine.store.renew)
        self._every(lease, "recover", self._recover)
        self._every(SWEEP_EVERY, "sweep", self._sweep)

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()

    def _every(self, seconds: float, name: str, chore: Callable[[], Awaitable[object]]) -> None:
        async def do() -> None:
            try:
                await chore()
            except ClicketError as error:
                if not self._stopped:
                    logger.warning("%s: %s", name, error)
            except Exception:
                logger.exception("%s failed; it is tried again", name)
            if not self._stopped:
                self._timers[name] = self._engine.clock.call_later(seconds, self._engine.spawn_later, do)

        self._timers[name] = self._engine.clock.call_later(seconds, self._engine.spawn_later, do)

    async def _listen(self) -> None:
        """A call of ours that another process wrote to is brought up to date; the journal then tells the engine."""
        engine = self._engine
        if not engine.live:
            return
        keys = set(await engine.store.requests())
        if keys:
            for calls in list(engine.live.values()):
                for call in calls:
                    if call.key in keys and call.stopping is None and not call.settling:
                        await engine.refresh(call)

    async def _recover(self) -> None:
        report = await recover(self._engine)
        if report.total:
            logger.info("took over %d calls of owners that are gone", report.total)

    async def _sweep(self) -> None:
        engine = self._engine
        await sweep(engine, engine.clock.now() - engine.limits.retention)
        for tool in engine.registry:
            close_idle = getattr(tool, "sweep", None)
            if close_idle is not None:
                busy = frozenset(c.thread for calls in engine.live.values() for c in calls if c.tool is tool)
                await close_idle(busy)


async def sweep(engine: LocalEngine, before: float, progress: Callable[[Sweep], None] | None = None) -> Sweep:
    """Remove ended calls older than `before`, in small steps that let writers through."""
    total = Sweep()
    while True:
        step = await engine.store.sweep(before, _SWEEP_STEP)
        total.calls += step.calls
        total.artifacts += step.artifacts
        total.bytes += step.bytes
        if progress is not None:
            progress(total)
        if not step.more:
            return total
