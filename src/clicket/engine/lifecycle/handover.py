"""Calls that change their owner: left to be claimed, claimed by key, released when the runtime closes."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from msgspec import to_builtins

from clicket.engine.call.doubt import AfterDoubt, after_doubt
from clicket.engine.core import Core
from clicket.engine.executors import gave_token
from clicket.engine.fleet.placement import Placement
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.engine.people.questions import ask_for_approval, question_after_crash
from clicket.engine.records.attempt_history import doubt_of, unknown_outcome
from clicket.engine.records.stored_calls import Closed
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model.ports import put_away, sleep

__all__ = ["HandOver"]

logger = logging.getLogger("clicket.engine")
_LOOK_AGAIN = 1.0


class HandOver:
    def __init__(self, core: Core, ending: Ending, placement: Placement) -> None:
        self._journal = core.journal
        self._clock = core.clock
        self._store = core.store
        self._pipeline = core.pipeline
        self._policy = core.policy
        self._live = core.live
        self._timers = core.timers
        self._ending = ending
        self._stored_calls = core.stored_calls
        self._placement = placement
        self._shares = core.shares
        self._queues = core.queues
        self._inputs = core.inputs
        self._gate = core.gate
        self._slots = core.slots
        self._spawn = core.spawn
        self._phase = core.phase

    def give_away(self, call: Call) -> None:
        """Commit the call without an owner: from then on it belongs to the process that claims it."""
        entry = call.entry
        queue = self._first_queue(call)
        waits = entry.waiting_for is not None or entry.durable > 0
        to = 0 if waits else self._placement.choose(queue or entry.tool)
        self._journal.give_up_ownership(entry, to, queue)
        self._live.add(call)
        self._timers.end_wait(call)
        self._journal.commit(call.entry, partial(self._on_given, call))

    def put_away(self, call: Call) -> None:
        """Commit the call without an owner: from then on it belongs to the process that claims it by its key."""
        self._journal.give_up_ownership(call.entry, queue=put_away(call.entry.tool))
        self._live.add(call)
        self._timers.end_wait(call)
        self._journal.commit(call.entry, partial(self._on_given, call))

    def _first_queue(self, call: Call) -> str:
        """The queue of a call that was never claimed; one that was keeps its queue. Empty: the one of the tool's name."""
        tool = call.tool
        queue = self._queues.queue_of(tool) if tool is not None and call.entry.fence == 1 else ""
        return "" if queue == call.entry.tool else queue

    def _on_given(self, call: Call, error: ClicketError | None) -> None:
        self._ending.on_created(call, error)
        if error is not None:
            return
        self._stored_calls.given_away(call.entry.key)
        if call.entry.to > 0:
            self._placement.placed(call.entry.key, call.entry.to)
        slot = call.take_trial()
        if slot is not None:  # in whichever process it runs, it remains the one trial until it has ended
            self._spawn(self._hold_until_ended(call, slot))
        self._ending.leave_to_others(call, Fenced(f"call {call.id} is left to other runtimes now"))
        asks = call.approval_timeout if call.entry.waiting_for == "approval" else None
        for limit in (call.request.deadline, asks):
            if limit is not None:  # this process ends a call that no process has claimed by then
                left = limit - (self._clock.monotonic() - call.submitted_at)
                self._clock.call_later(max(left, 0.0), self._take_later, call.entry.key)

    def _take_later(self, key: int) -> None:
        self._spawn(self.take(key))

    async def _hold_until_ended(self, call: Call, slot: str) -> None:
        try:
            stored = await self._stored_calls.find(call.id, call.thread, call.caller)
            async for _ in self._stored_calls.follow(stored.key, call.id, 0):
                pass
        except ClicketError as error:
            logger.info("call %s is not followed any more: %s", call.id, error)
        finally:
            self._slots.give(slot)

    async def take(self, key: int) -> None:
        """Claim a call that has no owner, or a dead one, and continue it as its journal requires."""
        while not self._phase.closing:
            try:
                stored = await self._store.claim(key)
            except StoreUnavailable as error:
                logger.warning("a call without an owner could not be claimed; it is retried: %s", error)
                await sleep(self._clock, _LOOK_AGAIN)
                continue
            if stored is not None:
                self._stored_calls.taken_back(key)
                await self._inputs.claimed([stored])
            return

    def close_stopped(self, call: Call) -> None:
        """A closing runtime stopped the body: release the call if it may be repeated, else end it."""
        if self._shares:
            self.close_started(call)
        else:
            self._pipeline.finish(call, self._ending.on_outcome_durable)

    def end_stopped(self, call: Call, *, execute: bool = False) -> None:
        """End a stopped call that has no body to end it. `execute`: its body was abandoned."""
        assert call.stopping is not None
        if call.stopping == "shutdown" and self._shares:
            self.close_started(call)
        else:
            self._pipeline.end_stopped(call, call.stopping, self._ending.on_outcome_durable, execute=execute)

    def close_started(self, call: Call) -> None:
        """The runtime closes, and the call did not finish in time: release it to run again, if it may be repeated."""
        entry = call.entry
        if entry.state not in (State.RUNNING, State.STREAMING):  # no attempt is under way: it is released unchanged
            self._give_up_ownership(call)
            return
        verdict = after_doubt(doubt_of(call.required_tool().options))
        # The next owner asks the tool's check, or takes what a token brings until then.
        if verdict is AfterDoubt.CHECK or gave_token(call):
            self._give_up_ownership(call)
            return
        text = f"the runtime was closed while attempt {entry.attempts} ran, and the attempt was stopped"
        if call.stopping == "elsewhere":
            text = f"attempt {entry.attempts} could not go on in its process, which does not have {entry.waiting_for}"
        unknown = unknown_outcome(f"{text}; it may have had its effect.")
        if verdict is AfterDoubt.END_UNKNOWN:
            self._pipeline.fail(call, unknown, self._ending.on_outcome_durable)
            return
        asks = verdict is AfterDoubt.ASK
        data: dict[str, Any] = {"attempt": entry.attempts, "error": to_builtins(unknown), "delay": 0.0}
        waits = "approval" if asks else entry.waiting_for if call.stopping == "elsewhere" else None
        self._journal.advance(entry, State.RETRYING, data if waits is None else {**data, "waiting_for": waits})
        if asks:
            question = question_after_crash(self._policy)
            timeout = self._policy.approval_timeout
            ask_for_approval(self._journal, call, question, purpose="recovery", reason=text, timeout=timeout)
        self._give_up_ownership(call)

    def _give_up_ownership(self, call: Call) -> None:
        call.seal()
        self._journal.give_up_ownership(call.entry, queue=self._first_queue(call))
        self._journal.commit(call.entry, partial(self._on_released, call))

    def _on_released(self, call: Call, error: ClicketError | None) -> None:
        if error is None and call.stopping == "elsewhere":  # its followers read on in the store
            error = Fenced(f"call {call.id} goes on in another process")
        self._ending.let_go(call, error or Closed(f"the runtime was closed; call {call.id} waits for the next one."))
        self._gate.release(call)
