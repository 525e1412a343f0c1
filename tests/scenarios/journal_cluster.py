"""The simulation of the property test: processes that share a store, scripted bodies, disks that fail.

Every process is a real engine over a real store; only its connection to the store is simulated, so that the test can
hold, break or cut it. A cut process is dead: its requests do not arrive, and it gets no answers. A process whose lease
expired lives on, and does not know that the others consider it dead.
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

from tests.scenarios.journal_faulty_store import Traffic
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

__all__ = ["Cluster"]


class Cluster:
    """Processes over one store, and the invariants that hold at every moment."""

    def __init__(self, kind: str, *, hints: bool = False, waits: bool = True) -> None:
        self.hints = hints
        self.folder: Path | None = None
        if kind == "memory":
            self.place: SharedMemory | Path = SharedMemory(hints=hints)
        else:
            shm = Path("/dev/shm")  # a RAM disk: thousands of runs should not wear out your disk
            parent = str(shm) if shm.is_dir() and os.access(shm, os.W_OK) else None
            self.folder = Path(tempfile.mkdtemp(prefix="clicket-test-", dir=parent))
            self.place = self.folder / "calls.db"
        self.now = 1_700_000_000.0
        idle = StepClock().settle
        self.settle = idle
        """Until every process is idle: no task on the loop, no request in transit."""
        self.traffic: Traffic | None = None
        if waits:
            self.traffic = Traffic(idle)
            self.settle = self.traffic.flow
        self.delay = 0.0
        """For how many seconds requests were held up, in total."""
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

    # Actions.

    async def start(self) -> None:
        logging.getLogger("clicket").addHandler(self.log)
        self.observer = Process(self, "observer")
        await self.observer.open()
        await self.reopen()

    async def reopen(self, kind: Kind = "runner", *, alone: bool = True, slow: bool = False) -> None:
        """A new process recovers what it finds. `alone`: it considers the running ones dead, so they are stale owners.

        `slow`: it has claimed their calls, but its writes to them are still held up.
        """
        if alone:
            for process in self.processes:
                await self.expire(process)
        process = Process(self, kind)
        await process.open()
        self.processes.append(process)
        if slow:
            process.faulty_store.hold_up(after=1)
        process.send(process.engine.recovery.recover())
        await self.settle()
        assert slow or not process.errands, "a runtime cannot be opened"

    async def expire(self, process: Process) -> None:
        """Its lease expires without its knowledge."""
        process.given_up = process.ever_given_up = True
        for body in self.bodies:
            body.stale |= body.process is process
        await process.faulty_store.give_up(self.observer.faulty_store)

    async def submit(self, process: Process, name: str, stubborn: bool, deadline: float | None, direct: bool) -> None:
        id = f"c{len(self.ids)}"
        self.ids.append(id)
        self.calls[id] = (name, stubborn, deadline)
        process.submit(id, name, stubborn, deadline, direct)
        await self.settle()

    async def submit_again(self, process: Process, id: str, direct: bool) -> None:
        """A caller did not get the acknowledgement, and submits the call once more, perhaps in another process."""
        if id not in process.waiters:
            process.submit(id, *self.calls[id], direct)
        await self.settle()

    async def tell(self, body: Body, word: str) -> None:
        if not body.told.done():
            body.told.set_result(word)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        if any(process.faulty_store.is_holding for process in self.processes):
            self.delay += seconds
        for process in [*self.processes, self.observer]:
            process.clock.advance(seconds)
            if self.hints:
                process.faulty_store.look()
        await self.settle()

    def cancel(self, process: Process, id: str) -> None:
        """From the process that runs it."""
        call = process.engine.live.find(id, None, None)
        if call is not None:
            process.engine.stopping.cancel(call, "asked to")

    def caller_leaves(self, id: str) -> None:
        """Cancel the caller's wait: a call made with `call` ends with its caller."""
        for process in self.processes:
            if id in process.waiters:
                process.waiters[id].cancel()
                self.left.add(id)

    async def cancel_from(self, process: Process, id: str) -> None:
        """Any process may ask, wherever the call runs."""
        process.send(process.runtime.cancel(id, reason="from outside"))
        await self.settle()

    async def decide(self, process: Process, number: int, approved: bool) -> None:
        """A person's decision on a call that waits for approval, made in any process."""
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
        """Close the runtime."""
        process.faulty_store.heal()
        await self.settle()
        # A body that does not stop is abandoned by design, and would stay here for ever. The next queued call runs.
        while stubborn := [body for body in self.bodies if body.process is process and body.stubborn]:
            await self.tell(stubborn[0], "return")
        stopped = [body for body in self.bodies if body.process is process and not process.ever_given_up]
        owner = process.faulty_store.owner
        self.processes.remove(process)
        process.chores.closed = True
        closing = asyncio.ensure_future(process.engine.closing.close(patience=0))
        await self.settle()
        while not closing.done():  # it waits for its clock only
            process.clock.advance(0.1)
            await self.settle()
        await closing
        for _ in range(3):  # waiters for another process's outcome poll, and find the store closed
            process.clock.advance(1.0)
            await self.settle()
        await self._check_left(process, owner, stopped)
        for task in process.tasks():
            task.cancel()
        await asyncio.gather(*process.tasks(), return_exceptions=True)
        await self.settle()

    # Invariants.

    async def check(self) -> None:
        stored = await self.observer.faulty_store.inner.history(Query(limit=1_000))
        events = {each.id: each.events for each in stored}
        assert len(events) == len(stored)
        changed = [id for id in self.ids if self._has_changed(id, events.get(id, []))]
        for id in changed:
            self._check_call(id, self.seen[id])
        for process in self.processes:
            for call in process.engine.live:
                shown, id = call.entry.events, call.id
                assert shown == self.seen[id][: len(shown)], f"{id}: readers saw other events than the stored ones"
            self._check_callers(process)
        for name, times in self.started.items():
            assert times == 1, f"attempt {name} started {times} times"
        self._check_sharing()
        assert self.complaints == [], self.complaints

    def _has_changed(self, id: str, events: list[Event]) -> bool:
        before, self.seen[id] = self.seen.get(id, []), events
        assert events[: len(before)] == before, f"{id}: stored events have changed"
        return len(events) > len(before)

    def _check_call(self, id: str, events: list[Event]) -> None:
        record = check_events(id, events)
        if record.cached:
            check_cached(events, self.seen, self.delay)
        if record.state is State.FAILED and record.tool == "cached":
            self.failed.add(bool((record.arguments or {})["stubborn"]))

    def _check_callers(self, process: Process) -> None:
        """Every outcome that a caller got is the stored one, and the caller got it after it was stored."""
        for id, waiter in process.waiters.items():
            if waiter.done() and id not in self.left and (process, id) not in self.told:
                self.told.add((process, id))
                error = waiter.exception()
                if error is not None:
                    assert process.excuses(error), f"{id}: its caller got {error!r}"
                else:
                    assert waiter.result() == result_of(fold(self.seen[id])), f"{id}: its caller got another outcome"

    def _check_sharing(self) -> None:
        """Of a tool with one slot one call runs; of equal calls one runs, unless one failed. A stale owner may run another."""
        scarce = [body.id for body in self.bodies if body.tool == "scarce" and not body.stale]
        assert len(scarce) <= 1, f"{scarce} run at once, but only one may"
        equal: dict[bool, list[str]] = defaultdict(list)
        for body in self.bodies:
            first = body.tool == "cached" and body.ctx.attempt == 1 and running_in_store(self.seen[body.id])
            if first and not body.stale and not body.process.faulty_store.stumbled:
                equal[body.stubborn].append(body.id)
        for stubborn, ids in equal.items():
            assert len(ids) <= 1 or stubborn in self.failed, f"{ids} are equal, but run at once"

    async def _check_left(self, process: Process, owner: int, stopped: list[Body]) -> None:
        """A closed runtime leaves nothing: no waiting caller, no task, no call, no slot. Calls that it stopped have
        outcome_unknown."""
        assert not process.engine.tasks.running, f"tasks of a closed runtime: {process.engine.tasks.running}"
        assert not process.errands, f"a closed runtime left waiters: {process.errands}"
        await self.check()
        for id, waiter in process.waiters.items():
            assert waiter.done() or id in self.left, f"{id}: a closed runtime left its caller waiting"
        self._check_callers(process)
        for stored in await self.observer.faulty_store.inner.history(Query(active=True, limit=1_000)):
            assert stored.owner != owner, f"{stored.id} belongs to a closed runtime"
        assert owner not in {holder for _, holder in self.observer.faulty_store.slots()}, "it still holds a slot"
        for body in stopped:
            change = end_of_attempt(self.seen[body.id], body.ctx.attempt)
            wanted = State.RETRYING if body.tool in MAY_REPEAT else State.FAILED
            assert (change.state, code_of(change)) == (wanted, "outcome_unknown"), f"{body.id}: stopped, but {change}"

    async def finish(self) -> None:
        """Everything ends by itself: bodies return or time out, queues advance, orphans are recovered."""
        try:
            for process in self.processes:
                process.faulty_store.heal()
            await self.settle()
            if not any(process.kind == "runner" for process in self.processes):
                await self.reopen(alone=False)
            await self._be_heard()
            await self._go_on()
            if len(self.ids) % 2:  # else no person decides, and the approvals time out
                await self._be_answered()
            await self.advance(APPROVAL + QUEUE)  # a stale owner finds out at its next write
            await self._go_on()
            await self._check_end()
        finally:
            await self.end()

    async def _be_heard(self) -> None:
        """A cancellation from another process reaches the owner at its next look at the store."""
        await self.do("renew", *self.processes)
        for body in self.bodies:
            call = body.process.engine.live.find(body.id, None, None)
            if call is None or call.entry.inflight or body.stubborn or body.process.ever_given_up:
                continue  # the failed write is retried, and the cancellation is read then
            await self.cancel_from(self.observer, body.id)
            await self.do("listen", body.process)
            await self.check()
            assert self.seen[body.id][-1].state is State.CANCELLED, f"{body.id}: cancelled, but still runs"
            return

    async def _be_answered(self) -> None:
        """So does a decision; and calls wait for nothing else."""
        waiting = self._waiting()
        for id in waiting:
            self.observer.send(self._word(self.observer, id, approved=True))
        await self.settle()
        await self._go_on()
        assert not self._waiting(), f"{waiting} were approved, but still wait"

    async def _go_on(self) -> None:
        """Bodies return, chores run, a little time passes: every call ends, or waits for an approval only."""
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
        faulty_store = self.observer.faulty_store
        for state in {events[-1].state for events in self.seen.values() if events}:
            listed = {stored.id for stored in await faulty_store.inner.history(Query(state=state, limit=1_000))}
            wanted = {id for id, events in self.seen.items() if events and events[-1].state is state}
            assert listed == wanted, "the index disagrees with the records"
        for by, (id, counted) in self.answers.items():
            said = sum(event.data.get("by") == by for event in self.seen[id])
            assert said == counted, f"{id}: {by!r} was acknowledged {counted} times, and recorded {said} times"
        for process in self.processes:
            await self._check_idle(process)
        assert faulty_store.slots() == [], "slots are still held"
        stats = await faulty_store.inner.cache_stats()
        assert stats.hits == sum(fold(events).cached for events in self.seen.values() if events)

    async def _check_idle(self, process: Process) -> None:
        for id, waiter in process.waiters.items():
            assert waiter.done() or id in self.left, f"{id}: its caller waits for ever"
        engine = process.engine
        assert not process.errands, f"waiters without an outcome: {process.errands}"
        assert not list(engine.live), f"ended, but still live: {list(engine.live)}"
        assert not engine.ending.abandoned, "a body that returned is still listed as abandoned"
        assert not any(engine.limiter.used.values()), "a slot is still taken"
        assert engine.limiter.queued == 0, "a call is still queued"
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
    """Every error in the library's log is a finding, except those of a simulated disk fault."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        if "could not be stored" not in record.msg:
            cause = record.exc_info[1] if record.exc_info else None
            self._complaints.append(f"{record.getMessage()}: {cause!r}")
