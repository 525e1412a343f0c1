"""What stores behind a network share: group commit with one group under way, and answers when the connection breaks.

A connection that breaks in the middle leaves it open whether the group was applied. It is sent again with `again` set: then
the backend, for each unit, first looks whether that very unit is there already. When patience ends before the server is back,
the appends fail; calls that this group would have created are erased as soon as the server can be reached (law 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from clicket import system
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import dump_unit
from clicket.model.ports import Append, Done, Unstorable

__all__ = ["Backend", "GroupWriter", "Lost", "SharedReads", "Unit", "retry_while_lost"]

logger = logging.getLogger("clicket.stores")
T = TypeVar("T")
K = TypeVar("K")

_MAX_GROUP = 256
_WAIT_FIRST = 0.02
_WAIT_MOST = 0.5

Unit = tuple[Append, bytes]
"""A change, and its events as they are stored."""


class Lost(Exception):
    """The server could not be reached, broke off, or did not answer in time: what was asked may have been done."""

    hopeless = False
    """Trying again does not help."""


class Backend(Protocol):
    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        """Apply units in order, each atomically, and answer for each. `again`: some may be there already, by this writer;
        a unit whose events stand under their numbers, byte for byte, was applied. Raises `Lost`."""
        ...

    async def erase(self, creations: Sequence[Unit]) -> None:
        """Remove those calls that consist of exactly the given unit. Raises `Lost`."""
        ...


_Waiting = tuple[float, Append, Done, bytes]
"""Since when an append waits, its change, what is called with its outcome, and its events as they are stored."""


class GroupWriter:
    """All appends that arrive while a group is under way become the next group. Called on the loop."""

    def __init__(self, name: str, backend: Backend, *, patience: float) -> None:
        self.name = name
        self._backend = backend
        self._patience = patience
        self._queue: deque[_Waiting] = deque()
        self._uncertain: list[Unit] = []
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def append(self, change: Append, done: Done) -> None:
        try:
            body = b"" if change.unit is None else dump_unit(change.unit)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            refusal = Unstorable(f"events of call {change.id} cannot be written as JSON: {error}")
            self._loop.call_soon(done, change, refusal)
            return
        self._queue.append((system.monotonic(), change, done, body))
        if self._task is None:
            self._task = self._loop.create_task(self._work())

    async def drain(self) -> None:
        """Wait until everything handed over so far has been written or refused, and no refused call is left behind."""
        while self._task is not None:
            await asyncio.wait([self._task])
        try:
            await self.erase_uncertain()
        except ClicketError as error:
            logger.warning("%s: calls that were refused may be there: %s", self.name, error)

    async def erase_uncertain(self) -> None:
        """Erase calls that were refused while it was unknown whether they had been written, without waiting for another append.
        Raises `StoreUnavailable`."""
        uncertain = list(self._uncertain)
        if uncertain:
            await retry_while_lost(self.name, self._patience, lambda: self._backend.erase(uncertain))
            self._uncertain = [unit for unit in self._uncertain if unit not in uncertain]

    async def _work(self) -> None:
        queue = self._queue
        try:
            while queue:
                group = [queue.popleft() for _ in range(min(len(queue), _MAX_GROUP))]
                give_up = group[0][0] + self._patience
                units = [(change, body) for _, change, _, body in group]
                try:
                    outcomes = await self._write(units, give_up)
                except Exception as error:
                    logger.exception("%s: a group of appends failed", self.name)
                    outcomes = [StoreUnavailable(f"{self.name}: the write failed: {error!r}.")] * len(group)
                for (_, change, done, _), outcome in zip(group, outcomes, strict=True):
                    _answer(change, done, outcome)
        finally:
            self._task = None

    async def _write(self, units: Sequence[Unit], give_up: float) -> Sequence[ClicketError | None]:
        again, delay = False, _WAIT_FIRST
        while True:
            try:
                if self._uncertain:
                    await self._backend.erase(self._uncertain)
                    self._uncertain = []
                return await self._backend.apply(units, again=again)
            except Lost as lost:
                again = True
                if system.monotonic() + delay >= give_up:
                    self._uncertain += [unit for unit in units if unit[0].expect == 0]
                    return [unreachable(self.name, lost)] * len(units)
            except Exception:
                if again:  # an earlier try may have gone through
                    self._uncertain += [unit for unit in units if unit[0].expect == 0]
                raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, _WAIT_MOST)


def _answer(change: Append, done: Done, outcome: ClicketError | None) -> None:
    try:
        done(change, outcome)
    except Exception:
        logger.exception("the follow-up of an append to call %s failed", change.id)


class SharedReads(Generic[K, T]):
    """Reads that tasks ask for at about the same time, in one question: all that come while one is under way are in the next. No
    answer is older than its question."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[dict[K, T]]]) -> None:
        self._read = read
        self._waiting: dict[K, asyncio.Future[T]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: K) -> T:
        answer = self._waiting.get(key)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = self._waiting[key] = loop.create_future()
            if self._task is None:
                self._task = loop.create_task(self._work())
        return await asyncio.shield(answer)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # those of this iteration of the loop come along
                waiting, self._waiting = self._waiting, {}
                try:
                    found = await self._read(list(waiting))
                except Exception as error:
                    for answer in waiting.values():
                        answer.set_exception(error)
                        answer.exception()  # a question whose task was cancelled has no reader
                else:
                    for key, answer in waiting.items():
                        answer.set_result(found[key])
        finally:
            self._task = None


async def retry_while_lost(name: str, patience: float, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer, at most `patience` seconds. Only for what may be asked twice without harm."""
    give_up = system.monotonic() + patience
    delay = _WAIT_FIRST
    while True:
        try:
            return await ask()
        except Lost as lost:
            if system.monotonic() + delay >= give_up:
                raise unreachable(name, lost) from lost
        await asyncio.sleep(delay)
        delay = min(delay * 2, _WAIT_MOST)


def unreachable(name: str, lost: Lost) -> StoreUnavailable:
    text = f"{name}: {lost}. Look at the server; clicket goes on by itself when it answers."
    return StoreUnavailable(text, transient=not lost.hopeless, url=name)
