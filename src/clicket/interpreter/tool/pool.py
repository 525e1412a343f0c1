"""Interpreters of many callers over one sandbox: one per key, a bounded number of them with a session, and one spare session
that is warm. When all sessions are taken, one that is idle is closed for the next run: of the caller that has the most, the one
that was used least recently. No caller takes a session from another that has as few as itself; then, and when all are in use, the
run waits. A place that becomes free goes to the waiting caller that has the fewest sessions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clicket.bridge import Workers
from clicket.errors import ClicketError, UsageError
from clicket.interpreter.setup.session_factory import WARM_MODULES, SessionFactory

if TYPE_CHECKING:
    from clicket.interpreter.interpreter import Interpreter
    from clicket.interpreter.session.session import Session

__all__ = ["Pool", "PooledInterpreter"]

logger = logging.getLogger("clicket.interpreter")
_REMEMBERED = 200
"""Interpreters without a session that are kept, so that their owners are told what became of it."""
_THREADS = 2
"""Threads that read and write files of programs, where there are many bytes of them."""
_SOONEST = 0.05
_FULL = "other sessions needed the room, and this one had not been used for longest"

Start = Callable[[], Awaitable["Session"]]
Note = Callable[[str], object]


class PooledInterpreter:
    """One key's interpreter, as people may look at it."""

    def __init__(self, key: Hashable, caller: str = "") -> None:
        self.key = key
        self.caller = caller
        self.interpreter: Interpreter
        self.runs = 0
        self.used_at: float = time.monotonic()
        self.placed = False
        """Does it hold one of the places for sessions?"""
        self.note: Note = str
        self.lock: asyncio.Lock = asyncio.Lock()
        self.callers = 0
        """Those whose run goes on, or waits for the lock: which is free for a moment between two of them."""

    @property
    def busy(self) -> bool:
        return self.callers > 0 or self.lock.locked()


