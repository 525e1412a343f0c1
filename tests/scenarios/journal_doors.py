"""One process's way to a store that several share: it can be held up, fail, lose its answers, or be cut for good."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, Done, Owner, Stored
from clicket.stores.memory import MemoryStore
from clicket.stores.sqlite import SqliteStore

__all__ = ["Door", "SharedMemory"]


def _pid_of_the_dead() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


_DEAD_PID = _pid_of_the_dead()


class SharedMemory(MemoryStore):
    """Memory that several processes share, as a file is shared: it knows who owns what."""

    def __init__(self) -> None:
        super().__init__()
        self.durability = "process"
        self.owners: dict[int, int] = {}
        self.claims: Counter[int] = Counter()
        self.cancels: set[int] = set()

    def take(self, change: Append, owner: int, done: Done) -> None:
        creates = change.expect == 0

        def answered(change: Append, error: ClicketError | None) -> None:
            if error is None and creates:
                self.owners[change.key], self.claims[change.key] = owner, 1
            if error is None and change.request:
                self.cancels.add(change.key)
            done(change, error)

        self.append(change, answered)

    def claim(self, mine: int, tools: frozenset[str]) -> list[Stored]:
        found = []
        for call in self._calls.values():
            if call.ended_at is None and call.tool in tools and self.owners[call.key] != mine:
                call.fence += 1
                self.owners[call.key] = mine
                self.claims[call.key] += 1
                self.cancels.discard(call.key)
                found.append(
                    Stored(
                        key=call.key,
                        fence=call.fence,
                        claims=self.claims[call.key],
                        owner=mine,
                        events=list(call.events),
                    )
                )
        return found


class Door:
    """One process's way to the store."""

    def __init__(self, place: SharedMemory | Path, number: int) -> None:
        self.number = number
        self.memory = place if isinstance(place, SharedMemory) else None
        self.inner: Any = self.memory or SqliteStore(place)  # type: ignore[arg-type]
        self.url, self.durability = self.inner.url, self.inner.durability
        self.is_cut = self.is_closed = self.holding = False
        self.held: list[tuple[Append, Done]] = []
        self.failing = self.losing = 0
        self.asked = 0
        self.durable_attempts: set[tuple[str, int]] = set()

    async def open(self, owner: Owner) -> None:
        values = {name: getattr(owner, name) for name in Owner.__struct_fields__}
        await self.inner.open(Owner(**{**values, "pid": _DEAD_PID}))

    async def close(self) -> None:
        self.is_closed = True
        if self.memory is None:
            await self.inner.close()
        else:
            for key, owner in self.memory.owners.items():
                if owner == self.number:
                    self.memory.owners[key] = 0

    def append(self, change: Append, done: Done) -> None:
        self.asked += 1
        if self.is_cut:
            return
        if self.is_closed:
            done(change, StoreUnavailable("closed"))
        elif self.failing:
            self.failing -= 1
            done(change, StoreUnavailable("the disk is full"))
        elif self.holding:
            self.held.append((change, done))
        else:
            self._write(change, done)

    def _write(self, change: Append, done: Done) -> None:
        lost = self.losing > 0 and change.expect > 0
        self.losing -= lost

        def answered(change: Append, error: ClicketError | None) -> None:
            if error is None:
                self.durable_attempts |= {
                    (change.id, e.data["attempt"]) for e in change.events if e.type == "attempt_started"
                }
            if not self.is_cut:
                done(change, StoreUnavailable("the answer was lost") if lost and error is None else error)

        if self.memory is not None:
            self.memory.take(change, self.number, answered)
        else:
            self.inner.append(change, answered)

    def release(self, number: int | None = None) -> None:
        """Let held appends through, in order."""
        now, self.held = self.held[:number], self.held[len(self.held) if number is None else number :]
        self.holding = bool(self.held)
        for change, done in now:
            self._write(change, done)

    def __getattr__(self, name: str) -> Any:
        """Everything else is passed on, unless this process is dead."""
        method = getattr(self.inner, name)

        async def passed(*given: Any, **named: Any) -> Any:
            self.asked += 1
            if self.is_closed:
                raise StoreUnavailable("closed")
            if self.is_cut:
                await asyncio.get_running_loop().create_future()
            value = await method(*given, **named)
            if self.is_cut:
                await asyncio.get_running_loop().create_future()
            return value

        return passed

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        self.asked += 1
        if self.memory is not None:
            return self.memory.claim(self.number, tools)
        claimed: list[Stored] = await self.inner.claim_orphans(tools, limit)
        return claimed

    async def requests(self) -> list[int]:
        if self.memory is not None:
            return [key for key in self.memory.cancels if self.memory.owners[key] == self.number]
        keys: list[int] = await self.inner.requests()
        return keys

    async def barrier(self) -> None:
        """Everything handed to the store's threads so far is done."""
        if self.memory is None and not self.is_cut:
            await self.inner.load("nothing")
            answered = asyncio.get_running_loop().create_future()
            nothing = Append("nothing", "t", "", "once", 1, 1, [], State.PENDING, 0.0, key=-1)
            self.inner.append(nothing, lambda _, error: answered.set_result(error))
            await answered

    async def cut(self) -> None:
        self.is_cut = True
        self.held.clear()
        if self.memory is None:
            writer, self.inner._writer = self.inner._writer, None
            await writer.drain()
            self.inner._reader.close()
            writer.connection.close()
            self.inner._close_threads()
