"""Accepting calls: the first three stages, then the cache, a person, another process, or a slot.

Accepting does not wait: what is decided here is staged at once and becomes durable in one commit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from clicket.call import Call, Origin
from clicket.engine.approvals import Approvals
from clicket.engine.core import Core
from clicket.engine.credential_waits import CredentialWaits
from clicket.engine.due_calls import DueCalls
from clicket.engine.ending import Ending
from clicket.engine.handover import HandOver
from clicket.engine.kept_outcomes import place_of
from clicket.engine.loop_share import LoopShare
from clicket.engine.running import Running
from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.journal import Entry
from clicket.kernel import State
from clicket.model import ToolCall, ToolError
from clicket.model.codec import as_text
from clicket.model.ids import new_id
from clicket.pipeline import Deferred, Judged

__all__ = ["Admission"]


class Admission:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        handover: HandOver,
        running: Running,
        approvals: Approvals,
        due_calls: DueCalls,
        credentials: CredentialWaits,
        share: LoopShare,
    ) -> None:
        self._journal = core.journal
        self._store = core.store
        self._pipeline = core.pipeline
        self._hub = core.hub
        self._plans = core.plans
        self._limiter = core.limiter
        self._live = core.live
        self._timers = core.timers
        self._caching = core.caching
        self._flights = core.flights
        self._slots = core.slots
        self._audit = core.audit
        self._queues = core.queues
        self._phase = core.phase
        self._ending = ending
        self._handover = handover
        self._running = running
        self._approvals = approvals
        self._share = share
        self._due_calls = due_calls
        self._credentials = credentials
        self._gives_away = core.gives_away
        self._now = core.clock.now
        self._monotonic = core.clock.monotonic

    @property
    def gives_away(self) -> bool:
        return self._gives_away

    def leave_calls(self, *, leave: bool) -> None:
        """From now on calls are left to other processes, or run here again."""
        self._gives_away = leave

    def accept_now(
        self, request: ToolCall, origin: Origin, in_callers_task: bool = False, may_repeat: bool = False
    ) -> Call | None:
        """Accept a call without waiting. None: the hub must read the store first, or the arguments are big; call `accept`."""
        hub = self._hub
        # If no other process writes, no tool failed and none depends on others, every tool is available.
        if (hub.degraded or not hub.alone or hub.registry.dependent) and hub.needs_look(
            request.tool, request.thread, origin.caller
        ):
            return None
        if self._phase.closing or self._journal.unsaved:
            self._check_open()
        now, monotonic, made, unless = self._now, self._monotonic, new_id(), None
        if may_repeat and request.id:
            unless = place_of(request.id, request.thread, origin.caller)
        entry = Entry(
            request.id or made, request.thread, origin.caller, request.tool, now(), request.priority, False, unless
        )
        call = Call(entry, request, origin, monotonic(), made, request.arguments, in_callers_task, True)
        try:
            self._admit(call, None, True)
        except Deferred:
            return None
        return call

    def _check_open(self) -> None:
        """No call is accepted while the runtime closes, or while the store cannot keep what calls do: their effects would be lost."""
        if self._phase.closing:
            raise _closed()
        trouble = self._journal.trouble
        if trouble is not None:
            raise StoreUnavailable(f"No call was made: {trouble.message}", lasting=True, **trouble.details)

    async def accept(
        self, request: ToolCall, origin: Origin, *, in_callers_task: bool = False, may_repeat: bool = False
    ) -> Call:
        """Accept a call after the hub has read what it needs. There is no wait between its check and the acceptance."""
        trial, judged = None, await self._pipeline.judge_ahead(request)
        if self._hub.needs_look(request.tool, request.thread, origin.caller):
            trial = await self._hub.look(request.tool, request.thread, origin.caller)
        try:
            return self.take(
                request, origin, in_callers_task=in_callers_task, trial=trial, judged=judged, may_repeat=may_repeat
            )
        except BaseException:
            if trial is not None:
                self._slots.give(trial)
            raise

    def take(
        self,
        request: ToolCall,
        origin: Origin,
        *,
        in_callers_task: bool = False,
        hub_checked: bool = False,
        trial: str | None = None,
        internal: bool = False,
        denied: str = "",
        judged: Judged | None = None,
        may_repeat: bool = False,
    ) -> Call:
        """Accept a call. Its first commit is under way when this returns; the call is visible once that is durable.

        `in_callers_task`: the caller goes on to `Running.run`. `internal`: a part of clicket makes the call, of a tool
        that callers cannot use. `denied`: record the call as refused, for this reason. `judged`: the judgement of big arguments.
        `may_repeat`: an earlier call may have had the request's id, so an outcome that is kept of it forbids the call.
        """
        if self._phase.closing or self._journal.unsaved:
            self._check_open()
        made, caller, now, unless = new_id(), origin.caller, self._now(), None
        if may_repeat and request.id:
            unless = place_of(request.id, request.thread, caller)
        entry = Entry(request.id or made, request.thread, caller, request.tool, now, request.priority, internal, unless)
        call = Call(entry, request, origin, self._monotonic(), made, request.arguments, in_callers_task, hub_checked)
        if trial is not None:
            call.hold_trial(trial)
        if denied:
            call.denied = denied
        self._admit(call, judged)
        return call

    def _admit(self, call: Call, judged: Judged | None, may_defer: bool = False) -> None:
        """Run the first three stages, then send the call to a person, to the cache, or to the queue for a slot."""
        now, share = call.submitted_at, self._share
        if self._limiter.used:
            share.note_several(now)
        self._store.group_appends = now < share.several_until
        if not self._pipeline.admit(call, judged, may_defer):
            if call.verdict == "deny":
                self._audit.refused(call)
            self._live.add(call)
            self._pipeline.finish(call, self._ending.on_outcome_durable)
            return
        tool = call.tool
        assert tool is not None
        plan = self._plans.simple.get(tool)
        if plan is None or call.origin.prefer_sync:
            self._plans.fit(call)
            if tool.options.labels and not self._gives_away and not self._queues.runs(tool):
                self._refuse(call, self._queues.missing(tool))
                return
        else:
            call.plan = plan
        if tool.options.cache:
            self._caching.fit(call)
        if call.verdict == "ask":
            self._live.add(call)
            self._approvals.ask(call)
        elif (
            call.cache_key is None
            and not self._gives_away
            and call.request.not_before is None
            and not tool.options.credentials
        ):
            self._running.take_slot(call)
        else:
            self.resume(call)
        # A store that writes inline may have given the call away, or ended it, by now.
        if call.request.deadline is not None and not call.ending and call.failure is None:
            self._timers.deadline(call, call.request.deadline + self._due_calls.wait_of(call))

    def _refuse(self, call: Call, message: str) -> None:
        """End a call that cannot run in this process, and is not left to others."""
        self._live.add(call)
        error = ToolError(code="tool_unavailable", message=message, type="ToolUnavailable")
        self._pipeline.fail(call, error, self._ending.on_outcome_durable)

    def keep_asking(self, call: Call) -> None:
        """No grant answers the policy's question: the call waits for a person, here or in another process."""
        if self._leaves(call):
            self._handover.give_away(call)
        else:
            self._journal.commit(call.entry, partial(self._ending.on_created, call))

    def resume(self, call: Call) -> None:
        """The call may run: serve it from the cache, run it, or let it wait for its time or for its caller's credentials."""
        if call.request.not_before is not None and self._due_calls.wait_of(call) > 0:
            self._due_calls.defer(call)
        elif call.required_tool().options.credentials and not self._gives_away:
            self._credentials.enter(call)
        else:
            self.proceed(call)

    def proceed(self, call: Call) -> None:
        """Nothing holds the call back: serve it from the cache, or run it."""
        if call.cache_key is not None and call.entry.state is State.PENDING:
            self._live.add(call)
            self._flights.enter(call)
        else:
            self._run(call)

    def _run(self, call: Call) -> None:
        if self._leaves(call):
            self._handover.give_away(call)
        else:
            self._running.take_slot(call)

    def _leaves(self, call: Call) -> bool:
        """Is the call left to another process? Calls of tools that clicket brings along never are."""
        return self._gives_away and not call.entry.internal and (call.tool is None or call.tool.traits.listed)

    def on_cache_miss(self, call: Call) -> None:
        """The cache has no result for the call, perhaps after a wait. No caller is waiting here, so an error is recorded on the
        call."""
        try:
            self._run(call)
        except ClicketError as error:
            self._ending.on_created(call, error)

    def serve(self, call: Call, output: Any) -> None:
        """End the call with the cached output."""
        self._pipeline.serve(call, output, as_text(output), self._ending.on_outcome_durable)


def _closed() -> UsageError:
    return UsageError("the runtime is closed; open it with `async with Runtime(...)`.")
