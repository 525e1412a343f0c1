"""Accepting calls: the first three stages, then the cache, a person, another process, or a slot.

Accepting does not wait: what is decided here is staged at once and becomes durable in one commit.
"""

from __future__ import annotations

from clicket.engine.cache.kept_outcomes import place_of
from clicket.engine.core import Core
from clicket.engine.executors.deps import unprovided
from clicket.engine.journal import Entry
from clicket.engine.lifecycle.due_calls import DueCalls
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.live_call import Call, Origin
from clicket.engine.local.loop_share import LoopShare
from clicket.engine.stages import Deferred, Judged
from clicket.errors import StoreUnavailable, UsageError
from clicket.model import ToolCall, ToolError
from clicket.model.ids import new_id
from clicket.tools import Tool

__all__ = ["Admission"]


class Admission:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        next_steps: NextSteps,
        due_calls: DueCalls,
        share: LoopShare,
    ) -> None:
        self._journal = core.journal
        self._pipeline = core.pipeline
        self._hub = core.hub
        self._plans = core.plans
        self._limiter = core.limiter
        self._live = core.live
        self._timers = core.timers
        self._caching = core.caching
        self._slots = core.slots
        self._audit = core.audit
        self._queues = core.queues
        self._deps = core.deps
        self._phase = core.phase
        self._ending = ending
        self._next_steps = next_steps
        self._share = share
        self._due_calls = due_calls
        self._now = core.clock.now
        self._monotonic = core.clock.monotonic

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
        now = self._now
        monotonic = self._monotonic
        made = new_id()
        unless = None
        if may_repeat and request.id:
            unless = place_of(request.id, request.thread, origin.caller)
        entry = Entry(
            request.id or made, request.thread, origin.caller, request.tool, now(), request.priority, False, unless,
            origin.maker,
        )  # fmt: skip
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
        trial = None
        judged = await self._pipeline.judge_ahead(request)
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
        made = new_id()
        caller = origin.caller
        now = self._now()
        unless = None
        if may_repeat and request.id:
            unless = place_of(request.id, request.thread, caller)
        entry = Entry(
            request.id or made,
            request.thread,
            caller,
            request.tool,
            now,
            request.priority,
            internal,
            unless,
            origin.maker,
        )
        call = Call(entry, request, origin, self._monotonic(), made, request.arguments, in_callers_task, hub_checked)
        if trial is not None:
            call.hold_trial(trial)
        if denied:
            call.denied = denied
        self._admit(call, judged)
        return call

    def _admit(self, call: Call, judged: Judged | None, may_defer: bool = False) -> None:
        """Run the first three stages, then send the call to a person, to the cache, or to the queue for a slot."""
        now = call.submitted_at
        share = self._share
        if self._limiter.used:
            share.note_several(now)
        self._journal.groups = now < share.several_until
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
            why = "" if self._phase.leaves_calls else self._lacking(call, tool)
            if why:
                self._refuse(call, why)
                return
        else:
            call.plan = plan
        if tool.options.cache:
            self._caching.fit(call)
        self._next_steps.go_on(call)
        # A store that writes inline may have given the call away, or ended it, by now.
        if call.request.deadline is not None and not call.ending and call.failure is None:
            self._timers.deadline(call, call.request.deadline + self._due_calls.wait_of(call))

    def _lacking(self, call: Call, tool: Tool) -> str:
        """What this process lacks to run the call; empty if nothing."""
        if not self._queues.has_labels(tool):
            return self._queues.missing(tool)
        missing = self._deps.missing(call)
        return unprovided(tool, missing[0]) if missing else ""

    def _refuse(self, call: Call, message: str) -> None:
        """End a call that cannot run in this process, and is not left to others."""
        self._live.add(call)
        error = ToolError(code="tool_unavailable", message=message, type="ToolUnavailable")
        self._pipeline.fail(call, error, self._ending.on_outcome_durable)


def _closed() -> UsageError:
    return UsageError("the runtime is closed; open it with `async with Runtime(...)`.")
