"""Makes the engine's parts, each from the parts that it needs, and opens and closes them.

`driver.py` is made first: the parts report to it what happens, and it knows which part acts then. `chore_schedule.py` sets how often
each chore runs.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from clicket.engine.actions.cancels import Cancels
from clicket.engine.actions.decision_checks import DecisionChecks
from clicket.engine.actions.decisions import Decisions
from clicket.engine.actions.external_results import ExternalResults
from clicket.engine.actions.handles import Handles
from clicket.engine.actions.nested_calls import NestedCallMaker
from clicket.engine.actions.repeated_calls import RepeatedCalls
from clicket.engine.actions.resolutions import Resolutions
from clicket.engine.cache.caching import Caching
from clicket.engine.cache.kept_outcomes import KeptOutcomes
from clicket.engine.cache.single_flight import SingleFlight
from clicket.engine.core import Core
from clicket.engine.drive.bus_handler import BusHandler
from clicket.engine.drive.chore_schedule import schedule_chores
from clicket.engine.drive.closing import Closing
from clicket.engine.drive.draining import Draining
from clicket.engine.drive.driver import Driver, Parts
from clicket.engine.executors import RUNTIME, Cluster, Deps, LentCredentials, Limiter, LoopWatch, ProcessPool, stop
from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.sink import SinkParts
from clicket.engine.fleet.capacity import Capacity
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.fleet.offers import Offers
from clicket.engine.fleet.placement import Placement
from clicket.engine.fleet.queues import Queues
from clicket.engine.fleet.sessions import SessionPlaces
from clicket.engine.fleet.worker_entry import Identity, Load, WorkerEntry, host_name, worker_id
from clicket.engine.fleet.worker_list import living_workers
from clicket.engine.hub import Hub
from clicket.engine.journal import Journal, Observers
from clicket.engine.lifecycle.admission import Admission
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.credential_waits import CredentialWaits
from clicket.engine.lifecycle.dep_waits import DepWaits
from clicket.engine.lifecycle.due_calls import DueCalls, LateStats
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.lifecycle.parking import Parking
from clicket.engine.lifecycle.reconciling import Reconciling
from clicket.engine.lifecycle.runner import Bodies, Runner
from clicket.engine.lifecycle.running import Running
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.local.activity import Activity, HeldCall
from clicket.engine.local.background import Background
from clicket.engine.local.live_calls import LiveCalls
from clicket.engine.local.loop_share import LoopShare
from clicket.engine.local.tasks import Tasks
from clicket.engine.local.timers import WaitTimers
from clicket.engine.people.audit import AuditLog
from clicket.engine.people.grants import Grants
from clicket.engine.phase import Phase
from clicket.engine.records.arguments import ArgumentsOnRecord
from clicket.engine.records.signals import Signals
from clicket.engine.records.stored_calls import StoredCalls
from clicket.engine.records.tool_costs import ToolCosts
from clicket.engine.records.undone_calls import UndoneCalls
from clicket.engine.recovery.chores import Chores, Sweeps
from clicket.engine.recovery.recovery import Recovery
from clicket.engine.slots.gate import SharedSlotGate
from clicket.engine.slots.plans import Plans
from clicket.engine.slots.rates import Rates
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.engine.spend import Budget, PriceTable, SpendBook
from clicket.engine.stages import Authorize, Execute, Find, Persist, Pipeline, Policy, Process, Validate
from clicket.kernel import State
from clicket.model.config import CacheOptions, Limits, Retention
from clicket.model.ports import Clock, Owner, Store
from clicket.model.worker import WorkerRole
from clicket.safety.credentials import Connecting, CredentialBook, CredentialOptions
from clicket.safety.vault import Vault
from clicket.system.bridge import ThreadPool
from clicket.tools import Registry, Tool
from clicket.tools.deps import Factory

__all__ = ["Engine", "Setup"]


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime is, and what it may do. `gives_away`: calls are accepted here, and run by other processes. `ray`: the address of the
    Ray cluster for tools with isolation="ray"."""

    owner: Owner
    role: WorkerRole = "runtime"
    labels: tuple[str, ...] = ()
    gives_away: bool = False
    ray: str | None = None
    limits: Limits
    retention: Retention
    policy: Policy
    cache: CacheOptions
    prices: PriceTable
    budgets: tuple[Budget, ...] = ()
    credentials: CredentialOptions
    deps: Mapping[str, Factory] = {}
    """Makes values for tools."""


