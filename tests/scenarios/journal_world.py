"""A small world for the property test: processes that share a store, bodies that do what they are told, disks that fail.

Every process is a real engine over a real store; only its door to the store is ours, so that it can be held, broken or cut.
A process that is cut has died: nothing it says arrives any more, and nothing is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.scenarios.journal_doors import Door, SharedMemory

from clicket import Policy, RetryableError, Runtime, Settings, ToolContext, ToolResult, tool
from clicket.compose import compose
from clicket.engine import Housekeeping, LocalEngine, close, recover
from clicket.engine.watch import cancel
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import CALL, State
from clicket.model import Event, fold, result_of
from clicket.ports import Query
from clicket.stores.liveness import this_process
from clicket.testing import StepClock

GRACE, TIMEOUT, QUEUE, APPROVAL = 2.0, 10.0, 50.0, 80.0
NAMES = ("once", "again", "asked")


class Body:
    """One attempt that waits to be told what to do."""

    def __init__(self, world: World, process: Process, ctx: ToolContext, stubborn: bool) -> None:
        self.world, self.process, self.ctx, self.stubborn = world, process, ctx, stubborn
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> Any:
        world, name = self.world, (self.ctx.call_id, self.ctx.attempt)
        world.started[name] += 1
        if name not in self.process.door.durable_attempts:
            world.complaints.append(f"attempt {name} began before its start was durable")
        world.bodies.append(self)
        try:
            while True:
                word = await self._listen()
                if word == "return":
                    return self.ctx.attempt
                if word == "retry":
                    raise RetryableError("again", retry_after=1.0)
                if word == "fail":
                    raise ValueError("no")
                if word == "emit":
                    self.ctx.emit("x")
                else:
                    self.ctx.progress(1, 2, "half")
        finally:
            world.bodies.remove(self)

    async def _listen(self) -> str:
        while True:
            try:
                word = await self.told
            except asyncio.CancelledError:
                if not self.stubborn or self.process.door.is_cut:
                    raise
            else:
                self.told = asyncio.get_running_loop().create_future()
                return word
            self.told = asyncio.get_running_loop().create_future()


class Process:
    """A runtime's insides: engine, clock, door."""

    engine: LocalEngine
    clock: StepClock

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.door = Door(world.place, number)
        self.waiters: dict[str, asyncio.Task[ToolResult]] = {}

    async def open(self, tools: bool = True) -> None:
        def body(ctx: ToolContext, stubborn: bool) -> Any:
            return Body(self.world, self, ctx, stubborn).run()

        options: dict[str, Any] = {"timeout": TIMEOUT, "max_retries": 2, "retry_delay": 1.0}

        @tool(**options)
        async def once(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, stubborn)

        @tool(idempotent=True, **options)
        async def again(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, stubborn)

        @tool(recovery="ask", **options)
        async def asked(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, stubborn)

        self.clock = StepClock(self.world.now)
        settings = Settings(
            store="memory://", max_concurrency=2, queue_timeout=QUEUE, cancel_grace=GRACE, lease=1e9, max_claims=4
        )
        self.engine = await compose(
            [once, again, asked] if tools else [],
            settings,
            store=self.door,
            policy=Policy(ask=["asked"], approval_timeout=APPROVAL),
            clock=self.clock,
            chance=random.Random(0),
        )
        self.chores = Housekeeping(self.engine)
        self.runtime = Runtime(settings=settings)
        self.runtime._engine = self.engine

    def submit(self, id: str, name: str, stubborn: bool, deadline: float | None, direct: bool) -> None:
        self.waiters[id] = asyncio.ensure_future(self._call(id, name, stubborn, deadline, direct))

    async def _call(self, id: str, name: str, stubborn: bool, deadline: float | None, direct: bool) -> ToolResult:
        """A caller: one that waits from the start, or one that hands the call over and asks later."""
        if direct:
            return await self.runtime.call(name, {"stubborn": stubborn}, id=id, deadline=deadline)
        handle = await self.runtime.submit(name, {"stubborn": stubborn}, id=id, deadline=deadline)
        return await handle.result()

    async def listen(self) -> None:
        """What housekeeping does now and then: hear what others asked."""
        with contextlib.suppress(ClicketError):
            await self.chores._listen()

    async def die(self) -> None:
        await self.door.cut()
        for _ in range(5):  # nothing may be left, whatever it does on its way out
            for task in [*self.engine.tasks, *self.waiters.values()]:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*self.engine.tasks, *self.waiters.values(), return_exceptions=True)
        self.engine.workers.close()
        await self.engine.processes.close()


