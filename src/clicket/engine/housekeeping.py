"""What goes on in the background: renew the lease, hear requests of other processes, take over orphans, sweep what is old."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from clicket.agents.sweeping import ThreadSweep
from clicket.agents.threads import inner_thread
from clicket.engine.local import LocalEngine
from clicket.engine.recovery import Recovered, recover, take_up
from clicket.errors import ClicketError
from clicket.ports import Keep, Query, Stored, Sweep, Timer
from clicket.tools import session_key

__all__ = ["Housekeeping", "keep_of", "kept_until", "sweep"]

logger = logging.getLogger("clicket.engine")

LISTEN_EVERY = 0.25
SWEEP_EVERY = 300.0
_SWEEP_STEP = 200


class Housekeeping:
    """Each chore runs on its own timer, never twice at once; one that fails is logged and tried again."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._timers: dict[str, Timer] = {}
        self._strays: frozenset[int] = frozenset()
        self._listening = False
        self._ended: set[str] = set()
        self._threads = ThreadSweep()
        self._stopped = False
        engine.on_claimed = self._claimed
        engine.on_request = self._asked

    def start(self) -> None:
        lease = self._engine.limits.lease
        self._every(LISTEN_EVERY, "listen", self._listen)
        self._every(lease / 3, "renew", self._engine.store.renew)
        self._every(lease, "recover", self._recover)
        self._every(SWEEP_EVERY, "sweep", self._sweep)
        self._every(SWEEP_EVERY, "cache", self._engine.caching.sweep)
        self._every(SWEEP_EVERY, "threads", self._forget_threads)

    def wind_down(self) -> None:
        """Begin nothing new; go on saying that we live, and hearing what others ask of calls that still run."""
        self._ended |= {"recover", "sweep", "cache", "threads"}
        self._cancel(self._ended)

    def stop(self) -> None:
        self._stopped = True
        self._cancel(set(self._timers))

    def _cancel(self, names: set[str]) -> None:
        for name in names & set(self._timers):
            self._timers[name].cancel()

    def _every(self, seconds: float, name: str, chore: Callable[[], Awaitable[object]]) -> None:
        async def do() -> None:
            try:
                await chore()
            except ClicketError as error:
                if not self._stopped:
                    logger.warning("%s: %s", name, error)
            except Exception:
                logger.exception("%s failed; it is tried again", name)
            if not self._stopped and name not in self._ended:
                self._timers[name] = self._engine.clock.call_later(seconds, lambda: self._engine.spawn(do()))

        self._timers[name] = self._engine.clock.call_later(seconds, lambda: self._engine.spawn(do()))

    async def _listen(self) -> None:
        """A call of ours that another process wrote to is brought up to date; the journal then tells the engine."""
        engine = self._engine
        engine.pump.nudge()
        if not engine.live:
            return
        keys = set(await engine.store.requests())
        if keys:
            for call in [call for calls in engine.live.values() for call in calls if call.key in keys]:
                if call.stopping is None and not call.settling and not call.fenced:
                    try:
                        await engine.refresh(call)
                    except ClicketError as error:  # the others must be heard all the same
                        logger.info("call %s could not be brought up to date: %s", call.id, error)

    def _asked(self) -> None:
        if not self._listening and not self._stopped:
            self._listening = True
            self._engine.spawn(self._listen_now())

    async def _listen_now(self) -> None:
        self._listening = False
        try:
            await self._listen()
        except ClicketError as error:
            logger.warning("listen: %s", error)

    async def _claimed(self, claimed: list[Stored]) -> None:
        await take_up(self._engine, claimed, Recovered())

    async def _recover(self) -> None:
        report = await recover(self._engine)
        if report.total:
            logger.info("took over %d calls of owners that are gone", report.total)
        await self._hand_back_strays()

    async def _hand_back_strays(self) -> None:
        """Calls that are ours in the store and that nobody here knows: an answer to a claim was lost. Seen twice, they go."""
        engine = self._engine
        known = {call.key for calls in engine.live.values() for call in calls if not call.fenced}
        strays = frozenset(await engine.store.owned()) - known - engine.broken
        lost = strays & self._strays
        if lost:
            logger.warning("%d calls were ours without our knowing; they are handed back", len(lost))
            await engine.store.hand_back(sorted(lost))
        self._strays = strays - lost

    async def _sweep(self) -> None:
        engine = self._engine
        await sweep(engine, keep_of(engine))
        for tool in engine.registry:
            calls = [c for calls in engine.live.values() for c in calls if c.tool is tool]
            await tool.sweep(frozenset(session_key(c.caller, c.thread) for c in calls))

    async def _forget_threads(self) -> None:
        """Never before the calls that were their turns: a turn to come must not have the name of one that is kept."""
        engine = self._engine
        before = engine.clock.now() - max(engine.limits.memory_retention, engine.limits.retention)
        await self._threads.step(engine.store, before, self._has_turn)

    async def _has_turn(self, caller: str, agent: str, thread: str) -> bool:
        query = Query(thread=inner_thread(agent, thread), caller=caller, active=True, limit=1)
        return bool(await self._engine.store.history(query))


def keep_of(engine: LocalEngine, since: float | None = None) -> Keep:
    """The runtime's bounds; `since` in place of the age that is set."""
    limits = engine.limits
    return Keep(
        since=engine.clock.now() - limits.retention if since is None else since,
        calls=limits.retention_calls,
        bytes=limits.retention_bytes,
        thread_calls=limits.thread_retention_calls,
        thread_bytes=limits.thread_retention_bytes,
        health_since=engine.clock.now() - limits.health_retention,
        now=engine.clock.now(),
    )


def kept_until(engine: LocalEngine) -> float:
    """How long a file stays that is put now and that no call names: as long as a call that ended now."""
    return engine.clock.now() + engine.limits.retention


async def sweep(engine: LocalEngine, keep: Keep, progress: Callable[[Sweep], None] | None = None) -> Sweep:
    """Remove ended calls that break a bound, in small steps that let writers through."""
    total = Sweep()
    while True:
        step = await engine.store.sweep(keep, _SWEEP_STEP)
        total.calls += step.calls
        total.artifacts += step.artifacts
        total.bytes += step.bytes
        if progress is not None:
            progress(total)
        if not step.more:
            return total