class Engine:
    """One per open runtime, on one event loop."""

    webhooks: Any = None  # the `Webhooks` of `clicket.telemetry.webhooks`; `compose` sets it, if the settings have some

    def __init__(  # noqa: PLR0915  # it makes every part, and does nothing else
        self,
        registry: Registry,
        store: Store,
        setup: Setup,
        *,
        clock: Clock,
        chance: random.Random,
        vault: Vault,
        observers: Observers,
    ) -> None:
        limits, policy = setup.limits, setup.policy
        shares = store.durability != "none"
        max_size = limits.max_arguments_size
        bus = store.bus
        who = Identity(owner=setup.owner, id=worker_id(setup.owner), role=setup.role, labels=setup.labels)
        driver = Driver()
        phase = Phase(leaves_calls=setup.gives_away)
        tasks = Tasks()
        live = LiveCalls()
        plans = Plans(limits)
        spawn = tasks.spawn

        # Calls, slots and work, without what acts on them.
        limiter = Limiter(max_queue=limits.max_queue, start=driver.slots_granted)
        timers = WaitTimers(clock, driver.time_is_up)
        journal = Journal(
            store,
            clock,
            spawn,
            worker=who.id,
            host=host_name(who.owner),
            observers=observers,
            on_signal=driver.on_signal,
            on_unsaved=driver.on_unsaved,
            on_not_created=driver.on_not_created,
        )
        slots = SharedSlots(store, clock, phase, spawn)
        rates = Rates(store, registry, clock, phase)
        gate = SharedSlotGate(limiter, slots, rates, journal, phase, driver, shares=shares, spawn=spawn)
        audit = AuditLog(store, clock, spawn)
        arguments = ArgumentsOnRecord(vault, registry, max_size=max_size)
        queues = Queues(
            store,
            registry,
            worker=who.id,
            living=partial(living_workers, store),
            labels=frozenset(setup.labels),
            factories=setup.deps,
            gives_away=setup.gives_away,
            shares=shares,
        )
        load = partial(_load, registry, queues, limiter, limits, gives_away=setup.gives_away)
        entry = WorkerEntry(store, clock, who, load=load, inputs=driver, spawn=spawn)
        capacity = Capacity(registry, plans, limiter, queues, entry, gives_away=setup.gives_away)
        claimer = WorkClaimer(store, limiter, clock, phase, capacity, rates, driver, spawn=spawn)
        offers = Offers(bus, clock, claimer, capacity, driver)
        placement = Placement(bus, clock)
        stored_calls = StoredCalls(store, clock, phase, bus, spawn=spawn)
        caching = Caching(store, clock, setup.cache)
        flights = SingleFlight(caching, store, clock, slots, phase, driver, spawn=spawn)
        book = SpendBook(store, clock, who.owner, setup.prices, setup.budgets, spawn)
        costs = ToolCosts(book, journal, clock, spawn)
        hub = Hub(registry, store, clock, slots, spawn)
        credential_book = CredentialBook(store, vault, clock, setup.credentials, audit=audit.kept, spawn=spawn)
        lent = LentCredentials(credential_book)
        connecting = Connecting(credential_book, store, clock, registry.uses_credential)

        # The six stages.
        thread_pool, results = ThreadPool(limits.worker_threads, "clicket-tool"), ThreadPool(1, "clicket-results")
        deps = Deps(setup.deps, thread_pool, is_worker=setup.role == "worker")
        judges = ThreadPool(1, "clicket-arguments")  # of its own: one caller's big arguments delay no other's results
        processes = ProcessPool(
            size=limits.tool_processes,
            memory=limits.tool_process_memory,
            grace=limits.cancel_grace,
            warm=int(any(tool.options.isolation == "process" for tool in registry)),
        )
        clocks = Clocks(clock, stop, grace=limits.cancel_grace)
        sinks = SinkParts(
            journal=journal,
            store=store,
            vault=vault,
            credentials=lent,
            on_cost=costs.report,
            limit=clocks.limit,
            nest=driver.calls_of,
            read_call=UndoneCalls(stored_calls, arguments).read,
        )
        bodies = Bodies(thread_pool=thread_pool, processes=processes, cluster=Cluster(setup.ray))
        runner = Runner(clocks, sinks, bodies, driver, deps, chance=chance, max_wait=limits.queue_timeout, spawn=spawn)
        pipeline = Pipeline(
            Find(registry, hub.check),
            Authorize(policy, registry.get, max_size=max_size, some_ask=bool(setup.budgets)),
            Validate(max_size=max_size),
            Execute(runner.start),
            Process(store, journal, results),
            Persist(journal, flights.use_of),
            journal=journal,
            vault=vault,
            thread_pool=judges,
            uncounted=costs.writing,
        )

        core = Core(
            store=store,
            clock=clock,
            spawn=spawn,
            registry=registry,
            policy=policy,
            limits=limits,
            retention=setup.retention,
            phase=phase,
            shares=shares,
            gives_away=setup.gives_away,
            inputs=driver,
            journal=journal,
            pipeline=pipeline,
            live=live,
            limiter=limiter,
            timers=timers,
            plans=plans,
            queues=queues,
            hub=hub,
            slots=slots,
            gate=gate,
            caching=caching,
            flights=flights,
            deps=deps,
            signals=Signals(store, journal),
            stored_calls=stored_calls,
            claimer=claimer,
            arguments=arguments,
            audit=audit,
            grants=Grants(store, clock, audit, retention=setup.retention.age),
            costs=costs,
        )

        # The phases of a call, from its end to its beginning.
        ending = Ending(core)
        approvals = Approvals(core, ending)
        external = External(core, ending)
        handover = HandOver(core, ending, placement)
        stopping = Stopping(core, ending, approvals, external)
        reconciling = Reconciling(core, ending, runner, thread_pool, chance)
        credential_waits = CredentialWaits(core, ending, credential_book, timeout=setup.credentials.wait_timeout)
        dep_waits = DepWaits(core, handover)
        parking = Parking(core, ending, approvals, external, reconciling, credential_waits)
        share = LoopShare(clock.monotonic)
        running = Running(core, ending, handover, stopping, parking, share, tasks)
        due_calls = DueCalls(core, ending, handover)
        next_steps = NextSteps(core, ending, handover, running, approvals, due_calls, credential_waits, dep_waits)
        admission = Admission(core, ending, next_steps, due_calls, share)

        # What finds calls in the store, what people do with them, and what ends the runtime.
        recovery = Recovery(core, ending, approvals, next_steps, external, reconciling, parking, dep_waits, entry)
        sessions = SessionPlaces(store, registry, queues, journal, clock, driver)
        cancels = Cancels(core, ending, handover, stopping)
        checks = DecisionChecks(core)
        decisions = Decisions(core, checks)
        kept = KeptOutcomes(store, clock, retention=setup.retention.outcomes)
        handles = Handles(core, ending, cancels)
        repeated = RepeatedCalls(core, handles, kept)
        chores, sweeps = Chores(core, ending, recovery), Sweeps(core, kept)
        background = Background(clock, spawn)
        draining = Draining(core, ending)
        closing = Closing(core, ending, stopping, runner, processes, (thread_pool, results, judges), tasks, background)
        closing.on_close.extend((deps.close, book.close, entry.remove, credential_book.close))
        driver.parts = Parts(
            core=core,
            ending=ending,
            handover=handover,
            external=external,
            approvals=approvals,
            stopping=stopping,
            running=running,
            next_steps=next_steps,
            recovery=recovery,
            sessions=sessions,
            offers=offers,
            placement=placement,
            draining=draining,
            nesting=NestedCallMaker(core, admission, ending, handles, repeated, runner),
        )
        schedule_chores(
            background, core, chores, sweeps, entry, offers, sessions, due_calls, credential_waits, connecting
        )
        bus_handler = BusHandler(core, chores, placement, offers)
        store.on_hint, bus.hear = bus_handler.on_hint, bus_handler.on_message

        self.loop = asyncio.get_running_loop()
        self.process = os.getpid()
        self._loop_watch = LoopWatch(patience=limits.lease / 2)  # at the end of a lease other processes take calls over
        self.schedule_late = LateStats()
        self.deps = deps
        self.registry = registry
        self.store = store
        self.policy = policy
        self.limits = limits
        self.retention = setup.retention
        self.clock = clock
        self.vault = vault
        self.shares = shares
        self.phase = phase
        self.journal = journal
        self.live = live
        self.limiter = limiter
        self.hub = hub
        self.pipeline = pipeline
        self.processes = processes
        self.slots = slots
        self.caching = caching
        self.flights = flights
        self.gate = gate
        self.claimer, self.stored_calls, self.audit, self.grants = claimer, stored_calls, audit, core.grants
        self.arguments = arguments
        self.queues = queues
        self.share = share
        self.book = book
        self.ending = ending
        self.running = running
        self.stopping = stopping
        self.admission = admission
        self.handover = handover
        self.cancels = cancels
        self.decisions, self.decision_checks = decisions, checks
        self.handles, self.repeated_calls = handles, repeated
        self.resolutions = Resolutions(core)
        self.external_results = ExternalResults(core)
        self.credentials, self.connecting, self.due_calls = credential_book, connecting, due_calls
        self.recovery = recovery
        self.chores, self.sweeps = chores, sweeps
        self.background = background
        self.draining = draining
        self.worker_entry = entry
        self.offers = offers
        self.tasks = tasks
        self.closing = closing
        self.thread_pool = thread_pool
        self.results = results

    # Opening and closing.

    async def start(self) -> None:
        """Start the chores, and a worker process if a tool needs one."""
        self.closing.on_close.append(self.queues.leave)
        self.background.start()
        self._loop_watch.start()
        await self.processes.start()

    async def close(self, *, patience: float) -> None:
        self.background.wind_down()
        self.worker_entry.close(running=_slots_used(self.limiter, self.limits) > 0)
        self.offers.leave()
        try:
            await self.closing.close(patience=patience)
        finally:
            self.stored_calls.close()
            self.background.stop()
            self._loop_watch.close()
            self.phase.closed = True

    @property
    def gives_away(self) -> bool:
        """Are calls that are accepted here run by other processes now? Also while this worker is drained."""
        return self.phase.leaves_calls

    @property
    def is_closing(self) -> bool:
        return self.phase.closing

    def on_tool_added(self, tool: Tool) -> None:
        """The registry has one more tool."""
        self.worker_entry.renew_soon()
        if tool.options.isolation == "process":
            self.processes.keep_warm()

    # Activity.

    def held_calls(self) -> list[HeldCall]:
        return [
            HeldCall(
                id=call.id, thread=call.thread, caller=call.caller, tool=call.entry.tool,
                waiting_for=call.entry.waiting_for, is_running=call.slot,
            )
            for call in self.live
        ]  # fmt: skip

    def activity(self) -> Activity:
        active = dict.fromkeys((state.value for state in State if not state.is_terminal), 0)
        waiting = 0
        for call in self.live:
            state = call.entry.visible_state
            if not state.is_terminal:
                active[state.value] += 1
                waiting += call.entry.waiting_for == "approval"
        slots = self.limits.max_concurrency
        return Activity(
            active=active,
            waiting_for_approval=waiting,
            queued=self.limiter.queued,
            max_queue=self.limiter.max_queue,
            slots_used=_slots_used(self.limiter, self.limits),
            slots=slots,
            abandoned=len(self.ending.abandoned),
            unsaved=len(self.journal.unsaved),
            listener_errors=self.journal.observers.errors,
            due_released=self.due_calls.late.count,
            due_late_seconds=self.due_calls.late.total,
            schedule_firings=self.schedule_late.count,
            schedule_late_seconds=self.schedule_late.total,
        )


def _slots_used(limiter: Limiter, limits: Limits) -> int:
    return limiter.used.get((RUNTIME, limits.max_concurrency), 0)


def _load(registry: Registry, queues: Queues, limiter: Limiter, limits: Limits, *, gives_away: bool) -> Load:
    """For the entry of this worker. A runtime that always gives calls away runs none."""
    return Load(
        listed=len(registry) > 0,
        tools=queues.offered(),
        running=_slots_used(limiter, limits),
        capacity=0 if gives_away else limits.max_concurrency,
    )
