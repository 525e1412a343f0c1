"""A small world for the property test: processes that share a store, bodies that do what they are told, disks that fail.

Every process is a real engine over a real store; only its door to the store is ours, so that it can be held, broken or cut.
A process that is cut has died: nothing it says arrives any more, and nothing is answered. One whose lease ran out lives on,
and does not know that others think it dead.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.scenarios.journal_doors import Traffic
from tests.scenarios.journal_laws import (
    MAY_REPEAT,
    check_cached,
    check_events,
    code_of,
    end_of_attempt,
    running_in_store,
)
from tests.scenarios.journal_memory import SharedMemory
from tests.scenarios.journal_process import APPROVAL, QUEUE, Body, Kind, Process

from clicket.kernel import State
from clicket.model import Event, fold, result_of
from clicket.ports import Query
from clicket.testing import StepClock

__all__ = ["World"]


class World:
    """Processes over one store, and what must be true of it at every moment."""

    def __init__(self, kind: str, *, hints: bool = False, waits: bool = True) -> None:
        self.hints = hints
        self.folder: Path | None = None
        if kind == "memory":
            self.place: SharedMemory | Path = SharedMemory(hints=hints)
        else:
            shm = Path("/dev/shm")  # a disk that is not one: thousands of runs should not wear out yours
            parent = str(shm) if shm.is_dir() and os.access(shm, os.W_OK) else None
            self.folder = Path(tempfile.mkdtemp(prefix="clicket-test-", dir=parent))
            self.place = self.folder / "calls.db"
        self.now = 1_700_000_000.0
        idle = StepClock().settle
        self.settle = idle
        """Until nobody has anything left to do: on the loop, or on the way to the store."""
        self.traffic: Traffic | None = None
        if waits:
            self.traffic = Traffic(idle)
            self.settle = self.traffic.flow
        self.delay = 0.0
        """Seconds for which questions were held up, all together."""
        self.ids: list[str] = []
        self.calls: dict[str, tuple[str, bool, float | None]] = {}
        self.words = itertools.count(1)
        self.answers: dict[str, tuple[str, bool]] = {}
        self.bodies: list[Body] = []
        self.started: Counter[tuple[str, int]] = Counter()
        self.seen: dict[str, list[Event]] = {}
        self.failed: set[bool] = set()
        self.left: set[str] = set()
        self.told: set[tuple[Process, str]] = set()
        self.complaints: list[str] = []
        self.processes: list[Process] = []
        self.log = _Errors(self.complaints)

    # What can be done to it.

    async def start(self) -> None:
        logging.getLogger("clicket").addHandler(self.log)
        self.observer = Process(self, "observer")
        await self.observer.open()
        await self.reopen()

    async def reopen(self, kind: Kind = "runner", *, alone: bool = True, slow: bool = False) -> None:
        """A new process takes over what it finds. `alone`: those that still run are thought dead, and are stale owners.

        `slow`: it has claimed their calls, and what it says of them does not get through yet.
        """
        if alone:
            for process in self.processes:
                await self.expire(process)
        process = Process(self, kind)
        await process.open()
        self.processes.append(process)
        if slow:
            process.door.hold_up(after=1)
        process.send(process.engine.recovery.recover())
        await self.settle()
        assert slow or not process.errands, "a runtime cannot be opened"

    async def expire(self, process: Process) -> None:
        """Its lease runs out, and it does not know."""
        process.given_up = process.ever_given_up = True
        for body in self.bodies:
            body.stale |= body.process is process
        await process.door.give_up(self.observer.door)

    async def submit(self, process: Process, name: str, stubborn: bool, deadline: float | None, direct: bool) -> None:
        id = f"c{len(self.ids)}"
        self.ids.append(id)
        self.calls[id] = (name, stubborn, deadline)
        process.submit(id, name, stubborn, deadline, direct)
        await self.settle()

    async def submit_again(self, process: Process, id: str, direct: bool) -> None:
        """Somebody did not hear that the call was taken, and makes it once more, perhaps elsewhere."""
        if id not in process.waiters:
            process.submit(id, *self.calls[id], direct)
        await self.settle()

    async def tell(self, body: Body, word: str) -> None:
        if not body.told.done():
            body.told.set_result(word)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        if any(process.door.is_holding for process in self.processes):
            self.delay += seconds
        for process in [*self.processes, self.observer]:
            process.clock.advance(seconds)
            if self.hints:
                process.door.look()
        await self.settle()

    def cancel(self, process: Process, id: str) -> None:
        """From inside the process that runs it."""
        call = process.engine.live.find(id, None, None)
        if call is not None:
            process.engine.stopping.cancel(call, "asked to")

    def caller_leaves(self, id: str) -> None:
        """Whoever waits for the call is cancelled: a call that was made to be waited for ends with its caller."""
        for process in self.processes:
            if id in process.waiters:
                process.waiters[id].cancel()
                self.left.add(id)

    async def cancel_from(self, process: Process, id: str) -> None:
        """By whoever asks, wherever the call is."""
        process.send(process.runtime.cancel(id, reason="from outside"))
        await self.settle()

    async def decide(self, process: Process, number: int, approved: bool) -> None:
        """A person's word on a call that waits for it, said in any process."""
        if waiting := self._waiting():
            process.send(self._word(process, waiting[number % len(waiting)], approved))
        await self.settle()

    def active(self) -> set[str]:
        return {id for id, events in self.seen.items() if events and not events[-1].state.is_terminal}

    def _waiting(self) -> list[str]:
        records = [fold(events) for events in self.seen.values() if events]
        return [record.id for record in records if record.waiting_for == "approval" and not record.cancel_requested]

    async def _word(self, process: Process, id: str, approved: bool) -> None:
        by = f"word {next(self.words)}"
        say = process.runtime.approve if approved else process.runtime.deny
        self.answers[by] = (id, await say(id, by=by))

    async def do(self, what: str, *processes: Process) -> None:
        for process in processes:
            process.do(what)
        await self.settle()

    async def crash(self, process: Process) -> None:
        self.processes.remove(process)
        await process.die()
        await self.settle()

    async def leave(self, process: Process) -> None:
        """An orderly end."""
        process.door.heal()
        await self.settle()
        # What does not stop is left behind by design, and would be here for ever. Whoever was in line behind it is next.
        while stubborn := [body for body in self.bodies if body.process is process and body.stubborn]:
            await self.tell(stubborn[0], "return")
        stopped = [body for body in self.bodies if body.process is process and not process.ever_given_up]
        owner = process.door.owner
        self.processes.remove(process)
        process.chores.closed = True
        closing = asyncio.ensure_future(process.engine.closing.close(patience=0))
        await self.settle()
        while not closing.done():  # whatever it waits for hangs on its clock
            process.clock.advance(0.1)
            await self.settle()
        await closing
        for _ in range(3):  # who waits for another's outcome looks again now and then, and finds the store closed
            process.clock.advance(1.0)
            await self.settle()
        await self._check_left(process, owner, stopped)
        for task in process.tasks():
            task.cancel()
        await asyncio.gather(*process.tasks(), return_exceptions=True)
        await self.settle()

    # What must be true of it.

    async def check(self) -> None:
        stored = await self.observer.door.inner.history(Query(limit=1_000))
        events = {each.id: each.events for each in stored}
        assert len(events) == len(stored)
        changed = [id for id in self.ids if self._has_changed(id, events.get(id, []))]
        for id in changed:
            self._check_call(id, self.seen[id])
        for process in self.processes:
            for call in process.engine.live:
                shown, id = call.entry.events, call.id
                assert shown == self.seen[id][: len(shown)], f"{id}: shown other than it was stored"
            self._check_callers(process)
        for name, times in self.started.items():
            assert times == 1, f"attempt {name} was begun {times} times"
        self._check_sharing()
        assert self.complaints == [], self.complaints

    def _has_changed(self, id: str, events: list[Event]) -> bool:
        before, self.seen[id] = self.seen.get(id, []), events
        assert events[: len(before)] == before, f"{id}: what was written has changed"
        return len(events) > len(before)

    def _check_call(self, id: str, events: list[Event]) -> None:
        record = check_events(id, events)
        if record.cached:
            check_cached(events, self.seen, self.delay)
        if record.state is State.FAILED and record.tool == "cached":
            self.failed.add(bool((record.arguments or {})["stubborn"]))

    def _check_callers(self, process: Process) -> None:
        """Whoever was told an outcome was told the one that is on record, and not before it was."""
        for id, waiter in process.waiters.items():
            if waiter.done() and id not in self.left and (process, id) not in self.told:
                self.told.add((process, id))
                error = waiter.exception()
                if error is not None:
                    assert process.excuses(error), f"{id}: its caller got {error!r}"
                else:
                    assert waiter.result() == result_of(fold(self.seen[id])), f"{id}: its caller heard something else"

    def _check_sharing(self) -> None:
        """Of a scarce tool one runs; of equal calls one runs, unless one failed. Who is thought dead may run beside."""
        scarce = [body.id for body in self.bodies if body.tool == "scarce" and not body.stale]
        assert len(scarce) <= 1, f"{scarce} run at once, and only one may"
        equal: dict[bool, list[str]] = defaultdict(list)
        for body in self.bodies:
            first = body.tool == "cached" and body.ctx.attempt == 1 and running_in_store(self.seen[body.id])
            if first and not body.stale and not body.process.door.stumbled:
                equal[body.stubborn].append(body.id)
        for stubborn, ids in equal.items():
            assert len(ids) <= 1 or stubborn in self.failed, f"{ids} are equal, and run at once"

    async def _check_left(self, process: Process, owner: int, stopped: list[Body]) -> None:
        """A runtime that closed left nothing behind: no caller, no task, no call, no slot; and what it stopped says so."""
        assert not process.engine.tasks.running, f"tasks of a runtime that closed: {process.engine.tasks.running}"
        assert not process.errands, f"somebody was left waiting by a runtime that closed: {process.errands}"
        await self.check()
        for id, waiter in process.waiters.items():
            assert waiter.done() or id in self.left, f"{id}: its caller was left waiting by a runtime that closed"
        self._check_callers(process)
        for stored in await self.observer.door.inner.history(Query(active=True, limit=1_000)):
            assert stored.owner != owner, f"{stored.id} belongs to a runtime that closed"
        assert owner not in {holder for _, holder in self.observer.door.slots()}, "it still holds a slot"
        for body in stopped:
            change = end_of_attempt(self.seen[body.id], body.ctx.attempt)
            wanted = State.RETRYING if body.tool in MAY_REPEAT else State.FAILED
            assert (change.state, code_of(change)) == (wanted, "outcome_unknown"), f"{body.id}: stopped, and {change}"

    async def finish(self) -> None:
        """Everything comes to its end by itself: bodies return or run out of time, lines move on, orphans are taken up."""
        try:
            for process in self.processes:
                process.door.heal()
            await self.settle()
            if not any(process.kind == "runner" for process in self.processes):
                await self.reopen(alone=False)
            await self._be_heard()
            await self._go_on()
            if len(self.ids) % 2:  # else nobody says anything, and questions time out
                await self._be_answered()
            await self.advance(APPROVAL + QUEUE)  # who lost a call without knowing it finds out when it says something
            await self._go_on()
            await self._check_end()
        finally:
            await self.end()

    async def _be_heard(self) -> None:
        """A cancel from outside reaches whoever runs the call, as soon as it listens."""
        await self.do("renew", *self.processes)
        for body in self.bodies:
            call = body.process.engine.live.find(body.id, None, None)
            if call is None or call.entry.inflight or body.stubborn or body.process.ever_given_up:
                continue  # what could not be written is tried again, and heard with that
            await self.cancel_from(self.observer, body.id)
            await self.do("listen", body.process)
            await self.check()
            assert self.seen[body.id][-1].state is State.CANCELLED, f"{body.id}: cancelled, and it goes on"
            return

    async def _be_answered(self) -> None:
        """So does a person's word; and nothing but a word is waited for."""
        waiting = self._waiting()
        for id in waiting:
            self.observer.send(self._word(self.observer, id, approved=True))
        await self.settle()
        await self._go_on()
        assert not self._waiting(), f"{waiting} were approved, and wait"

    async def _go_on(self) -> None:
        """Bodies return, chores are done, a little time passes: every call ends, or waits for a word and nothing else."""
        for turn in range(12):
            for chore in ("renew", "recover", "listen"):
                await self.do(chore, *self.processes)
            while self.bodies:
                await self.tell(self.bodies[0], "return")
            await self.advance(1.0)
            await self.check()
            if turn and self.active() <= set(self._waiting()):
                return
        raise AssertionError(f"{self.active() - set(self._waiting())} do not go on")

    async def _check_end(self) -> None:
        for id, events in self.seen.items():
            assert not events or events[-1].state.is_terminal, f"{id} was lost: {events[-1].state}"
        door = self.observer.door
        for state in {events[-1].state for events in self.seen.values() if events}:
            listed = {stored.id for stored in await door.inner.history(Query(state=state, limit=1_000))}
            wanted = {id for id, events in self.seen.items() if events and events[-1].state is state}
            assert listed == wanted, "the index says something else"
        for by, (id, counted) in self.answers.items():
            said = sum(event.data.get("by") == by for event in self.seen[id])
            assert said == counted, f"{id}: {by!r} was told {counted}, and is on record {said} times"
        for process in self.processes:
            await self._check_idle(process)
        assert door.slots() == [], "slots are still held"
        stats = await door.inner.cache_stats()
        assert stats.hits == sum(fold(events).cached for events in self.seen.values() if events)

    async def _check_idle(self, process: Process) -> None:
        for id, waiter in process.waiters.items():
            assert waiter.done() or id in self.left, f"{id}: its caller waits for ever"
        engine = process.engine
        assert not process.errands, f"somebody waits for ever: {process.errands}"
        assert not list(engine.live), f"ended, but still live: {list(engine.live)}"
        assert not engine.ending.abandoned, "a body that came back is still listed as abandoned"
        assert not any(engine.limiter.used.values()), "a slot is still taken"
        assert engine.limiter.queued == 0, "somebody still stands in line"
        assert engine.journal.unsaved == set()
        assert engine.stored_calls.followers == {}
        assert engine.flights.is_idle
        assert engine.slots.is_idle

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