class Pool:
    """`make` gives an interpreter that gets its sessions from the function it is given, and shares the threads for files.

    At most `max_sessions` sessions live at once, and one spare; with the memory that each may use, that is what all of them
    together can take. `idle_after` seconds without a run end a session.
    """

    def __init__(
        self,
        starter: SessionFactory,
        make: Callable[[Start, Workers], Interpreter],
        *,
        max_sessions: int = 16,
        idle_after: float | None = 1800.0,
        warm: bool = True,
    ) -> None:
        if type(max_sessions) is not int or max_sessions < 1:
            raise UsageError(f"max_sessions must be a whole number of at least 1, not {max_sessions!r}.")
        self.max_sessions = max_sessions
        self.idle_after = idle_after
        self.guests: dict[Hashable, PooledInterpreter] = {}
        """By key, the least recently used first."""
        self._factory = starter
        self._make = make
        self._workers = Workers(_THREADS, "clicket-interpreter")
        self._warm = warm
        self._used = 0
        self._closing = 0
        """Sessions that are being closed to make room."""
        self._held: Counter[str] = Counter()
        """Sessions of each caller, those that are being started among them."""
        self._waiting: dict[asyncio.Future[None], PooledInterpreter] = {}
        """Those who wait for a place, in the order in which they came."""
        self._spare: asyncio.Task[Session] | None = None
        self._spare_at = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def lend(
        self, key: Hashable | None, note: Note = str, *, caller: str = ""
    ) -> AsyncIterator[PooledInterpreter]:
        """The interpreter of a key, for one run at a time. Without a key: a new one, closed afterwards. `caller` has its share of
        the sessions."""
        if self._closed:
            raise UsageError("the sessions are closed; open the runtime again.")
        guest = self.guests.pop(key, None) if key is not None else None
        if guest is None:
            guest = PooledInterpreter(key, caller)
            guest.interpreter = self._make(self._start_of(guest), self._workers)
        if key is not None:
            self.guests[key] = guest  # at the end: used last
        guest.callers += 1
        try:
            async with guest.lock:
                guest.note = note
                guest.runs += 1
                try:
                    await guest.interpreter.open()
                    yield guest
                finally:
                    await self._given_back(guest)
        finally:
            guest.callers -= 1

    async def sweep(self, busy: Collection[Hashable] = frozenset()) -> int:
        """Close the sessions that were idle for too long, and the spare that nobody came for."""
        if self.idle_after is None:
            return 0
        limit, closed = time.monotonic() - self.idle_after, 0
        for guest in list(self.guests.values()):
            if guest.placed and not guest.busy and guest.used_at < limit and guest.key not in busy:
                closed += await self._drop(guest, f"nobody used it for {self.idle_after:g} seconds")
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
        for guest in list(self.guests.values()):
            await self._close(guest)
        self.guests.clear()
        await self._factory.close()
        self._workers.close()

    # Idle sessions end on time, also where nobody calls `sweep`.

    def _look_later(self) -> None:
        idle = [guest.used_at for guest in self.guests.values() if guest.placed]
        if self._spare is not None:
            idle.append(self._spare_at)
        if idle and self.idle_after is not None and self._timer is None and not self._closed:
            wait = max(min(idle) + self.idle_after - time.monotonic(), _SOONEST)
            self._timer = asyncio.get_running_loop().call_later(wait, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_quietly())

    async def _sweep_quietly(self) -> None:
        try:
            await self.sweep()
        except (ClicketError, OSError) as error:
            logger.warning("an idle session could not be closed: %s", error)
        finally:
            self._look_later()

    # Places: each session has one, from before it is started until it is gone.

    def _start_of(self, guest: PooledInterpreter) -> Start:
        async def start() -> Session:
            if not guest.placed:
                await self._find_place(guest)
            self._spare_at = time.monotonic()
            return await self._take_spare() or await self._factory()

        return start

    async def _find_place(self, guest: PooledInterpreter) -> None:
        if self._used < self.max_sessions:
            self._used += 1
            self._place(guest)
            return
        turn = self._wait(guest)
        try:
            await (
                self._make_room()
            )  # a place that is free then goes to whoever has the fewest, and we are among them now
            if not turn.done():
                guest.note(f"all {self.max_sessions} sessions are in use; this run waits for one")
            await turn
        except BaseException:
            if self._waiting.pop(turn, None) is None and not turn.cancelled():
                self._take_place(guest)  # it was ours already: the next one's now
                self._free()
            raise

    def _wait(self, guest: PooledInterpreter) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = guest
        return turn

    async def _make_room(self) -> None:
        """Close idle sessions for those who wait, as long as one of them may take one, and no more than are waited for."""
        while len(self._waiting) > self._closing and (found := self._idle_for_waiting()) is not None:
            self._closing += 1
            try:
                await self._drop(found, _FULL)
            finally:
                self._closing -= 1

    def _idle_for_waiting(self) -> PooledInterpreter | None:
        idle = [each for each in self.guests.values() if each.placed and not each.busy] if self._waiting else []
        for waiting in self._waiting.values():
            taken = [each for each in idle if self._may_take(waiting, each)]
            if taken:
                return max(taken, key=lambda each: self._held[each.caller])  # of equals, the first: used least recently
        return None

    def _may_take(self, guest: PooledInterpreter, other: PooledInterpreter) -> bool:
        return guest.caller == other.caller or self._held[guest.caller] < self._held[other.caller]

    def _place(self, guest: PooledInterpreter) -> None:
        guest.placed = True
        self._held[guest.caller] += 1

    def _take_place(self, guest: PooledInterpreter) -> None:
        guest.placed = False
        self._held[guest.caller] -= 1
        if not self._held[guest.caller]:
            del self._held[guest.caller]

    async def _drop(self, guest: PooledInterpreter, why: str) -> bool:
        async with guest.lock:
            had = guest.interpreter.session is not None
            await guest.interpreter.drop(why)
            self._settle(guest)
        return had

    async def _given_back(self, guest: PooledInterpreter) -> None:
        guest.used_at = time.monotonic()
        guest.note = str
        guest.interpreter.history.clear()  # results are the callers' to keep
        try:
            if guest.key is None or self._closed:
                await guest.interpreter.close()
            elif any(self._may_take(waiting, guest) for waiting in self._waiting.values()):
                await guest.interpreter.drop(_FULL)
        finally:
            self._settle(guest)
        await self._make_room()
        await self._forget_some()
        self._warm_up()
        self._look_later()

    def _settle(self, guest: PooledInterpreter) -> None:
        """A guest whose session is gone has no place any more."""
        if guest.placed and guest.interpreter.session is None:
            self._take_place(guest)
            self._free()

    def _free(self) -> None:
        """A place is handed on, so that nobody overtakes a caller that waits with no more sessions."""
        waiting = [turn for turn in self._waiting if not turn.done()]
        if not waiting:
            self._used -= 1
            return
        turn = min(waiting, key=lambda each: self._held[self._waiting[each].caller])
        self._place(self._waiting.pop(turn))
        turn.set_result(None)

    async def _forget_some(self) -> None:
        lost = [guest for guest in self.guests.values() if not guest.placed and not guest.busy]
        for guest in lost[: max(len(lost) - _REMEMBERED, 0)]:
            del self.guests[guest.key]
            await self._close(guest)

    async def _close(self, guest: PooledInterpreter) -> None:
        try:
            await guest.interpreter.close()
        except ClicketError as error:
            logger.warning("a session could not be closed: %s", error)
        self._settle(guest)

    # The spare.

    def _warm_up(self) -> None:
        """After a run, so that it takes nothing from it."""
        if self._warm and self._spare is None and not self._closed:
            self._spare = asyncio.get_running_loop().create_task(self._make_spare())

    async def _make_spare(self) -> Session:
        session = await self._factory(WARM_MODULES)
        session.rest()
        return session

    async def _take_spare(self) -> Session | None:
        if self._spare is None or not self._spare.done():
            return None
        made, self._spare = self._spare, None
        if made.cancelled() or (error := made.exception()) is not None:
            logger.warning("no spare session could be made, so none is: %s", None if made.cancelled() else error)
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
