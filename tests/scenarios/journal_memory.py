"""A memory store that several simulated processes share like a file or a server, for tests of many runtimes in one process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from clicket.errors import ClicketError, StoreUnavailable
from clicket.ports import Append, Done, NoBus, OnHint, Owner, Presence, Query, Stored, ToolHealth
from clicket.stores.memory import MemoryStore, _Call

__all__ = ["SharedMemory", "Side"]


class SharedMemory:
    """Shared memory, like a shared file: it tracks owners, and what each of them holds.

    `hints`: does it notify owners of other owners' writes, as a store on a network would?
    """

    def __init__(self, *, hints: bool = False) -> None:
        self.hints = hints
        self.calls = MemoryStore()
        self.numbers = itertools.count(1)
        self.owner_of: dict[int, int | None] = {}
        self.owners: dict[int, tuple[Owner, bool]] = {}
        self.slots: dict[str, dict[int, int]] = {}
        self.sides: list[Side] = []

    def tell(self, kind: str, key: int) -> None:
        if self.hints:
            for side in self.sides:
                asyncio.get_running_loop().call_soon(side.pass_on, kind, key)

    def is_dead(self, owner: int | None) -> bool:
        return owner is not None and not self.owners.get(owner, (None, False))[1]

    def live(self) -> list[_Call]:
        return list(self.calls._live())


class Side:
    """One owner's view of it. Implements `ports.Store`."""

    def __init__(self, shared: SharedMemory) -> None:
        self.shared, self.calls = shared, shared.calls
        self.url, self.durability = "memory://", "process"
        self.on_hint: OnHint = lambda kind, key: None
        self.bus = NoBus()
        self.owner = 0
        self.is_open = False

    async def open(self, owner: Owner) -> None:
        await self.calls.open(owner)
        self.owner, self.is_open, self.identity = next(self.shared.numbers), True, owner
        self.shared.sides.append(self)
        self.shared.owners[self.owner] = (owner, owner.lease > 1.0)

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.shared.sides.remove(self)
            self._free([key for key, owner in self.shared.owner_of.items() if owner == self.owner])
            self._drop_slots({self.owner})
            self.shared.owners.pop(self.owner, None)

    def pass_on(self, kind: str, key: int) -> None:
        if self.is_open:
            self.on_hint(kind, key)

    def give_up(self) -> None:
        """Expire its lease."""
        if self.owner in self.shared.owners:
            self.shared.owners[self.owner] = (self.identity, False)

    def append(self, change: Append, done: Done) -> None:
        if not self.is_open:
            done(change, StoreUnavailable("closed"))
            return

        def answered(change: Append, error: ClicketError | None) -> None:
            if error is None:
                self._took(change)
            done(change, error)

        self.calls.append(change, answered)

    def _took(self, change: Append) -> None:
        if change.fence != -1 and (change.expect == 0 or not change.owned):
            self.shared.owner_of[change.key] = self.owner if change.owned else None
        if not change.owned:
            self.shared.tell("work", change.key)
        if change.signal:
            self.shared.tell("signal", change.key)
        if change.stats is not None and change.stats.effect == "failed":
            self.shared.tell("health", 0)
        self.shared.tell("events", change.key)

    def health_stamp(self) -> int | None:
        return None

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        self._check_open()
        done = await self.calls.put_tool_health(caller, thread, health, expect)
        self.shared.tell("health", 0)
        return done

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        self._check_open()
        return self._with_owners(await self.calls.load(id, thread, caller))

    async def history(self, query: Query) -> list[Stored]:
        self._check_open()
        return self._with_owners(await self.calls.history(query))

    def _with_owners(self, found: list[Stored]) -> list[Stored]:
        for stored in found:
            stored.owner = self.shared.owner_of[stored.key]
        return found

    def _check_open(self) -> None:
        if not self.is_open:
            raise StoreUnavailable("closed")

    async def renew(self) -> None:
        self._check_open()
        self.shared.owners[self.owner] = (self.identity, True)

    async def owners(self) -> list[Presence]:
        self._check_open()
        known = self.shared.owners.items()
        return [Presence(id=id, owner=owner, alive=alive, mine=id == self.owner) for id, (owner, alive) in known]

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        self._check_open()
        shared, dead = self.shared, {id for id, (_, alive) in self.shared.owners.items() if not alive} - {self.owner}
        lost = [c for c in shared.live() if shared.is_dead(owner := shared.owner_of[c.key]) and owner != self.owner]
        claimed = [self._claim(call) for call in [c for c in lost if (c.queue or c.tool) in tools][:limit]]
        holders = {owner for slots in shared.slots.values() for owner in slots}
        self._drop_slots(dead | {owner for owner in holders - {self.owner} if shared.is_dead(owner)})
        for id in dead - {shared.owner_of[call.key] for call in shared.live()}:
            del shared.owners[id]
        return claimed

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        self._check_open()
        unowned = [c for c in self.shared.live() if self.shared.owner_of[c.key] is None]
        return [self._claim(call) for call in self._queues.in_fair_order(unowned, tools, limit)]

    async def claim(self, key: int) -> Stored | None:
        self._check_open()
        for call in self.shared.live():
            owner = self.shared.owner_of[call.key]
            if call.key == key and (owner is None or (self.shared.is_dead(owner) and owner != self.owner)):
                return self._claim(call)
        return None

    def _claim(self, call: _Call) -> Stored:
        taken_from, self.shared.owner_of[call.key] = self.shared.owner_of[call.key], self.owner
        call.fence += 1
        call.claims += 1
        call.signalled = False
        return Stored(
            key=call.key,
            fence=call.fence,
            claims=call.claims,
            owner=self.owner,
            events=list(call.events),
            id=call.id,
            taken_from=taken_from,
        )

    async def owned(self) -> list[int]:
        self._check_open()
        return [call.key for call in self.shared.live() if self.shared.owner_of[call.key] == self.owner]

    async def hand_back(self, keys: Sequence[int]) -> None:
        self._check_open()
        self._free([key for key in keys if self.shared.owner_of.get(key) == self.owner])

    def _free(self, keys: Sequence[int]) -> None:
        for key in keys:
            self.shared.owner_of[key] = None
            self.shared.tell("work", key)

    async def signals(self) -> list[int]:
        self._check_open()
        return [call.key for call in self.shared.live() if call.signalled and call.key in await self.owned()]

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        self._check_open()
        slots = self.shared.slots.setdefault(name, {})
        others = sum(held for owner, held in slots.items() if owner != self.owner)
        before = slots.get(self.owner, 0)
        if count > before and others + count > capacity:
            return False
        slots[self.owner] = count
        if not count:
            del slots[self.owner]
        if count < before:
            self.shared.tell("slot", 0)
        return True

    def _drop_slots(self, owners: set[int]) -> None:
        for slots in self.shared.slots.values():
            for owner in owners & slots.keys():
                del slots[owner]
        self.shared.tell("slot", 0)

    def held(self) -> list[tuple[str, int]]:
        """Which owners hold slots of which name."""
        return [(name, owner) for name, slots in self.shared.slots.items() for owner in slots]

    def __getattr__(self, name: str) -> Any:
        """All owners share artifacts and cached results."""
        return getattr(self.calls, name)
