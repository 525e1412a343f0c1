"""One process's connection to a shared store: a test can hold it up, make it fail, lose its answers, or cut it for good."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.kit.mortal_store import MortalStore
from tests.scenarios.journal_memory import SharedMemory, Side

from clicket import system
from clicket.errors import ClicketError, StoreUnavailable
from clicket.ports import Append, Done, Found, NoBus, OnHint, Owner
from clicket.system.bridge import fulfil

__all__ = ["FaultyStore", "Traffic"]

LEASE = 1e9
"""No lease expires by itself: the test expires it."""
_LONG_AGO = 2 * LEASE
_CHANGES = frozenset({"renew", "claim_orphans", "claim_waiting", "claim", "hand_back", "hold"})


class Traffic:
    """Requests in transit to the store. Each is answered when the event loop is idle, so the order is deterministic."""

    def __init__(self, settle: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._settle = settle
        self._questions: deque[tuple[FaultyStore, Callable[[], None], bool]] = deque()

    def add(self, faulty_store: FaultyStore, ask: Callable[[], None], *, is_append: bool) -> None:
        self._questions.append((faulty_store, ask, is_append))

    async def flow(self) -> None:
        """Until the event loop is idle and no request is in transit."""
        await self._settle()
        while self._questions:
            faulty_store, ask, is_append = self._questions.popleft()
            ask()
            while is_append and self._questions and self._questions[0][::2] == (faulty_store, True):
                self._questions.popleft()[1]()  # appends that arrive together are written together
            await faulty_store.quiet()
            await self._settle()


class FaultyStore:
    """One process's connection to the store. Without traffic the store answers immediately."""

    def __init__(self, place: SharedMemory | Path, traffic: Traffic | None) -> None:
        self.inner: Any = Side(place) if isinstance(place, SharedMemory) else MortalStore(place)
        self.url, self.durability = self.inner.url, self.inner.durability
        self.bus = NoBus()
        self.is_cut = self.is_closed = self.holding = False
        self._open_for: int | None = None
        self.failing = self.losing = 0
        """How many of the next appends fail; how many succeed without an answer."""
        self.stumbling = self.forgetting = 0
        """The same for all other requests to the store."""
        self.stumbled = self.is_broken = False
        """Did it ever lose the answer to a request other than an append? To any request?"""
        self.durable_attempts: set[tuple[str, int]] = set()
        self._traffic = traffic
        self._held: list[tuple[Callable[[], None], bool]] = []
        self._busy = 0
        self._idle: list[asyncio.Future[None]] = []

    @property
    def on_hint(self) -> OnHint:
        heard: OnHint = self.inner.on_hint
        return heard

    @on_hint.setter
    def on_hint(self, on_hint: OnHint) -> None:
        self.inner.on_hint = on_hint

    def health_stamp(self) -> int | None:
        stamp: int | None = self.inner.health_stamp()
        return stamp

    @property
    def owner(self) -> int:
        number: int = self.inner.owner
        return number

    async def open(self, owner: Owner) -> None:
        await self.inner.open(Owner(host="elsewhere.invalid", boot="", pid=1, started="", lease=LEASE))
        if isinstance(self.inner, MortalStore):
            self.inner.look_by_hand()

    def look(self) -> None:
        """Look for writes of other processes: a file sends no hints. Memory sends them at once."""
        if isinstance(self.inner, MortalStore):
            self.inner.look()

    async def close(self) -> None:
        await self._turn()
        try:
            await self.inner.close()
        finally:
            self.is_closed = True
            self._answered()

    # Controlled by the test.

    async def give_up(self, observer: FaultyStore) -> None:
        """Expire its lease, as if the process slept or died."""
        if isinstance(self.inner, Side):
            self.inner.give_up()
        else:
            await self.inner.expire(observer.inner, system.uptime() - _LONG_AGO)

    def slots(self) -> list[tuple[str, int]]:
        """Names of slots, and their owners."""
        if isinstance(self.inner, Side):
            return self.inner.held()
        held: list[tuple[str, int]] = self.inner.slots()
        return held

    def hold_up(self, after: int = 0) -> None:
        """Hold every request back, after this many more have passed."""
        self.holding, self._open_for = after == 0, after or None

    def heal(self) -> None:
        self.failing = self.losing = self.stumbling = self.forgetting = 0
        self.release()

    def release(self, number: int | None = None) -> None:
        """Let held requests through, in order: all, or only so many."""
        now, self._held = self._held[:number], self._held[len(self._held) if number is None else number :]
        self.holding, self._open_for = number is not None, None
        for ask, is_append in now:
            self._pass(ask, is_append=is_append)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    async def quiet(self) -> None:
        """Until the store has answered every request."""
        if self._busy:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    async def cut(self, observer: FaultyStore) -> None:
        """The process is dead: its requests do not arrive, it gets no answers, and its lease expires."""
        self.is_cut = True
        self._held.clear()
        await self.give_up(observer)
        if isinstance(self.inner, Side):
            if self.inner in self.inner.shared.sides:
                self.inner.shared.sides.remove(self.inner)
            return
        await self.inner.die()

    # Requests of the process.

    def append(self, change: Append, done: Done) -> None:
        if self.is_cut:
            return
        if self.is_closed:
            done(change, StoreUnavailable("closed"))
        elif self.failing:
            self.failing -= 1
            done(change, self._failure("the disk is full"))
        else:
            self._ask(lambda: self._write(change, done), is_append=True)

    def _ask(self, ask: Callable[[], None], *, is_append: bool = False) -> None:
        if self.holding:
            self._held.append((ask, is_append))
            return
        if self._open_for is not None:
            self._open_for -= 1
            self.holding = self._open_for == 0
        self._pass(ask, is_append=is_append)

    def _pass(self, ask: Callable[[], None], *, is_append: bool) -> None:
        if self._traffic is None:
            ask()
        else:
            self._traffic.add(self, ask, is_append=is_append)

    def _write(self, change: Append, done: Done) -> None:
        if self.is_cut:
            return
        lost = self.losing > 0 and change.expect > 0
        self.losing -= lost
        self._busy += 1

        def answered(change: Append, error: ClicketError | None) -> None:
            self._answered()
            if error is None:
                self.durable_attempts |= {
                    (change.id, e.data["attempt"]) for e in change.events if e.type == "attempt_started"
                }
            if not self.is_cut:
                done(change, self._failure("the answer was lost") if lost and error is None else error)

        self.inner.append(change, answered)

    def _answered(self) -> None:
        self._busy -= 1
        if not self._busy:
            idle, self._idle = self._idle, []
            for each in idle:
                fulfil(each)

    def cache_get(self, key: str, now: float, found: Found) -> None:
        def look() -> None:
            if not self.is_cut:
                try:
                    self._stumble()
                except StoreUnavailable as error:
                    found(None, error)
                else:
                    self.inner.cache_get(key, now, found)

        self._ask(look)

    def _stumble(self) -> None:
        if self.is_closed:
            raise StoreUnavailable("closed")
        if self.stumbling:
            self.stumbling -= 1
            self.stumbled = True
            raise self._failure("the store cannot be reached")

    def _failure(self, text: str) -> StoreUnavailable:
        self.is_broken = True
        return StoreUnavailable(text)

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> Any:
        """What the hub may read without a request; nothing is in transit, so nothing can be held up."""
        return self.inner.tool_health_now(caller, thread, tool)

    def document_now(self, kind: str, key: str) -> Any:
        return self.inner.document_now(kind, key)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        async def asked(*given: Any, **named: Any) -> Any:
            await self._turn()
            try:
                self._stumble()
                value = await method(*given, **named)
            finally:
                self._answered()
            await self._unless_cut()
            if self.forgetting and name in _CHANGES:
                self.forgetting -= 1
                self.stumbled = True
                raise self._failure("the answer was lost")
            return value

        return asked

    async def _turn(self) -> None:
        """Until this request may be sent. Its sender reports when it is done."""
        if self.holding or self._open_for is not None or self._traffic is not None:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ask(lambda: self._grant(turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # its turn came just now
                    self._answered()
                raise
        else:
            self._busy += 1
        if self.is_cut:
            self._answered()
            await self._unless_cut()

    def _grant(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            self._busy += 1
            fulfil(turn)

    async def _unless_cut(self) -> None:
        if self.is_cut:
            await asyncio.get_running_loop().create_future()
