"""Recovery after a crash: takes over the calls of dead owners, and runs or ends each of them.

A call that never started runs. One that started and has no outcome runs again only if its tool is declared safe to repeat; else it
ends with an unknown outcome. clicket does not claim exactly-once effects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from clicket.engine.call.claimed import AfterClaim, ClaimedCall, after_claim
from clicket.engine.call.doubt import AfterDoubt, after_doubt
from clicket.engine.core import Core
from clicket.engine.executors import explain
from clicket.engine.executors.stopping import resume_attempts
from clicket.engine.fleet.worker_entry import WorkerEntry
from clicket.engine.journal import Entry, Fenced
from clicket.engine.lifecycle.approvals import Approvals, edit_of, unfit
from clicket.engine.lifecycle.dep_waits import DepWaits
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.lifecycle.parking import Parking
from clicket.engine.lifecycle.reconciling import Reconciling
from clicket.engine.live_call import Call, Origin
from clicket.engine.records.arguments import LOST
from clicket.engine.records.attempt_history import (
    age_of,
    deaths_of,
    doubt_of,
    ending_decision_in,
    faults_of,
    retries_of,
    unknown_outcome,
)
from clicket.engine.recovery.recovered import Progress, Recovered
from clicket.errors import InvalidInput, PermissionDenied, StoreUnavailable
from clicket.kernel import State
from clicket.model import Record, ToolCall, ToolError, read
from clicket.model.deps import RunDeps
from clicket.model.ports import Stored, elapsed
from clicket.model.request import checked
from clicket.tools import Options, Tool

__all__ = ["Recovery"]

logger = logging.getLogger("clicket.engine")
_STARTED = (State.RUNNING, State.STREAMING)
_BATCH = 200
_DUE = 0.05
_PUT_AWAY = ("time", "dep", "model")
"""What calls wait for in a queue from which no process claims."""


class Recovery:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        approvals: Approvals,
        next_steps: NextSteps,
        external: External,
        reconciling: Reconciling,
        parking: Parking,
        dep_waits: DepWaits,
        entry: WorkerEntry,
    ) -> None:
        self._core = core
        self._journal = core.journal
        self._clock = core.clock
        self._store = core.store
        self._registry = core.registry
        self._pipeline = core.pipeline
        self._live = core.live
        self._timers = core.timers
        self._queues = core.queues
        self._phase = core.phase
        self._ending = ending
        self._approvals = approvals
        self._next_steps = next_steps
        self._external = external
        self._reconciling = reconciling
        self._parking = parking
        self._dep_waits = dep_waits
        self._entry = entry
        self._acts: dict[AfterClaim, Callable[[Call, Record, Stored], str]] = {
            AfterClaim.GIVE_UP: self._give_up,
            AfterClaim.END_CANCELLED: self._end_cancelled,
            AfterClaim.END_OVERDUE: self._end_overdue,
            AfterClaim.RELEASE: self._release,
            AfterClaim.WAIT_OUTSIDE: self._keep_waiting,
            AfterClaim.REPEAT: self._repeat,
            AfterClaim.CHECK: self._check,
            AfterClaim.ASK: self._ask,
            AfterClaim.END_UNKNOWN: self._end_unknown,
            AfterClaim.APPLY_DECISION: self._apply_decision,
            AfterClaim.QUEUE: self._queue,
        }
        self.held: set[int] = set()
        """Keys of claimed calls that are not live: those that no process can resume, and those whose earlier body is being stopped."""

    async def recover(self, progress: Progress | None = None) -> Recovered:
        """Take over every orphan whose tool is registered here; returns when each has ended or is queued."""
        report = Recovered()
        await self._entry.update()
        await self._queues.refresh()
        await self._store.renew()  # else the next process may take over at once what this one claims
        while not self._phase.closing and self._entry.is_active:
            orphans = await self._store.claim_orphans(self._queues.all(), _BATCH)
            await self._resume_all(orphans, report)
            if progress is not None and orphans:
                progress(report)
            if len(orphans) < _BATCH:
                break
        await self._core.claimer.claim()
        return report

    def start_unclaimed(self, stored: Stored) -> bool:
        """Start a call that no process owns: the commit that starts it claims it. False: it cannot start at once here."""
        first = stored.events[0].data
        tool = self._registry.get(str(first["tool"]))
        if self._phase.closing or tool is None or tool.options.cache or tool.options.max_concurrency is not None:
            return False
        if tool.options.rate is not None or tool.options.credentials or tool.traits.one_call_per_thread:
            return False
        if not self._queues.runs(tool):
            return False
        if not self._queues.has_version(tool, str(first.get("tool_version") or "")):
            return False  # a worker of that version takes it, or this one once there is none
        if any(call.entry.key == stored.key for call in self._live.named(stored.id)):
            return True  # the message came twice
        call: Call | None = None
        try:
            call, record = self._revive(stored, None, claims=True)
            if record.waiting_for is not None or record.cancel_requested or record.state is not State.PENDING:
                return False
            self._queue_again(call, record, "queued")
        except Exception:
            logger.exception("call %s cannot be taken up and is left as it is", stored.id)
            if call is not None:
                self._core.limiter.leave(call)
                self._core.gate.release(call)
                self._ending.forget(call)
        return True

    async def resume(self, claimed: Sequence[Stored]) -> None:
        """Continue claimed calls."""
        await self._resume_all(claimed, Recovered())

    async def lose_session(self, stored: Stored, message: str) -> None:
        """End a claimed call that has not started: the session that it needs is gone."""
        call, _ = self._revive(stored, self._supersede(stored))
        self._live.add(call)
        self._fail(call, "session_lost", message)
        if not call.entry.is_idle:
            await self._journal.flush(call.entry)

    async def _resume_all(self, claimed: Sequence[Stored], report: Recovered) -> None:
        """Continue claimed calls, and wait until the decisions on them are durable."""
        if self._phase.closing:
            await self._store.hand_back([stored.key for stored in claimed if stored.damaged is None])
            return
        writing: list[Entry] = []
        for stored in claimed:
            call: Call | None = None
            try:
                if stored.damaged is not None:
                    raise StoreUnavailable(f"call {stored.id}: {stored.damaged}")
                known = self._supersede(stored)
                if known is not None and known in self._ending.superseded and _may_run_again(known):
                    self._core.spawn(self._resume_later(stored, known))
                    continue
                call, record = self._revive(stored, known)
                what = self._resume(call, record, stored)
                if not call.entry.is_idle:
                    writing.append(call.entry)
            except Exception:  # the other claimed calls must be continued, also if one fails
                logger.exception("call %s cannot be taken over and is left as it is", stored.id)
                self.held.add(stored.key)
                if call is not None:
                    self._core.limiter.leave(call)
                    self._core.gate.release(call)
                    self._ending.forget(call)
                what = "damaged"
            report.count(what)
        for error in await self._journal.flush_all(writing):
            logger.warning("the decision on a call that was taken over is not stored yet: %s", error)

    async def _resume_later(self, stored: Stored, old: Call) -> None:
        """Two bodies of one call must not run at once: stop the old one first."""
        self.held.add(stored.key)
        await self._ending.stop_superseded(old)
        self.held.discard(stored.key)
        await self.resume([stored])

    def _supersede(self, stored: Stored) -> Call | None:
        """This process may still hold the call from before it lost it. That old call can write no more, and the new one must replace
        it. A body that still runs ends with a late result."""
        old: Call | None = None
        for old in [call for call in self._live.named(stored.id) if call.entry.key == stored.key]:
            self._journal.fence_off(old.entry)
            if old.slot and not old.ending:
                self._ending.supersede(old)
            self._core.limiter.leave(old)
            self._ending.forget(old)
            lost = Fenced(f"call {old.id} was lost to another owner, and taken up anew")
            self._ending.answer(old, lost)
            self._ending.dismiss(old, lost)
        return old

    def _revive(self, stored: Stored, known: Call | None, *, claims: bool = False) -> tuple[Call, Record]:
        """`claims`: no process owns the call yet; its next commit claims it."""
        record = read(stored.id, stored.events)
        if record.state.is_terminal:
            raise StoreUnavailable(f"call {stored.id} has ended, and its row says that it has not")
        arguments, metadata, lost = self._core.arguments.in_force(stored.id, stored.events, known)
        request = checked(
            ToolCall(
                record.tool,
                arguments,
                id=record.id,
                thread=record.thread,
                timeout=record.timeout,
                deadline=record.deadline,
                not_before=record.not_before,
                priority=record.priority,
                request_id=record.request_id,
                metadata=metadata,
            )
        )
        first = stored.events[0].data
        tool = self._registry.get(request.tool)
        entry = Entry(
            record.id,
            record.thread,
            record.caller,
            request.tool,
            record.created_at,
            record.priority,
            internal=tool is not None and tool.traits.internal,
        )
        self._journal.adopt(
            stored,
            entry,
            attempts=len(record.attempts),
            started_at=record.started_at,
            state=record.state,
            claims=claims,
        )
        self._journal.wait_for(entry, record.waiting_for)
        age = max(age_of(self._clock, record, first), 0.0)
        scopes, requesters = frozenset(first.get("scopes") or ()), frozenset(first.get("requesters") or ())
        deps = RunDeps(tuple(first["deps"])) if first.get("deps") else None
        origin = Origin(record.caller, scopes, requesters=requesters, deps=deps)
        call = Call(entry, request, origin, self._clock.monotonic() - age, record.idempotency_key, arguments)
        call.arguments_lost = lost
        self._pipeline.restore(call, record.stages)
        self._pipeline.find.identify(call, self._registry)
        if len(stored.events) > 1 + len(record.stages):  # else it was only accepted
            outputs = sum(1 for event in stored.events if event.type == "output")
            resume_attempts(call, retries=retries_of(call), outputs=outputs, progress=record.progress)
        return call, record

    def _resume(self, call: Call, record: Record, stored: Stored) -> str:
        """Decide from the journal, and act on it; returns the report's field."""
        claimed = self._claimed(call, record, stored)
        if stored.taken_from is not None:
            note = {"text": "Taken over: the former owner is gone.", "claims": stored.claims}
            self._journal.record(call.entry, "note", note)
        self._core.costs.taken_over(call)
        verdict = after_claim(claimed)
        if verdict is AfterClaim.CHECK and not self._reconciling.can_ask(call):
            without = msgspec.structs.replace(claimed.doubt, has_check=False)
            verdict = after_claim(msgspec.structs.replace(claimed, doubt=without))
        return self._acts[verdict](call, record, stored)

    def _claimed(self, call: Call, record: Record, stored: Stored) -> ClaimedCall:
        entry, tool = call.entry, call.tool
        waits_outside = entry.state in _STARTED and self._external.has(record)
        options = Options() if tool is None else tool.options
        return ClaimedCall(
            deaths=deaths_of(entry) if stored.taken_from is not None and not waits_outside else 0,
            # A turn survives a call of its own that kills the process.
            max_deaths=self._core.limits.max_claims * (2 if entry.internal else 1),
            can_run=tool is not None
            and (self._core.gives_away or self._queues.runs(tool) or self._has_deps(call, tool)),
            is_turn=any(event.type == "note" and "entry" in event.data for event in entry.events),
            was_started=entry.state in _STARTED,
            waits_outside=waits_outside,
            is_cancelled=record.cancel_requested,
            ends_calls=tool is not None and tool.traits.ends_its_calls and entry.attempts > 0,
            is_overdue=record.deadline is not None and call.submitted_at + record.deadline <= self._clock.monotonic(),
            is_decided=record.approval is not None and ending_decision_in(entry) is not None,
            is_repeatable=options.repeatable or options.recovery == "rerun",
            doubt=doubt_of(options, is_cancelled=record.cancel_requested),
        )

    def _has_deps(self, call: Call, tool: Tool) -> bool:
        """Did a run bring what the runtime does not make?"""
        return self._queues.has_labels(tool) and not self._core.deps.missing(call)

    def _give_up(self, call: Call, record: Record, stored: Stored) -> str:
        deaths = deaths_of(call.entry)
        text = f"its worker died {deaths} times; it is not tried again. Look at the tool, then submit a new call."
        self._fail(call, "outcome_unknown", text)
        return "unknown"

    def _end_overdue(self, call: Call, record: Record, stored: Stored) -> str:
        self._stop(call, "deadline")
        return "cancelled"

    def _release(self, call: Call, record: Record, stored: Stored) -> str:
        self._journal.discard_staged(call.entry)
        self._core.spawn(self._release_stored(stored))
        return "queued"

    def _apply_decision(self, call: Call, record: Record, stored: Stored) -> str:
        decision = ending_decision_in(call.entry)
        assert decision is not None, "the verdict says so"
        self._live.add(call)
        self._approvals.apply(call, decision)
        return "cancelled"

    async def _release_stored(self, stored: Stored) -> None:
        try:
            await self._store.hand_back([stored.key])
        except StoreUnavailable as error:  # the chore for strays releases it later
            logger.warning("call %s could not be released yet: %s", stored.id, error)

    def _end_cancelled(self, call: Call, record: Record, stored: Stored | None = None) -> str:
        asked = next((e for e in reversed(call.entry.events) if e.type == "cancel_requested"), None)
        explain(call, str(asked.data.get("reason") or "") if asked is not None else "")
        self._stop(call, "cancel")
        return "cancelled"

    def _keep_waiting(self, call: Call, record: Record, stored: Stored) -> str:
        with suppress(Exception):  # for its secrets; the tool may take other arguments by now, but it is not run again
            self._pipeline.readmit(call)
        self._live.add(call)
        self._external.wait_again(call, record)
        return "external"

    def run_again(self, call: Call, why: str) -> None:
        """The tool's check found that the last attempt had no effect, or that the body can continue it: `why`."""
        entry = call.entry
        record = read(call.id, entry.events)
        if record.cancel_requested:
            self._end_cancelled(call, record)
            return
        if call.attempt is not None and call.attempt.doubt is not None and faults_of(call) >= call.plan.max_retries:
            self._parking.end_in_doubt(call)
            return
        error = unknown_outcome(f"attempt {entry.attempts} {why}.")
        data = {"attempt": entry.attempts, "error": msgspec.to_builtins(error), "delay": 0.0}
        self._journal.advance(entry, State.RETRYING, data)
        self._queue_again(call, msgspec.structs.replace(record, waiting_for=None), "rerun")

    def _repeat(self, call: Call, record: Record, stored: Stored) -> str:
        number = call.entry.attempts
        error = unknown_outcome(f"the process that ran attempt {number} died; the tool may be run again.")
        data = {"attempt": number, "error": msgspec.to_builtins(error), "delay": 0.0}
        self._journal.advance(call.entry, State.RETRYING, data)
        return self._queue_again(call, msgspec.structs.replace(record, waiting_for=None), "rerun")

    def _check(self, call: Call, record: Record, stored: Stored) -> str:
        if self._dep_waits.must_wait(call):
            self._dep_waits.enter(call)
            return "queued"
        self._live.add(call)
        self._reconciling.begin(call, lambda reason: self._settle_unknown(call, reason))
        return "reconciling"

    def _settle_unknown(self, call: Call, reason: str) -> None:
        """The tool's check could not tell."""
        record = read(call.id, call.entry.events)
        doubt = doubt_of(call.required_tool().options, is_cancelled=record.cancel_requested)
        verdict = after_doubt(msgspec.structs.replace(doubt, has_check=False))
        why = f" The tool's check cannot tell: {reason}" if reason else ""
        (self._ask if verdict is AfterDoubt.ASK else self._end_unknown)(call, record, None, why)
        if not call.entry.is_idle:
            self._journal.commit(call.entry)

    def _ask(self, call: Call, record: Record, stored: Stored | None = None, why: str = "") -> str:
        number = call.entry.attempts
        error = unknown_outcome(
            f"the process that ran attempt {number} died; a person must decide whether to run it again.{why}"
        )
        data = {"attempt": number, "error": msgspec.to_builtins(error), "delay": None, "waiting_for": "approval"}
        self._journal.advance(call.entry, State.RETRYING, data)
        if self._admit_again(call):
            self._live.add(call)
            self._approvals.ask_again(call, error.message)
            if record.deadline is not None:
                left = record.deadline - age_of(self._clock, record, call.entry.events[0].data)
                self._timers.deadline(call, max(left, 0.0))
            return "asked"
        return "unavailable"

    def _end_unknown(self, call: Call, record: Record, stored: Stored | None = None, why: str = "") -> str:
        text = (
            f"the process that ran attempt {call.entry.attempts} died before an outcome was recorded: the tool's effect may or may not "
            "have happened. Check, then submit a new call; tools that may repeat declare read_only or idempotent."
            f"{why}"
        )
        self._fail(call, "outcome_unknown", text)
        return "unknown"

    def _queue(self, call: Call, record: Record, stored: Stored) -> str:
        return self._queue_again(call, record, "queued")

    def _queue_again(self, call: Call, record: Record, what: str) -> str:
        if not self._admit_again(call):
            return "unavailable"
        entry = call.entry
        self._live.add(call)
        due = _DUE if self._core.gives_away else 0.0
        if record.deadline is not None:
            left = record.deadline - age_of(self._clock, record, entry.events[0].data)
            if left <= due and record.waiting_for != "approval":
                self._stop(call, "deadline")
                return "cancelled"
            self._timers.deadline(call, max(left, 0.0))
        if record.waiting_for != "approval":
            if (record.waiting_for or "").partition(":")[0] in _PUT_AWAY:
                self._journal.wait_in(entry, self._queues.queue_of(call.required_tool()))
            self._journal.wait_for(entry, None)
            self._next_steps.go_on(call)
            return what
        asked = next((e for e in reversed(entry.events) if e.type == "approval_requested"), None)
        timeout = asked.data.get("timeout") if asked is not None else None
        wait: float | None = None
        if asked is not None and timeout is not None:
            # Also if its time is over, the timer ends it: it looks first whether a decision was acknowledged since the call was claimed.
            wait = timeout - elapsed(self._clock, asked.at, asked.data)
        self._approvals.wait_on(call, None if wait is None else max(wait, 0.0))
        return "asked"

    def _admit_again(self, call: Call) -> bool:
        """Check that the tool as it is now accepts the recorded arguments, and that they are readable here."""
        if call.arguments_lost:
            self._end(call, LOST)
            return False
        edit = edit_of(call)
        try:
            self._pipeline.readmit(call)
            if edit is not None:
                self._approvals.check_edit(call)
        except Exception as error:
            if edit is not None and isinstance(error, InvalidInput | PermissionDenied):
                self._end(call, unfit(error, edit))
                return False
            text = f"the tool changed while the call was under way, and does not take its arguments any more: {error}"
            self._fail(call, "tool_unavailable", text)
            return False
        self._core.plans.fit(call)
        if call.entry.state is State.PENDING:
            self._core.caching.fit(call)
        return True

    def _stop(self, call: Call, reason: str) -> None:
        self._journal.wait_for(call.entry, None)
        self._pipeline.end_stopped(call, reason, self._ending.on_outcome_durable)

    def _fail(self, call: Call, code: str, message: str) -> None:
        self._end(call, ToolError(code=code, message=message, type="".join(w.title() for w in code.split("_"))))

    def _end(self, call: Call, error: ToolError) -> None:
        self._pipeline.fail(call, error, self._ending.on_outcome_durable)


def _may_run_again(call: Call) -> bool:
    """May another attempt follow one of unknown outcome?"""
    return after_doubt(doubt_of(call.required_tool().options)) is not AfterDoubt.END_UNKNOWN
