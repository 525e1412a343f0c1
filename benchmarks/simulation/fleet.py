"""Submitters, workers, one store and the messages between them, as a discrete-event simulation with a seed.

One store is simulated: a fleet that has several shares nothing between them, so its rate is the sum. What a call does is what the
code does: one transaction accepts the calls that a submitter collected, one claims as many as the worker can start now and starts
them, one writes the outcomes that the worker collected. A message of new work goes to one worker; the poll finds what messages miss.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from random import Random

import msgspec

from benchmarks.simulation.calls import Calls
from benchmarks.simulation.costs import Costs
from benchmarks.simulation.waiting import WaitingCalls

__all__ = ["Fleet", "Plan", "Report"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated. Times in seconds, rates per second."""

    seconds: float = 10.0
    """How long calls are submitted; the simulation ends when all have ended."""
    rate: float = 1_000.0
    callers: int = 10
    submitters: int = 4
    workers: int = 20
    slots: int = 10
    body: float = 0.1
    """Mean duration of a body; exponentially distributed."""
    idempotent: float = 1.0
    """Share of calls that may run again."""
    store_cores: int = 4
    shared: bool = False
    """The submitters and the workers run on the store's cores, too: a test machine."""
    poll: float = 0.25
    lease: float = 10.0
    lost_messages: float = 0.0
    """Share of messages that do not arrive."""
    kills: int = 0
    """Workers that are killed, at random times, and replaced."""
    pauses: int = 0
    """Workers that stop for longer than their lease and go on."""
    restart: float = 5.0
    slow_from: float = math.inf
    slow_until: float = math.inf
    slow_factor: float = 1.0
    """How much longer a transaction and a flush take meanwhile."""
    greedy: int = 0
    """Calls that the first caller submits at once, at the beginning."""
    seed: int = 1
    costs: Costs = Costs()


class Report(msgspec.Struct, kw_only=True):
    """The results. Waits are from the submit to the start of the body."""

    calls: int
    ended: int
    lost: int
    """Calls that never ended."""
    repeated: int
    """Bodies that ran again although their tool forbids it."""
    unknown: int
    refused: int
    """Outcomes that the store refused, because their worker had lost the call."""
    rate: float
    """Ended calls per second, from the first submit to the last end."""
    wait_p50: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    others_wait_p95: float
    """Of all callers but the first, which submits `greedy` calls at once."""
    store_load: float
    """Share of the store's cores that was busy while calls were submitted."""
    slots_used: float
    claims: int
    empty_claims: int
    transactions: float
    """Transactions for each call, polls and renewals included."""
    log_mb: float
    """Megabytes of log per second."""
    seconds: float
    """How long the simulated fleet needed."""


class _Cores:
    """Work is done in the order of arrival."""

    def __init__(self, count: int) -> None:
        self._free_at = [0.0] * count
        self.busy = 0.0

    def work(self, ready_at: float, seconds: float) -> float:
        """When work that is ready at a time is done."""
        end = max(ready_at, heapq.heappop(self._free_at)) + seconds
        heapq.heappush(self._free_at, end)
        self.busy += seconds
        return end


class _Process:
    """A submitter or a worker: one thread, on a core of its own or on the store's."""

    def __init__(self, fleet: Fleet) -> None:
        self._cores = fleet.cores if fleet.plan.shared else None
        self._busy_until = 0.0

    def work(self, ready_at: float, seconds: float) -> float:
        start = max(ready_at, self._busy_until)
        self._busy_until = start + seconds if self._cores is None else self._cores.work(start, seconds)
        return self._busy_until


class _Store:
    """Works on transactions, and has one log: transactions that end while it is flushed share the next flush."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._to_flush: list[Callable[[], None]] = []
        self._flushing: list[Callable[[], None]] = []
        self.busy = 0.0
        self.transactions = 0

    def transact(self, cpu: float, work: Callable[[], float], done: Callable[[], None], *, writes: bool = True) -> None:
        """`work` runs when a core has finished the transaction and returns its CPU cost; `done` runs when it is durable."""
        fleet = self._fleet
        factor = fleet.slowness()
        self.transactions += 1

        def finish() -> None:
            extra = work() * factor
            if extra > 0.0:
                self.busy += extra
                fleet.at(fleet.cores.work(fleet.now, extra), commit)
            elif writes:
                commit()
            else:
                done()

        def commit() -> None:
            self._to_flush.append(done)
            if not self._flushing:
                self._flush()

        self.busy += cpu * factor
        fleet.at(fleet.cores.work(fleet.now, cpu * factor), finish)

    def _flush(self) -> None:
        self._flushing, self._to_flush = self._to_flush, []
        self._fleet.at(self._fleet.now + self._fleet.plan.costs.sync * self._fleet.slowness(), self._flushed)

    def _flushed(self) -> None:
        durable, self._flushing = self._flushing, []
        if self._to_flush:
            self._flush()
        for done in durable:
            done()


class _Submitter:
    """Collects the calls that arrive during its last transaction."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._process = _Process(fleet)
        self._batch: list[int] = []
        self._writing = False

    def submit(self, call: int) -> None:
        fleet = self._fleet
        fleet.at(self._process.work(fleet.now, fleet.plan.costs.submitter), lambda: self._add(call))

    def _add(self, call: int) -> None:
        self._batch.append(call)
        if not self._writing:
            self._write()

    def _write(self) -> None:
        fleet, costs = self._fleet, self._fleet.plan.costs
        calls, self._batch, self._writing = self._batch, [], True
        cpu = costs.accept + costs.accept_each * len(calls)

        def durable() -> None:
            for call in calls:
                fleet.offer(call)
            fleet.at(fleet.now + costs.trip, self._written)

        fleet.at(fleet.now + costs.trip, lambda: fleet.store.transact(cpu, lambda: 0.0, durable))

    def _written(self) -> None:
        self._writing = False
        if self._batch:
            self._write()


