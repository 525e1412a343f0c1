"""The engine's own chores. `chore_schedule.py` says how often each runs:

- `read_signals`: read cancels and decisions that other processes wrote into calls of this one; claim waiting calls (`claimer.py`)
- `recover`: take over calls of dead owners; release calls that the store says are ours but that are not tracked here; let go of
  waiting calls that another process has taken over
- `Sweeps.sweep_all`: remove ended calls that retention no longer keeps, and old outcomes; close idle sessions of tools

Chores elsewhere: `Store.renew` renews the lease, `Caching.sweep` removes cached results, `runtime/agent_host.py` removes idle
threads of agents.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from clicket.engine.cache.kept_outcomes import KeptOutcomes
from clicket.engine.core import Core
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.recovery.recovery import Recovery
from clicket.engine.recovery.undoable_calls import UndoableCalls
from clicket.errors import ClicketError
from clicket.model.ports import Keep, OnRemove, Stored, Sweep, agree, sleep
from clicket.tools import session_key

__all__ = ["Chores", "Sweeps"]

logger = logging.getLogger("clicket.engine")
LISTEN_EVERY = 0.25
SWEEP_EVERY = 300.0
STEPS = (20, 100, 400)
"""Calls that a step of a sweep removes: the fewest, those of the first one, the most."""
_QUICK, _SLOW = 0.01, 0.04
"""Seconds of a step after which the next one removes more calls, or fewer."""


def next_step(calls: int, seconds: float) -> int:
    """How many calls the next step of a sweep removes, if one of this many took so long. Calls beside it wait for a step, so a slow store
    or a busy machine gets smaller ones."""
    fewest, _, most = STEPS
    if seconds > _SLOW:
        return max(calls // 2, fewest)
    return min(calls * 2, most) if seconds < _QUICK else calls


class Chores:
    """Signals of other processes, and who owns which call."""

    def __init__(self, core: Core, ending: Ending, recovery: Recovery) -> None:
        self._store = core.store
        self._live = core.live
        self._claimer = core.claimer
        self._signals = core.signals
        self._phase = core.phase
        self._spawn = core.spawn
        self._ending = ending
        self._recovery = recovery
        self._strays: frozenset[int] = frozenset()
        self._lost: frozenset[int] = frozenset()
        self._listening = False

    # Requests of other processes.

    async def read_signals(self) -> None:
        """Read the signals that other processes wrote into our calls; the journal then notifies the engine."""
        self._claimer.nudge_now_and_then()
        if not len(self._live):
            return
        keys = set(await self._store.signals())
        if not keys:
            return
        for call in self._live:
            if call.entry.key in keys and call.stopping is None and not call.ending and not call.entry.fenced:
                try:
                    await self._signals.append_empty(call.entry)
                except Fenced:
                    if not call.slot and not call.ending:
                        self._ending.lose(call)
                except ClicketError as error:  # the signals to the other calls must still be read
                    logger.info("call %s could not be brought up to date: %s", call.id, error)

    def read_signals_soon(self) -> None:
        """The store hints at a request."""
        if not self._listening and not self._phase.closed:
            self._listening = True
            self._spawn(self._read_signals_now())

    async def _read_signals_now(self) -> None:
        self._listening = False
        try:
            await self.read_signals()
        except ClicketError as error:
            logger.warning("listen: %s", error)

    # Recovery.

    async def recover(self) -> None:
        report = await self._recovery.recover()
        if report.total:
            logger.info("took over %d calls of owners that are gone", report.total)
        await self.release_strays()
        await self.lose_waiting()

    async def lose_waiting(self) -> None:
        """Let go of calls that only wait here and that another process has taken over, on second sight: this process was stopped
        for longer than its lease. A call that runs finds out at its next append."""
        waiting = {
            call.entry.key: call
            for call in self._live
            if call.entry.durable and call.entry.is_idle and call.entry.owned and not call.slot and not call.ending
        }
        lost = frozenset(waiting) - frozenset(await self._store.owned()) if waiting else frozenset[int]()
        for key in lost & self._lost:
            call = waiting[key]
            if call.entry.is_idle and not call.slot and not call.ending and call.failure is None:
                self._ending.lose(call)
        self._lost = lost

    async def release_strays(self) -> None:
        """Release calls that the store says are ours but that no part of this process tracks, on second sight: the answer to a
        claim was lost."""
        known = {call.entry.key for call in self._live if not call.entry.fenced}
        strays = frozenset(await self._store.owned()) - known - self._recovery.held
        lost = strays & self._strays
        if lost:
            logger.warning("%d calls were ours in the store but not tracked here; they are released", len(lost))
            await self._store.hand_back(sorted(lost))
        self._strays = strays - lost


class Sweeps:
    """Retention: ended calls that it no longer keeps are removed."""

    def __init__(self, core: Core, kept: KeptOutcomes) -> None:
        self._store = core.store
        self._clock = core.clock
        self._registry = core.registry
        self._live = core.live
        self._costs = core.costs
        self._retention = core.retention
        self._kept = kept
        self._undoable = UndoableCalls(core.store, core.clock, core.retention.undo)
        self.before_removal: list[OnRemove] = [kept.keep]
        """Called with calls that a sweep is about to remove."""
        self.keeps: Callable[[list[Stored]], Awaitable[Collection[int]]] | None = None
        """Which of them must stay, by their keys; None: none."""

    def keep(self, since: float | None = None) -> Keep:
        """The runtime's bounds; `since` replaces the configured age."""
        kept = self._retention
        now = self._clock.now()
        return Keep(
            since=now - kept.age if since is None else since,
            calls=kept.calls,
            bytes=kept.most_bytes,
            thread_calls=kept.thread_calls,
            thread_bytes=kept.thread_bytes,
            health_since=now - kept.health,
            now=now,
        )

    async def sweep(self, keep: Keep | None = None, progress: Callable[[Sweep], None] | None = None) -> Sweep:
        """Remove ended calls that break a bound, and old outcomes. Between two steps it pauses for as long as the step took, so calls have
        the store for at least half of the time."""
        await agree(self._clock)  # a date that was moved ahead must not remove calls before their time
        keep = self.keep() if keep is None else keep
        total = Sweep()
        calls = STEPS[1]
        while True:
            started = self._clock.monotonic()
            step = await self._store.sweep(keep, calls, on_remove=self._on_remove)
            took = self._clock.monotonic() - started
            total.calls += step.calls
            total.artifacts += step.artifacts
            total.bytes += step.bytes
            if progress is not None:
                progress(total)
            if not step.more:
                break
            calls = next_step(calls, took)
            await (sleep(self._clock, took) if took > 0 else asyncio.sleep(0))
        await self._kept.sweep()
        return total

    async def _on_remove(self, calls: list[Stored]) -> Collection[int]:
        await self._costs.keep(calls)  # those that stay have waited long enough, too
        kept = {*await self._undoable.kept(calls), *(() if self.keeps is None else await self.keeps(calls))}
        going = [stored for stored in calls if stored.key not in kept] if kept else calls
        for callback in self.before_removal:
            await callback(going)
        return kept

    async def forget_calls(self, calls: list[Stored]) -> int:
        """Remove ended calls, whatever retention says; how many there were. Their ids are free again. What they have cost stays in the
        ledger."""
        await self._costs.keep(calls)
        for callback in self.before_removal:
            if callback != self._kept.keep:
                await callback(calls)
        return (await self._store.remove([stored.key for stored in calls])).calls

    async def forget_outcomes(self, caller: str) -> None:
        """Remove the outcomes of the caller's calls that retention has removed."""
        await self._kept.forget(caller)

    async def sweep_all(self) -> None:
        """Remove old records, and close idle sessions of tools."""
        await self._undoable.release()
        await self.sweep()
        for tool in self._registry:
            calls = [call for call in self._live if call.tool is tool]
            await tool.sweep(frozenset(session_key(call.caller, call.thread) for call in calls))
