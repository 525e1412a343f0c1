"""Budgets and the ledger under faults: processes that reserve, settle, release and count over one store, and die, pause, or lose the answer
of a commit at any time. Whatever happens: an account has what the ledger has, and on top of it only what is reserved.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from clicket.errors import StoreUnavailable
from clicket.model.chat import ChatMessage, ChatRequest, Usage
from clicket.ports import DocumentWrite, Owner, Presence, Store, StoredDocument
from clicket.spend import Budget, PriceTable, Reservation, SpendBook, spender_of_turn
from clicket.testing import StepClock
from clicket.tools.costs import Cost

__all__ = ["ACTIONS", "FAULTS", "SpendFaults", "Step", "random_steps"]

T = TypeVar("T")
BUDGETS = (
    Budget(scope="all", limit_tokens=1_200, period="total"),
    Budget(scope="caller", limit_tokens=10_000, period="month"),
)
REQUEST = ChatRequest(messages=(ChatMessage(role="user", content="x" * 84),), max_tokens=50)
"""It reserves 100 tokens."""
RESERVED = 100
ACTIONS = (
    "reserve",
    "settle",
    "settle_again",
    "release",
    "assume",
    "cost",
    "old_cost",
    "lapse",
    "wake",
    "resume",
    "sweep",
)
FAULTS = (
    "",
    "",
    "",
    "die_before",
    "die_after",
    "down_before",
    "down_after",
    "lost",
    "lost_after",
    "pause_before",
    "pause_after",
)


class Step(msgspec.Struct, frozen=True):
    """What a process does next, to the n-th of what it may be done to, and what happens at its next commit."""

    action: str
    process: int
    number: int
    fault: str


def random_steps(seed: int, count: int) -> list[Step]:
    chance = random.Random(seed)
    return [
        Step(chance.choice(ACTIONS), chance.randrange(2), chance.randrange(8), chance.choice(FAULTS))
        for _ in range(count)
    ]


class Model:
    name = "m"


class _Process:
    def __init__(self, world: SpendFaults, number: int) -> None:
        self.owner = Owner(host="h", boot="b", pid=number, started="s", lease=10.0)
        self.alive = True
        self.fault = ""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.book = SpendBook(_Faulty(world, self), world.clock, self.owner, PriceTable(), BUDGETS, self.spawn)  # type: ignore[arg-type]

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


class _Faulty:
    """The store as one process reaches it."""

    def __init__(self, world: SpendFaults, process: _Process) -> None:
        self._world = world
        self._process = process

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        return await self._counted(self._world.store.document(kind, key))

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return await self._counted(self._world.store.documents(kind, after=after, limit=limit))

    async def _counted(self, work: Coroutine[Any, Any, T]) -> T:
        self._world.open += 1
        try:
            return await work
        finally:
            self._world.open -= 1

    async def owners(self) -> list[Presence]:
        return [Presence(id=each.owner.pid, owner=each.owner, alive=each.alive) for each in self._world.processes]

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        fault, self._process.fault = self._process.fault, ""
        what, _, side = fault.partition("_")
        if side == "before":
            await self._meet(what)
        done = await self._counted(self._world.store.put_documents(writes))
        if side == "after":
            await self._meet(what)
        return done and what != "lost"  # a client that asks again finds a newer version

    async def _meet(self, what: str) -> None:
        if what == "down":
            raise StoreUnavailable("the store is down", transient=True)
        if what == "die":
            self._world.kill(self._process)
        go = asyncio.Event()
        self._world.paused.append((self._process, go))
        await go.wait()


class SpendFaults:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = StepClock()
        self.processes: list[_Process] = []
        self.paused: list[tuple[_Process, asyncio.Event]] = []
        self._made_at = self.clock.now()
        self.open = 0
        """Requests to the store that have no answer yet."""
        self._numbers = 0
        self._held: list[tuple[_Process, Reservation]] = []
        self._settled: list[tuple[Reservation, dict[str, Any], Usage]] = []
        self._costs: dict[str, Cost] = {}
        self._acked: dict[str, int] = {}
        """Tokens that must be in the ledger at the end, by the entry's id."""
        self._now = [self._start(), self._start()]

    def _start(self) -> _Process:
        self._numbers += 1
        process = _Process(self, self._numbers)
        self.processes.append(process)
        return process

    def kill(self, process: _Process) -> None:
        """Nothing of it runs again. What waits in it is cancelled at the end."""
        process.alive = False
        self.paused = [each for each in self.paused if each[0] is not process]
        self._held = [each for each in self._held if each[0] is not process]
        self._now = [self._start() if each is process else each for each in self._now]

    async def run(self, steps: Sequence[Step]) -> None:
        try:
            for step in steps:
                process = self._now[step.process]
                process.fault = step.fault
                getattr(self, f"_{step.action}")(process, step.number)
                await self._rest()
                process.fault = ""
                await self.check()
            await self._end()
        finally:
            for process in self.processes:
                for task in [*process.tasks, *process.book.accounts._changing]:
                    task.cancel()
            await asyncio.sleep(0)

    async def _rest(self) -> None:
        """Until nothing goes on but what is paused or dead; then what failed is tried again, until nothing goes on again."""
        for _ in range(2):
            quiet = 0
            while quiet < 20:
                await asyncio.sleep(0.0002 if self.open else 0)
                quiet = 0 if self.open else quiet + 1
            self.clock.advance(11.0)

    async def _end(self) -> None:
        """All wake up, then all die: what is reserved is swept."""
        while self.paused:
            self._resume(self._now[0], 0)
            await self._rest()
            await self.check()
        for process in self._now:
            self.kill(process)
        self._sweep(self._now[0], 0)
        await self._rest()
        entries = await self.check()
        async for _, account, _ in self._now[0].book.accounts.listed():
            assert not account.holds, "what is reserved ends"
        for id, tokens in self._acked.items():
            found = entries.get(id, 0)
            is_newer = id.startswith("call:") and found > tokens  # a later report of the call
            assert found == tokens or is_newer, f"{id}: {tokens} were acknowledged, the ledger has {found}"

    async def check(self) -> dict[str, int]:
        """The law. Returns the tokens of each entry."""
        book = self._now[0].book
        entries = {id: e.all_tokens async for page in book.ledger.pages() for id, e in page.entries.items()}
        async for _, account, _ in book.accounts.listed():
            assert account.tokens == sum(entries.values()), f"{account.scope}: account and ledger differ"
            most = 1_200 + sum(cost.tokens for cost in self._costs.values())
            assert account.scope != "all" or account.used()[1] <= most, "the limit was passed"
        return entries

    # What a process may do.

    def _reserve(self, process: _Process, number: int) -> None:
        async def reserve() -> None:
            held = await process.book.reserve(spender_of_turn("", f"t{number}", "a", 1), 1, Model, REQUEST)
            if isinstance(held, Reservation):
                self._held.append((process, held))

        process.spawn(reserve())

    def _take(self, process: _Process, number: int) -> Reservation | None:
        mine = [held for whose, held in self._held if whose is process]
        if not mine:
            return None
        held = mine[number % len(mine)]
        self._held.remove((process, held))
        return held

    def _settle(self, process: _Process, number: int) -> None:
        held = self._take(process, number)
        if held is not None:
            usage = Usage(input_tokens=30 + number, output_tokens=10)
            note = process.book.note(Model, usage, held, "")
            self._settled.append((held, note, usage))
            process.spawn(self._settle_one(process, held, note, usage))

    def _settle_again(self, process: _Process, number: int) -> None:
        """The turn continues in another process, which settles each reply that is on record."""
        if self._settled:
            process.spawn(self._settle_one(process, *self._settled[number % len(self._settled)]))

    async def _settle_one(self, process: _Process, held: Reservation, note: dict[str, Any], usage: Usage) -> None:
        settling = process.book.settle(held.spender, held.step, note, usage)
        assert settling is not None
        await settling
        self._acked[held.id] = usage.total

    def _release(self, process: _Process, number: int) -> None:
        held = self._take(process, number)
        if held is not None:
            process.spawn(self._release_one(process, held))

    async def _release_one(self, process: _Process, held: Reservation) -> None:
        await process.book.release(held)
        self._acked[held.id] = 0

    def _assume(self, process: _Process, number: int) -> None:
        held = self._take(process, number)
        if held is not None:
            process.book.assume(held)

    def _cost(self, process: _Process, number: int) -> None:
        """A call reports a cost, or another one."""
        call = f"c{number}"
        seq = self._costs[call].seq + 1 if call in self._costs else 1
        self._costs[call] = Cost(nano=0, tokens=10 + seq, seq=seq)
        process.spawn(self._count(process, call, self._costs[call]))

    def _old_cost(self, process: _Process, number: int) -> None:
        """A process that was paused reports what it knows, which may be old."""
        if self._costs:
            call = sorted(self._costs)[number % len(self._costs)]
            process.spawn(self._count(process, call, Cost(nano=0, tokens=11, seq=1)))

    async def _count(self, process: _Process, call: str, cost: Cost) -> None:
        await process.book.count_call("", "t", call, "tool", self._made_at, cost)
        self._acked[f"call:{call}"] = max(self._acked.get(f"call:{call}", 0), cost.tokens)

    def _lapse(self, process: _Process, number: int) -> None:
        """Its lease runs out, but it goes on."""
        process.alive = False

    def _wake(self, process: _Process, number: int) -> None:
        process.alive = True

    def _resume(self, process: _Process, number: int) -> None:
        if self.paused:
            _, go = self.paused.pop(number % len(self.paused))
            go.set()

    def _sweep(self, process: _Process, number: int) -> None:
        process.spawn(process.book.sweep(1e12))