class World:
    """Processes over one store, and what must be true of it at every moment."""

    def __init__(self, kind: str) -> None:
        self.folder: Path | None = None
        if kind == "memory":
            self.place: SharedMemory | Path = SharedMemory()
        else:
            shm = Path("/dev/shm")  # a disk that is not one: thousands of runs should not wear out yours
            parent = str(shm) if shm.is_dir() and os.access(shm, os.W_OK) else None
            self.folder = Path(tempfile.mkdtemp(prefix="clicket-test-", dir=parent))
            self.place = self.folder / "calls.db"
        self.now = 1_700_000_000.0
        self.numbers = itertools.count(1)
        self.ids: list[str] = []
        self.bodies: list[Body] = []
        self.started: Counter[tuple[str, int]] = Counter()
        self.seen: dict[str, list[Event]] = {}
        self.left: set[str] = set()
        self.complaints: list[str] = []
        self.processes: list[Process] = []
        self.log = _Errors(self.complaints)

    # What can be done to it.

    async def start(self) -> None:
        logging.getLogger("clicket").addHandler(self.log)
        if isinstance(self.place, SharedMemory):
            await self.place.open(this_process(60.0))
        self.observer = await self._process(tools=False)
        await self.reopen()

    async def _process(self, tools: bool = True) -> Process:
        process = Process(self, next(self.numbers))
        await process.open(tools)
        return process

    async def reopen(self) -> None:
        """A new process takes over what it finds. One that still runs is thought dead: it becomes a stale owner."""
        process = await self._process()
        self.processes.append(process)
        await recover(process.engine)
        await self.settle()

    @property
    def current(self) -> Process | None:
        return self.processes[-1] if self.processes else None

    async def submit(self, name: str, stubborn: bool, deadline: float | None, direct: bool) -> None:
        assert self.current is not None
        id = f"c{len(self.ids)}"
        self.ids.append(id)
        self.current.submit(id, name, stubborn, deadline, direct)
        await self.settle()

    async def tell(self, body: Body, word: str) -> None:
        if not body.told.done():
            body.told.set_result(word)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for process in [*self.processes, self.observer]:
            process.clock.advance(seconds)
        await self.settle()

    def cancel(self, process: Process, id: str) -> None:
        """From inside the process that runs it."""
        call = process.engine.find_live(id, None, None)
        if call is not None:
            process.engine.cancel(call, "asked to")

    def caller_leaves(self, id: str) -> None:
        """Whoever waits for the call is cancelled: a call that was made to be waited for ends with its caller."""
        for process in self.processes:
            if id in process.waiters:
                process.waiters[id].cancel()
                self.left.add(id)

    async def cancel_from_outside(self, id: str) -> None:
        if await self.observer.door.load(id):
            await cancel(self.observer.engine, id, None, None, "from outside")
        await self.settle()

    async def listen(self) -> None:
        for process in self.processes:
            process.engine.spawn(process.listen())
        await self.settle()

    async def decide(self, approved: bool) -> None:
        assert self.current is not None
        for calls in list(self.current.engine.live.values()):
            for call in list(calls):
                if call.waiting_for == "approval" and not call.settling:
                    self.current.engine.decide(call, approved=approved, by="me", reason="")
        await self.settle()

    async def crash(self, process: Process) -> None:
        self.processes.remove(process)
        await process.die()
        await self.settle()

    async def leave(self, process: Process) -> None:
        """An orderly end."""
        process.door.failing = process.door.losing = 0
        process.door.release()
        await self.settle()
        # What does not stop is left behind by design, and would be here for ever. Whoever was in line behind it is next.
        while stubborn := [body for body in self.bodies if body.process is process and body.stubborn]:
            await self.tell(stubborn[0], "return")
        self.processes.remove(process)
        process.chores.stop()
        closing = asyncio.ensure_future(close(process.engine, patience=0))
        while not closing.done():  # whatever it waits for hangs on its clock or on the store's threads
            await asyncio.wait([closing], timeout=0.001)
            process.clock.advance(0.1)
        await closing
        for _ in range(
            3
        ):  # who waits for another process's outcome looks again now and then, and finds the store closed
            process.clock.advance(1.0)
            await self.settle()
        for id, waiter in process.waiters.items():
            if not waiter.done() and id not in self.left:
                self.complaints.append("a caller was left waiting by a runtime that closed")
            waiter.cancel()
        if process.engine.tasks:
            self.complaints.append(f"tasks of a runtime that closed: {process.engine.tasks}")
            for task in process.engine.tasks:
                task.cancel()
        await asyncio.gather(*process.waiters.values(), *process.engine.tasks, return_exceptions=True)
        await self.settle()

    async def settle(self) -> None:
        """Until nobody has anything left to do: on the loop, or in a store's threads."""
        doors = [process.door for process in [*self.processes, self.observer]]
        while True:
            asked = [door.asked for door in doors]
            for door in doors:
                await door.barrier()
            await self.observer.clock.settle()
            if asked == [door.asked for door in doors]:
                return

    # What must be true of it.

    async def check(self) -> None:
        for id in self.ids:
            found = await self.observer.door.inner.load(id)
            assert len(found) <= 1
            events = found[0].events if found else []
            self._check_events(id, events)
            for process in self.processes:
                for call in process.engine.live.get(id, ()):
                    assert call.events == events[: len(call.events)], (
                        f"{id}: shown before, or other than, it was stored"
                    )
        for name, times in self.started.items():
            assert times == 1, f"attempt {name} was begun {times} times"
        assert self.complaints == [], self.complaints

    def _check_events(self, id: str, events: list[Event]) -> None:
        before = self.seen.get(id, [])
        assert events[: len(before)] == before, f"{id}: what was written has changed"
        self.seen[id] = events
        if not events:
            return
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), f"{id}: a gap"
        assert events[0].type == "created"
        state, ends, attempts = State.PENDING, 0, 0
        for event in events:
            if event.type == "state_changed":
                assert event.data["from"] == state.value, f"{id}: starts elsewhere than it was"
                assert event.state in CALL.edges[state], f"{id}: {state} -> {event.state} is not in the table"
                state = event.state
                ends += event.state.is_terminal
                unknown = (event.data.get("error") or {}).get("code") == "outcome_unknown"
                assert not (unknown and state is State.RETRYING and events[0].data["tool"] == "once"), (
                    f"{id}: a silent repeat"
                )
            elif event.type == "attempt_started":
                attempts += 1
                assert event.data["attempt"] == attempts, f"{id}: attempts are counted 1, 2, 3"
                assert state is State.RUNNING
            assert event.state is state, f"{id}: the state changed without saying so"
            assert ends == 0 or event.is_terminal or event.type in ("late_result", "cancel_requested", "note")
        assert ends == state.is_terminal, f"{id}: one outcome"
        record = fold(events)
        assert (record.state, len(record.attempts)) == (state, attempts)
        assert (record.ended_at is not None) == state.is_terminal
        if state.is_terminal and state is not State.COMPLETED:
            assert record.error is not None

    async def finish(self) -> None:
        """Everything comes to its end by itself: bodies return or run out of time, lines move on, orphans are taken up."""
        try:
            for process in self.processes:
                process.door.failing = process.door.losing = 0
                process.door.release()
            await self.settle()
            for stale in self.processes[:-1]:
                await self.crash(stale)
            if self.current is None:
                await self.reopen()
            else:
                await recover(self.current.engine)
            for _ in range(60):
                while self.bodies:
                    await self.tell(self.bodies[0], "return")
                await self.advance(20.0)
                if not any(events and not events[-1].state.is_terminal for events in await self._all()):
                    break
            await self.advance(
                APPROVAL + QUEUE
            )  # who lost a call without knowing it finds out when it next says something
            await self.check()
            await self._check_end()
        finally:
            await self.end()

    async def _all(self) -> list[list[Event]]:
        return [stored.events for id in self.ids for stored in await self.observer.door.inner.load(id)]

    async def _check_end(self) -> None:
        process = self.current
        assert process is not None
        for id, waiter in process.waiters.items():
            assert waiter.done() or id in self.left, f"{id}: its caller waits for ever"
            if id not in self.left and waiter.exception() is not None:
                assert isinstance(waiter.exception(), StoreUnavailable), repr(waiter.exception())
        for events in await self._all():
            id, record = events[0].call_id, fold(events)
            assert record.state.is_terminal, f"{id} was lost: {record.state}"
            listed = await self.observer.door.inner.history(Query(state=record.state, limit=1_000))
            assert id in {stored.events[0].call_id for stored in listed}, f"{id}: the index says something else"
            waiter = process.waiters.get(id)
            if waiter is not None and id not in self.left and waiter.exception() is None:
                result = waiter.result()
                assert result == result_of(record), f"{id}: its caller was told something else"
        engine = process.engine
        assert engine.live == {}, f"ended, but still live: {list(engine.live)}"
        assert not engine.lingering, "a body that came back still lingers"
        assert not any(engine.limiter.used.values()), "a slot is still taken"
        assert engine.limiter.queued == 0, "somebody still stands in line"
        assert engine.journal.unsaved == set()

    async def end(self) -> None:
        logging.getLogger("clicket").removeHandler(self.log)
        for process in list(self.processes):
            await self.crash(process)
        await self.observer.die()
        if self.folder is not None:
            shutil.rmtree(self.folder)


class _Errors(logging.Handler):
    """What the library logs as an error is one, except that a broken disk is meant."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        if "could not be stored" not in record.msg:
            cause = record.exc_info[1] if record.exc_info else None
            self._complaints.append(f"{record.getMessage()}: {cause!r}")


__all__ = ["NAMES", "Body", "World"]