class _Worker:
    """Claims as many calls as it has free slots; one claim at a time, as the code does."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self.number = number
        self.alive = True
        self.paused_until = 0.0
        self.running: dict[int, int] = {}
        """The fence of each call that runs here."""
        self._claiming = self._again = self._has_more = False
        self._outcomes: list[tuple[int, int]] = []
        self._writing = False
        self._process = _Process(fleet)

    @property
    def room(self) -> int:
        return self._fleet.plan.slots - len(self.running) if self.alive else 0

    def poll(self) -> None:
        if self.alive:
            self._fleet.at(self._fleet.now + self._fleet.plan.poll, self.poll)
            self.look()

    def renew(self) -> None:
        if self.alive:
            fleet = self._fleet
            fleet.at(fleet.now + fleet.plan.lease / 3, self.renew)
            fleet.store.transact(fleet.plan.costs.renew, lambda: 0.0, lambda: None)

    def look(self) -> None:
        fleet, costs = self._fleet, self._fleet.plan.costs
        if not self.alive or fleet.now < self.paused_until or self.room <= 0:
            return
        if self._claiming:
            self._again = True
            return
        self._claiming = True
        room = self.room
        claimed: list[tuple[int, int]] = []

        def work() -> float:
            fleet.claims += 1
            for call in fleet.waiting.claim(room):
                claimed.append((call, fleet.calls.claim(call, self.number)))
                fleet.calls.start(call, fleet.now)
            if not claimed:
                fleet.empty_claims += 1
                return 0.0
            return costs.claim - costs.empty_claim + costs.claim_each * len(claimed)

        def durable() -> None:
            fleet.at(fleet.now + costs.trip, lambda: self._claimed(claimed, room))

        fleet.at(fleet.now + costs.trip, lambda: fleet.store.transact(costs.empty_claim, work, durable, writes=False))

    def _claimed(self, claimed: list[tuple[int, int]], room: int) -> None:
        self._claiming = False
        if not self.alive:
            return
        for call, fence in claimed:
            self._run(call, fence)
        self._has_more = len(claimed) == room
        if self._again:
            self._again = False
            self.look()

    def _run(self, call: int, fence: int) -> None:
        fleet = self._fleet
        self.running[call] = fence
        began_at = self._process.work(max(fleet.now, self.paused_until), fleet.plan.costs.worker)
        ends_at = began_at + (fleet.chance.expovariate(1.0 / fleet.plan.body) if fleet.plan.body else 0.0)
        fleet.slot_seconds += ends_at - fleet.now
        fleet.at(ends_at, lambda: self._ended(call, fence))

    def _ended(self, call: int, fence: int) -> None:
        if not self.alive:
            return
        if self._fleet.now < self.paused_until:
            self._fleet.at(self.paused_until, lambda: self._ended(call, fence))
            return
        self._outcomes.append((call, fence))
        if not self._writing:
            self._write()

    def _write(self) -> None:
        fleet, costs = self._fleet, self._fleet.plan.costs
        outcomes, self._outcomes, self._writing = self._outcomes, [], True
        cpu = costs.outcome + costs.outcome_each * len(outcomes)

        def durable() -> None:
            for call, fence in outcomes:
                fleet.calls.end(call, fence, fleet.now)
            fleet.at(fleet.now + costs.trip, lambda: self._written(outcomes))

        fleet.at(fleet.now + costs.trip, lambda: fleet.store.transact(cpu, lambda: 0.0, durable))

    def _written(self, outcomes: list[tuple[int, int]]) -> None:
        self._writing = False
        for call, _ in outcomes:
            self.running.pop(call, None)
        if self._outcomes:
            self._write()
        if self._has_more:
            self.look()


class Fleet:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0.0
        self.chance = Random(plan.seed)
        self.calls, self.waiting = Calls(), WaitingCalls()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self.cores = _Cores(plan.store_cores)
        self.store = _Store(self)
        self.claims = self.empty_claims = 0
        self.slot_seconds = 0.0
        self._busy_at_the_end = 0.0
        self._submitters = [_Submitter(self) for _ in range(plan.submitters)]
        self._workers: list[_Worker] = []
        for _ in range(plan.workers):
            self._add_worker()
        self._names = [f"caller {number:06}" for number in range(plan.callers)]
        self._next_submitter = 0
        for _ in range(plan.greedy):
            self._submit(self._names[0])
        if plan.rate > 0.0:
            self.at(self.chance.expovariate(plan.rate), self._arrive)
        self.at(plan.seconds, self._note_load)
        for _ in range(plan.kills):
            self.at(self.chance.uniform(0.1, 0.9) * plan.seconds, self._kill)
        for _ in range(plan.pauses):
            self.at(self.chance.uniform(0.1, 0.9) * plan.seconds, self._pause)

    # The clock.

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, what))

    def slowness(self) -> float:
        return self.plan.slow_factor if self.plan.slow_from <= self.now < self.plan.slow_until else 1.0

    def run(self) -> Report:
        """Until every call has ended, or nothing has happened for a long time."""
        give_up_at = self.plan.seconds * 20 + 600
        while self._events and self.now < give_up_at:
            self.now, _, what = heapq.heappop(self._events)
            what()
            if not self.calls.open and self.now > self.plan.seconds:
                break
        return self._report()

    # Calls.

    def _arrive(self) -> None:
        if self.now < self.plan.seconds:
            self.at(self.now + self.chance.expovariate(self.plan.rate), self._arrive)
            self._submit(self._names[self.chance.randrange(len(self._names))])

    def _submit(self, caller: str) -> None:
        call = self.calls.add(caller, self.now, idempotent=self.chance.random() < self.plan.idempotent)
        self._next_submitter = (self._next_submitter + 1) % len(self._submitters)
        self._submitters[self._next_submitter].submit(call)

    def offer(self, call: int) -> None:
        """The call is durable and has no owner: one worker with a free slot gets a message."""
        self.waiting.add(self.calls.caller[call], call)
        if self.chance.random() < self.plan.lost_messages:
            return
        for _ in range(4):  # the process's view of the workers may be out of date
            worker = self._workers[self.chance.randrange(len(self._workers))]
            if worker.room > 0:
                self.at(self.now + self.plan.costs.message, worker.look)
                return

    # Workers.

    def _add_worker(self) -> None:
        worker = _Worker(self, len(self._workers))
        self._workers.append(worker)
        self.at(self.now + self.chance.random() * self.plan.poll, worker.poll)
        self.at(self.now + self.chance.random() * self.plan.lease / 3, worker.renew)

    def _some_worker(self) -> _Worker:
        alive = [worker for worker in self._workers if worker.alive and self.now >= worker.paused_until]
        return self.chance.choice(alive)

    def _kill(self) -> None:
        worker = self._some_worker()
        worker.alive = False
        self.at(self.now + self.plan.restart, self._add_worker)
        self._expire(worker)

    def _pause(self) -> None:
        worker = self._some_worker()
        worker.paused_until = self.now + 1.5 * self.plan.lease
        self._expire(worker)

    def _expire(self, worker: _Worker) -> None:
        """Its lease expires, and another worker's next recovery claims its calls."""
        look = self.plan.lease * (1 + self.chance.random() / 2)
        self.at(self.now + look, lambda: self._take_over(worker.number))

    def _take_over(self, owner: int) -> None:
        for call in range(len(self.calls)):
            if self.calls.owner[call] == owner and not self.calls.is_ended(call) and self.calls.recover(call, self.now):
                self.offer(call)

    # The end.

    def _note_load(self) -> None:
        self._busy_at_the_end = self.store.busy

    def _report(self) -> Report:
        plan, calls = self.plan, self.calls
        rows = zip(calls.caller, calls.started_at, calls.made_at, strict=True)
        by_caller = sorted((started - made, caller) for caller, started, made in rows if started >= 0)
        waits = [wait for wait, _ in by_caller]
        others = [wait for wait, caller in by_caller if caller != self._names[0]]
        ended = sum(calls.is_ended(call) for call in range(len(calls)))
        last = max((at for at in calls.ended_at), default=0.0)
        seconds = max(last, 1e-9)

        return Report(
            calls=len(calls),
            ended=ended,
            lost=len(calls) - ended,
            repeated=calls.repeated,
            unknown=calls.unknown,
            refused=calls.refused,
            rate=ended / seconds,
            wait_p50=_quantile(waits, 0.5),
            wait_p95=_quantile(waits, 0.95),
            wait_p99=_quantile(waits, 0.99),
            wait_max=waits[-1] if waits else 0.0,
            others_wait_p95=_quantile(others, 0.95),
            store_load=self._busy_at_the_end / (plan.seconds * plan.store_cores),
            slots_used=self.slot_seconds / (seconds * plan.workers * plan.slots),
            claims=self.claims,
            empty_claims=self.empty_claims,
            transactions=self.store.transactions / max(len(calls), 1),
            log_mb=ended * plan.costs.log_bytes / seconds / 1e6,
            seconds=seconds,
        )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
