"""Interpreters of many callers over one sandbox: one for each key, a limited number of sessions, and one spare session.

When all sessions are taken, an idle one is closed for the next run: of the caller with the most sessions, the least recently
used. A caller takes no session from another that has as few as itself; then, and when all sessions are busy, the run waits. A free
place goes to the waiting caller with the fewest sessions.

Busy sessions cannot be taken away, so one caller runs in at most half of them (at least in one), also while the others are free.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clicket import system
from clicket.errors import ClicketError, UsageError
from clicket.interpreter.setup.session_factory import WARM_MODULES, SessionFactory
from clicket.interpreter.tool.caller_shares import CallerShares
from clicket.system.bridge import ThreadPool

if TYPE_CHECKING:
    from clicket.interpreter.interpreter import Interpreter
    from clicket.interpreter.session.session import Session

__all__ = ["Pool", "PooledInterpreter"]

logger = logging.getLogger("clicket.interpreter")
_MAX_WITHOUT_SESSION = 200
"""Interpreters without a session that are kept, so that their callers learn why the session is gone."""
_THREADS = 2
"""Threads that read and write large files of programs."""
_MIN_SWEEP_DELAY = 0.05
_EVICTED = "other runs needed a session, and this one was the least recently used"

StartSession = Callable[[], Awaitable["Session"]]
Note = Callable[[str], object]


class PooledInterpreter:
    """The interpreter of one key."""

    def __init__(self, key: Hashable, caller: str = "") -> None:
        self.key = key
        self.caller = caller
        self.interpreter: Interpreter
        self.runs = 0
        self.used_at: float = system.monotonic()
        self.placed = False
        """Whether it holds one of the places for sessions."""
        self.note: Note = str
        self.lock: asyncio.Lock = asyncio.Lock()
        self.callers = 0
        """Runs that hold the lock or wait for it: between two of them the lock is free for a moment."""

    @property
    def busy(self) -> bool:
        return self.callers > 0 or self.lock.locked()


class Pool:
    """`make` returns an interpreter that starts its sessions with the given function and uses the given threads.

    At most `max_sessions` sessions and one spare are alive at once. A session ends after `idle_after` seconds without a run.
    """

    def __init__(
        self,
        factory: SessionFactory,
        make: Callable[[StartSession, ThreadPool], Interpreter],
        *,
        max_sessions: int = 16,
        idle_after: float | None = 1800.0,
        warm: bool = True,
    ) -> None:
        if type(max_sessions) is not int or max_sessions < 1:
            raise UsageError(f"max_sessions must be a whole number of at least 1, not {max_sessions!r}.")
        self.max_sessions = max_sessions
        self.idle_after = idle_after
        self.interpreters: dict[Hashable, PooledInterpreter] = {}
        """By key, the least recently used first."""
        self._factory = factory
        self._make = make
        self._thread_pool = ThreadPool(_THREADS, "clicket-interpreter")
        self._warm = warm
        self._used = 0
        self._closing = 0
        """Sessions that are being closed for waiting runs."""
        self._held: Counter[str] = Counter()
        """Sessions of each caller, also those that are being started."""
        self._shares = CallerShares(max(max_sessions // 2, 1))
        self._waiting: dict[asyncio.Future[None], PooledInterpreter] = {}
        """Runs that wait for a place, in order."""
        self._spare: asyncio.Task[Session] | None = None
        self._spare_at = system.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def lend(
        self, key: Hashable | None, note: Note = str, *, caller: str = ""
    ) -> AsyncIterator[PooledInterpreter]:
        """The interpreter of a key, for one run at a time. Without a key: a new one, closed afterwards. `note` gets a text when
        the run has to wait; sessions are shared fairly between callers."""
        async with (
            self._shares.one_run(caller, note),
            self._lend(key, note, caller) as pooled,
        ):  # before it holds a session
            yield pooled

    @asynccontextmanager
    async def _lend(self, key: Hashable | None, note: Note, caller: str) -> AsyncIterator[PooledInterpreter]:
        if self._closed:
            raise UsageError("the sessions are closed; open the runtime again.")
        pooled = self.interpreters.pop(key, None) if key is not None else None
        if pooled is None:
            pooled = PooledInterpreter(key, caller)
            pooled.interpreter = self._make(self._start_of(pooled), self._thread_pool)
        if key is not None:
            self.interpreters[key] = pooled  # at the end: used last
        pooled.callers += 1
        try:
            async with pooled.lock:
                pooled.note = note
                pooled.runs += 1
                try:
                    await pooled.interpreter.open()
                    yield pooled
                finally:
                    await self._given_back(pooled)
        finally:
            pooled.callers -= 1

    async def sweep(self, busy: Collection[Hashable] = frozenset()) -> int:
        """Close the sessions that were idle for too long, and an unused spare. Returns how many sessions were closed."""
        if self.idle_after is None:
            return 0
        limit = system.monotonic() - self.idle_after
        closed = 0
        for pooled in list(self.interpreters.values()):
            if pooled.placed and not pooled.busy and pooled.used_at < limit and pooled.key not in busy:
                closed += await self._drop(pooled, f"it was not used for {self.idle_after:g} seconds")
        if self._spare is not None and self._spare_at < limit:
            await self._end_spare()
        await self._make_room()
        return closed

    async def close(self) -> None:
        """Close every session and the sandbox."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sweeping is not None:
            await asyncio.wait([self._sweeping])
        await self._end_spare()
        for pooled in list(self.interpreters.values()):
            await self._close(pooled)
        self.interpreters.clear()
        await self._factory.close()
        self._thread_pool.close()

    # --- idle sessions end in time, also if `sweep` is not called -------------------------------------------------------

    def _schedule_sweep(self) -> None:
        idle = [pooled.used_at for pooled in self.interpreters.values() if pooled.placed]
        if self._spare is not None:
            idle.append(self._spare_at)
        if idle and self.idle_after is not None and self._timer is None and not self._closed:
            wait = max(min(idle) + self.idle_after - system.monotonic(), _MIN_SWEEP_DELAY)
            self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_quietly())

    async def _sweep_quietly(self) -> None:
        try:
            await self.sweep()
        except (ClicketError, OSError) as error:
            logger.warning("an idle session could not be closed: %s", error)
        finally:
            self._schedule_sweep()

    # --- places: each session has one, from before its start until its end ---------------------------------------------

    def _start_of(self, pooled: PooledInterpreter) -> StartSession:
        async def start() -> Session:
            if not pooled.placed:
                await self._find_place(pooled)
            self._spare_at = system.monotonic()
            return await self._take_spare() or await self._factory()

        return start

    async def _find_place(self, pooled: PooledInterpreter) -> None:
        if self._used < self.max_sessions:
            self._used += 1
            self._place(pooled)
            return
        waiter = self._wait(pooled)
        try:
            await self._make_room()  # a freed place goes to the waiting caller with the fewest sessions, maybe this one
            if not waiter.done():
                pooled.note(f"all {self.max_sessions} sessions are in use; this run waits for one")
            await waiter
        except BaseException:
            if self._waiting.pop(waiter, None) is None and not waiter.cancelled():
                self._unplace(pooled)  # this run had got a place: pass it on
                self._free()
            raise

    def _wait(self, pooled: PooledInterpreter) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = pooled
        return waiter

    async def _make_room(self) -> None:
        """Close idle sessions for waiting runs that may take one, and no more than runs wait."""
        while len(self._waiting) > self._closing and (found := self._idle_for_waiting()) is not None:
            self._closing += 1
            try:
                await self._drop(found, _EVICTED)
            finally:
                self._closing -= 1

    def _idle_for_waiting(self) -> PooledInterpreter | None:
        idle = [each for each in self.interpreters.values() if each.placed and not each.busy] if self._waiting else []
        for waiting in self._waiting.values():
            taken = [each for each in idle if self._may_take(waiting, each)]
            if taken:
                return max(
                    taken, key=lambda each: self._held[each.caller]
                )  # of equals the first: the least recently used
        return None

    def _may_take(self, pooled: PooledInterpreter, other: PooledInterpreter) -> bool:
        return pooled.caller == other.caller or self._held[pooled.caller] < self._held[other.caller]

    def _place(self, pooled: PooledInterpreter) -> None:
        pooled.placed = True
        self._held[pooled.caller] += 1

    def _unplace(self, pooled: PooledInterpreter) -> None:
        pooled.placed = False
        self._held[pooled.caller] -= 1
        if not self._held[pooled.caller]:
            del self._held[pooled.caller]

    async def _drop(self, pooled: PooledInterpreter, why: str) -> bool:
        async with pooled.lock:
            had = pooled.interpreter.session is not None
            await pooled.interpreter.drop(why)
            self._release_place(pooled)
        return had

    async def _given_back(self, pooled: PooledInterpreter) -> None:
        pooled.used_at = system.monotonic()
        pooled.note = str
        pooled.interpreter.history.clear()  # callers keep their results
        try:
            if pooled.key is None or self._closed:
                await pooled.interpreter.close()
            elif any(self._may_take(waiting, pooled) for waiting in self._waiting.values()):
                await pooled.interpreter.drop(_EVICTED)
        finally:
            self._release_place(pooled)
        await self._make_room()
        await self._forget_some()
        self._warm_up()
        self._schedule_sweep()

    def _release_place(self, pooled: PooledInterpreter) -> None:
        """If its session is gone."""
        if pooled.placed and pooled.interpreter.session is None:
            self._unplace(pooled)
            self._free()

    def _free(self) -> None:
        """Hand the place directly to a waiting run, so that no later run overtakes it."""
        waiting = [waiter for waiter in self._waiting if not waiter.done()]
        if not waiting:
            self._used -= 1
            return
        waiter = min(waiting, key=lambda each: self._held[self._waiting[each].caller])
        self._place(self._waiting.pop(waiter))
        waiter.set_result(None)

    async def _forget_some(self) -> None:
        lost = [pooled for pooled in self.interpreters.values() if not pooled.placed and not pooled.busy]
        for pooled in lost[: max(len(lost) - _MAX_WITHOUT_SESSION, 0)]:
            del self.interpreters[pooled.key]
            await self._close(pooled)

    async def _close(self, pooled: PooledInterpreter) -> None:
        try:
            await pooled.interpreter.close()
        except ClicketError as error:
            logger.warning("a session could not be closed: %s", error)
        self._release_place(pooled)

    # --- the spare session ----------------------------------------------------------------------------------------------

    def _warm_up(self) -> None:
        """Called after a run, so that it does not slow the run down."""
        if self._warm and self._spare is None and not self._closed:
            self._spare = asyncio.get_running_loop().create_task(self._make_spare())

    async def _make_spare(self) -> Session:
        session = await self._factory(WARM_MODULES)
        session.idle()
        return session

    async def _take_spare(self) -> Session | None:
        if self._spare is None or not self._spare.done():
            return None
        made, self._spare = self._spare, None
        if made.cancelled() or (error := made.exception()) is not None:
            logger.warning("no spare session could be made, and none will be: %s", None if made.cancelled() else error)
            self._warm = False
            return None
        session = made.result()
        if session.alive:
            return session
        await session.close()
        return None

    async def _end_spare(self) -> None:
        made, self._spare = self._spare, None
        if made is None:
            return
        made.cancel()
        await asyncio.wait([made])
        if not made.cancelled() and made.exception() is None:
            await made.result().close()
