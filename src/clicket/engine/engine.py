"""Wires the core: only this module creates the engine's parts, each from the parts that it needs.

Where two parts need each other, the lower one gets a callback. A callback that is wired before its part exists is a lambda.

`chore_schedule.py` sets how often each chore runs.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from clicket.bridge import Workers
from clicket.call import Call, Question
from clicket.credentials import Connecting, CredentialBook, CredentialOptions
from clicket.engine.activity import Activity, HeldCall
from clicket.engine.admission import Admission
from clicket.engine.approvals import Approvals
from clicket.engine.arguments import ArgumentsOnRecord
from clicket.engine.audit import AuditLog
from clicket.engine.background import Background
from clicket.engine.caching import CacheOptions, Caching
from clicket.engine.chore_schedule import schedule_chores
from clicket.engine.chores import Chores
from clicket.engine.claimer import WorkClaimer
from clicket.engine.closing import Closing
from clicket.engine.credential_waits import CredentialWaits
from clicket.engine.decisions import Decisions
from clicket.engine.draining import Draining
from clicket.engine.due_calls import DueCalls, LateStats
from clicket.engine.ending import Ending
from clicket.engine.external import External
from clicket.engine.external_results import ExternalResults
from clicket.engine.gate import SharedSlotGate
from clicket.engine.grants import Grants
from clicket.engine.handles import Handles
from clicket.engine.handover import HandOver
from clicket.engine.kept_outcomes import KeptOutcomes
from clicket.engine.limits import Limits
from clicket.engine.live_calls import LiveCalls
from clicket.engine.loop_share import LoopShare
from clicket.engine.nested_calls import NestedCallMaker
from clicket.engine.notice_handler import NoticeHandler
from clicket.engine.offers import Offers
from clicket.engine.parking import Parking
from clicket.engine.placement import Placement
from clicket.engine.plans import Plans
from clicket.engine.queues import Queues
from clicket.engine.rates import Rates
from clicket.engine.reconciling import Reconciling
from clicket.engine.recovery import Recovery
from clicket.engine.requests import Requests
from clicket.engine.resolutions import Resolutions
from clicket.engine.running import Running
from clicket.engine.sessions import SessionPlaces
from clicket.engine.shared_slots import SharedSlots
from clicket.engine.single_flight import SingleFlight
from clicket.engine.stopping import Stopping
from clicket.engine.stored_calls import StoredCalls
from clicket.engine.tasks import Tasks
from clicket.engine.timers import WaitTimers
from clicket.engine.tool_costs import ToolCosts
from clicket.engine.worker_entry import Load, WorkerEntry, host_name, worker_id
from clicket.engine.worker_list import living_workers
from clicket.errors import ClicketError
from clicket.execution import Cluster, LentCredentials, Limiter, LoopWatch, ProcessPool, Runner, can_stop
from clicket.hub import Hub
from clicket.journal import Entry, Journal, Observers
from clicket.kernel import State
from clicket.model import Event, read
from clicket.model.codec import clean
from clicket.model.worker import WorkerRole
from clicket.pipeline import Authorize, Execute, Find, Persist, Pipeline, Policy, Process, Validate
from clicket.ports import Clock, Owner, Store
from clicket.spend import Budget, PriceTable, SpendBook
from clicket.tools import Registry, Tool
from clicket.vault import Vault

if TYPE_CHECKING:  # a runtime without webhooks does not import them
    from clicket.webhooks import Webhooks

__all__ = ["Engine"]


class Engine:
    """One per open runtime, on one event loop. `gives_away`: calls are accepted here, and run by other processes. `ray`: the
    address of the Ray cluster for tools with isolation="ray"."""

    webhooks: Webhooks | None = None  # `compose` sets it, if the settings have some

    def __init__(  # noqa: PLR0915  # it makes every part, and does nothing else
        self,
        registry: Registry,
        store: Store,
        policy: Policy,
        limits: Limits,
        cache_options: CacheOptions,
        clock: Clock,
        chance: random.Random,
        *,
        owner: Owner,
        gives_away: bool = False,
        role: WorkerRole = "runtime",
        labels: tuple[str, ...] = (),
        ray: str | None = None,
        vault: Vault | None = None,
        observers: Observers | None = None,
        prices: PriceTable | None = None,
        budgets: tuple[Budget, ...] = (),
        credentials: CredentialOptions = CredentialOptions(),  # noqa: B008  # it is frozen
    ) -> None:
        vault = vault or Vault()
        shares, max_size, notices = store.durability != "none", limits.max_arguments_size, store.notices
        worker = worker_id(owner)

        # Parts that need no other part of the engine.
        tasks, live, plans = Tasks(), LiveCalls(), Plans(limits)
        spawn = tasks.spawn
        share, slots, audit = (
            LoopShare(clock.monotonic),
            SharedSlots(store, clock, spawn),
            AuditLog(store, clock, spawn),
        )
        arguments = ArgumentsOnRecord(vault, registry, max_size=max_size)
        grants = Grants(store, clock, audit, retention=limits.retention)
        kept = KeptOutcomes(store, clock, retention=limits.outcome_retention)
        stored_calls = StoredCalls(
            store, clock, is_closing=lambda: admission.closing, hears=lambda: notices.trouble is None, spawn=spawn
        )
        placement = Placement(notices, clock)
        timers = WaitTimers(clock, expire=lambda call, reason: stopping.expire(call, reason))
        limiter = Limiter(
            max_queue=limits.max_queue, start=lambda call: running.start_attempt(call),
        )  # fmt: skip
        journal = Journal(
            store,
            clock,
            spawn,
            worker=worker,
            host=host_name(owner),
            observers=observers,
            on_request=self._on_request,
            on_unsaved=self._on_unsaved,
            on_not_created=lambda entry, error: ending.on_not_created(entry, error),
        )
        requests, rates = Requests(store, journal), Rates(store, registry, clock)
        book = SpendBook(store, clock, owner, prices or PriceTable(), budgets, spawn)
        credential_book = CredentialBook(store, vault, clock, credentials, audit=audit.kept, spawn=spawn)
        connecting = Connecting(credential_book, store, clock, registry.uses_credential)
        lent = LentCredentials(credential_book)
        hub, costs = Hub(registry, store, clock, slots, spawn), ToolCosts(book, journal, clock, spawn)
        entry = WorkerEntry(
            store, clock, owner,
            id=worker, role=role, labels=labels, load=self._load, on_state=lambda state: draining.apply(state), spawn=spawn,
        )  # fmt: skip
        queues = Queues(
            store, registry,
            worker=worker, living=partial(living_workers, store), labels=frozenset(labels), gives_away=gives_away, shares=shares,
        )  # fmt: skip
        sessions = SessionPlaces(
            store, registry, queues, journal, clock,
            resume=lambda claimed: recovery.resume(claimed), lose=lambda stored, why: recovery.lose_session(stored, why),
        )  # fmt: skip

        # Slots, work of other processes, equal calls.
        rooms = partial(plans.rooms, registry, limiter.used, internal_only=gives_away, runs=entry.has)
        room = partial(plans.room_for, registry=registry, used=limiter.used, internal_only=gives_away, runs=entry.has)
        claimer = WorkClaimer(
            store, limiter, clock, rooms=lambda: rooms() if entry.is_active else {},
            room=lambda tool: room(tool) if entry.is_active else 0, resume=sessions.resume, spawn=spawn,
            queues=queues.claimed_from, rates=rates,
            on_looked=placement.ask_once if gives_away else lambda: offers.announce_changes(),
        )  # fmt: skip
        offers = Offers(
            notices,
            claimer,
            rooms=lambda: {} if gives_away or not entry.is_active else queues.by_queue(rooms()),
            start=lambda stored: recovery.start_unclaimed(stored),
            later=clock.call_later,
        )
        gate = SharedSlotGate(
            limiter, slots, rates, journal, clock,
            shares=shares, start=lambda call: running.start_attempt(call), wait=lambda call: running.wait_in_queue(call),
            on_stopped=lambda call: handover.end_stopped(call), spawn=spawn,
        )  # fmt: skip
        caching = Caching(store, clock, cache_options)
        flights = SingleFlight(
            caching, store, clock, slots,
            serve=lambda call, output: admission.serve(call, output), run=lambda call: admission.on_cache_miss(call),
            keep=lambda call: running.wait_in_queue(call), spawn=spawn,
        )  # fmt: skip

        # The six stages.
        workers, results = Workers(limits.worker_threads, "clicket-worker"), Workers(1, "clicket-results")
        judges = Workers(1, "clicket-arguments")  # of its own: one caller's big arguments delay no other's results
        processes = ProcessPool(
            size=limits.worker_processes,
            memory=limits.worker_memory,
            grace=limits.cancel_grace,
            warm=int(any(tool.options.isolation == "process" for tool in registry)),
        )
        runner = Runner(
            journal, store, vault, workers, processes, Cluster(ray),
            chance=chance, grace=limits.cancel_grace, max_wait=limits.queue_timeout, abandon=lambda call: running.abandon(call),
            on_returned=lambda call, late: running.on_returned(call, late), on_cost=costs.report,
            credentials=lent, nest=lambda call: nesting.of(call), spawn=spawn,
        )  # fmt: skip
        pipeline = Pipeline(
            Find(registry, hub.check),
            Authorize(policy, registry.get, max_size=max_size, some_ask=bool(budgets)),
            Validate(max_size=max_size),
            Execute(runner),
            Process(store, journal, results),
            Persist(journal, flights.use_of),
            journal=journal,
            vault=vault,
            workers=judges,
            uncounted=costs.writing,
        )

        # The phases of a call, from its end to its beginning.
        ending = Ending(
            journal, store, live, limiter, timers, requests,
            on_left=flights.left, on_ended=hub.ended, degraded=hub.degraded, give_slot=slots.give, release=gate.release,
            spawn=spawn,
        )  # fmt: skip
        handover = HandOver(
            journal, store, pipeline, live, timers, ending, stored_calls, placement,
            shares=shares, approval_timeout=policy.approval_timeout,
            question=Question("", policy.approvers, policy.self_approval), queue_of=queues.queue_of,
            resume=lambda claimed: recovery.resume(claimed),
            release=gate.release, give_slot=slots.give, spawn=spawn,
        )  # fmt: skip
        external = External(journal, pipeline, timers, ending, release=gate.release, spawn=spawn)
        reconciling = Reconciling(
            journal, pipeline, ending, workers, chance,
            worker=worker, make_sink=runner.sink_of, lend=lent.lend,
            run_again=lambda call, why: recovery.run_again(call, why), spawn=spawn,
        )  # fmt: skip
        credential_waits = CredentialWaits(
            journal, live, timers, ending, caching, credential_book,
            timeout=credentials.wait_timeout, proceed=lambda call: admission.proceed(call), spawn=spawn,
        )  # fmt: skip
        parking = Parking(
            pipeline, ending, external, reconciling, credential_waits,
            ask=lambda call, needed: approvals.ask_for_input(call, needed), release=gate.release,
        )  # fmt: skip
        stopping = Stopping(
            journal, pipeline, limiter, ending, external, expire_input=lambda call: approvals.expire_input(call)
        )
        running = Running(
            journal, pipeline, live, limiter, gate, timers, ending, handover, stopping, share, tasks, limits,
            parked=parking.park, uncounted=costs.writing,
        )  # fmt: skip
        approvals = Approvals(
            journal, pipeline, policy, timers, ending, caching, arguments, grants,
            resume=lambda call: admission.resume(call), keep=lambda call: admission.keep_asking(call), spawn=spawn,
        )  # fmt: skip
        due_calls = DueCalls(
            journal, store, live, timers, ending, stored_calls,
            nudge=claimer.nudge, take=handover.take, give_slot=slots.give, spawn=spawn,
        )  # fmt: skip
        admission = Admission(
            journal, store, pipeline, hub, plans, limiter, live, timers, caching, flights, slots, audit, ending, handover, running,
            approvals, share, queues, due_calls, credential_waits, gives_away=gives_away,
        )  # fmt: skip
        decisions = Decisions(
            store, journal, registry, policy, live, stored_calls, requests, arguments, audit, grants, claimer, ending, handover,
            stopping, max_arguments_size=max_size,
        )  # fmt: skip
        recovery = Recovery(
            journal, store, registry, pipeline, plans, limiter, gate, live, timers, caching, arguments, ending, approvals,
            admission, claimer, queues, external, reconciling, parking, limits,
            gives_away=gives_away, takes=lambda: entry.is_active, enter=entry.update, on_taken_over=costs.taken_over, spawn=spawn,
        )  # fmt: skip
        chores = Chores(
            store, clock, registry, live, claimer, requests, recovery, limits, kept,
            keep_costs=costs.keep, lose=ending.lose, spawn=spawn,
        )  # fmt: skip
        draining = Draining(store, clock, live, claimer, ending, admission, shares=shares, spawn=spawn)
        background = Background(clock, spawn)
        schedule_chores(
            background, store, clock, limits, chores, caching, entry, offers, sessions, grants, due_calls, credential_waits, connecting
        )  # fmt: skip
        closing = Closing(
            store, registry, live, limiter, runner, processes, (workers, results, judges), ending, stopping, tasks,
            is_stuck=journal.is_stuck, stop_chores=background.stop, shares=shares, cancel_grace=limits.cancel_grace,
            closing=(admission, handover, recovery),
            closed_first=(flights, slots, gate, rates, claimer, due_calls, credential_waits), closed_last=(journal, running),
        )  # fmt: skip

        closing.on_close.extend((book.close, entry.remove, credential_book.close))

        self.loop = asyncio.get_running_loop()
        self.process = os.getpid()
        self._loop_watch = LoopWatch(patience=limits.lease / 2)  # at the end of a lease other processes take calls over
        self.registry, self.store, self.policy, self.limits = registry, store, policy, limits
        self.clock, self.vault, self.shares, self.schedule_late = clock, vault, shares, LateStats()
        self.journal, self.live, self.limiter, self.hub = journal, live, limiter, hub
        self.pipeline, self.processes, self.slots, self.caching, self.flights = (
            pipeline,
            processes,
            slots,
            caching,
            flights,
        )
        self.claimer, self.gate, self.stored_calls, self.audit, self.grants = claimer, gate, stored_calls, audit, grants
        self.arguments, self.ending, self.running, self.stopping = arguments, ending, running, stopping
        self.admission, self.handover, self.approvals, self.decisions = admission, handover, approvals, decisions
        self._external, self.resolutions = (
            external,
            Resolutions(store, journal, live, requests, arguments, audit, max_output_size=max_size),
        )
        self.external_results = ExternalResults(
            store, clock, live, requests, arguments, audit, claimer, max_output_size=max_size
        )
        self.recovery, self.chores, self.background = recovery, chores, background
        self.share, self.queues = share, queues
        self.credentials, self.connecting = credential_book, connecting
        handles = self.handles = Handles(journal, live, ending, stored_calls, decisions, arguments, kept)
        nesting = NestedCallMaker(
            admission, ending, handles,
            hold_clock=runner.hold_clock, release_clock=runner.release_clock, spawn=spawn,
        )  # fmt: skip
        self.book = book
        self.worker_entry, self.draining, self._submits_only, self.due_calls = entry, draining, gives_away, due_calls
        self.tasks, self.closing, self.workers, self.results, self.offers = tasks, closing, workers, results, offers
        notice_handler = NoticeHandler(stored_calls, hub, claimer, gate, flights, chores, placement, offers)
        store.on_hint, notices.hear = notice_handler.on_hint, notice_handler.on_notice

    # Opening and closing.

    async def start(self) -> None:
        """Start the chores, and a worker process if a tool needs one."""
        self.closing.on_close.append(self.queues.leave)
        self.background.start()
        self._loop_watch.start()
        await self.processes.start()

    async def close(self, *, patience: float) -> None:
        self.background.wind_down()
        self.worker_entry.close(running=self._slots_used > 0)
        self.offers.leave()
        try:
            await self.closing.close(patience=patience)
        finally:
            self.stored_calls.close()
            self.background.stop()
            self._loop_watch.close()
            self.chores.closed = True

    async def emit_notice(self, kind: str, data: dict[str, Any], *, key: Sequence[Any], at: float) -> None:
        """Record a fact for the webhook endpoints that want it; it is durable when this returns. As `Outbox.emit`."""
        if self.webhooks is not None:
            await self.webhooks.outbox.emit(kind, data, key=key, at=at)

    @property
    def gives_away(self) -> bool:
        """Are calls that are accepted here run by other processes?"""
        return self.admission.gives_away

    @property
    def is_closing(self) -> bool:
        return self.admission.closing

    def on_tool_added(self, tool: Tool) -> None:
        """The registry has one more tool."""
        self.worker_entry.renew_soon()
        if tool.options.isolation == "process":
            self.processes.keep_warm()

    # What the journal and the store call.

    def _on_request(self, entry: Entry, events: list[Event]) -> None:
        """Another process wrote a request into a call of ours."""
        call = self._call_of(entry)
        if call is None:
            return
        self._external.take(call, events)
        for event in events:
            if event.type == "cancel_requested" and can_stop(call):
                self.stopping.stop(call, "cancel", clean(event.data.get("reason", "")))
            elif event.type == "approval_given" and entry.waiting_for == "approval" and not call.ending:
                if read(entry.id, entry.events).waiting_for == "approval":
                    continue  # another person must approve it, too
                self.approvals.apply(call, event.data)
                self.journal.commit(entry)

    def _on_unsaved(self, entry: Entry, error: ClicketError) -> None:
        """The outcome of a call could not be stored for a while: its waiters get the error."""
        call = self._call_of(entry)
        if call is not None:
            self.ending.answer(call, error)

    def _call_of(self, entry: Entry) -> Call | None:
        return next((call for call in self.live.named(entry.id) if call.entry is entry), None)

    # Activity.

    def _load(self) -> Load:
        """For the entry of this worker. A runtime that always gives calls away runs none."""
        return Load(
            listed=len(self.registry) > 0,
            tools=self.queues.offered(),
            running=self._slots_used, capacity=0 if self._submits_only else self.limits.max_concurrency,
        )  # fmt: skip

    @property
    def _slots_used(self) -> int:
        return self.limiter.used.get(("runtime", self.limits.max_concurrency), 0)

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
            slots_used=self._slots_used,
            slots=slots,
            abandoned=len(self.ending.abandoned),
            unsaved=len(self.journal.unsaved),
            listener_errors=self.journal.observers.errors,
            due_released=self.due_calls.late.count,
            due_late_seconds=self.due_calls.late.total,
            schedule_firings=self.schedule_late.count,
            schedule_late_seconds=self.schedule_late.total,
        )
