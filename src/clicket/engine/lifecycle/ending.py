"""How calls end here: refused, ended with a durable outcome, or lost to another owner. The only writer of results."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from clicket.engine.core import Core
from clicket.engine.executors import Wakeups, stop
from clicket.engine.journal import Fenced
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, ToolResult
from clicket.model.result import failure_text
from clicket.system.bridge import fulfil

__all__ = ["Ending"]

logger = logging.getLogger("clicket.engine")
_COMPLETED = State.COMPLETED
_Future = asyncio.Future  # the loop's `create_future` would be one call more


class Ending:
    def __init__(self, core: Core) -> None:
        self._journal = core.journal
        self._store = core.store
        self._live = core.live
        self._made = core.live.made
        self._limiter = core.limiter
        self._timers = core.timers
        self._signals = core.signals
        self._flights = core.flights
        self._hub = core.hub
        self._degraded = core.hub.degraded
        self._slots = core.slots
        self._gate = core.gate
        self._spawn = core.spawn
        self._loop = asyncio.get_running_loop()
        self.wake = Wakeups().fulfil
        """For futures that callers of calls wait for."""
        self.abandoned: set[Call] = set()
        """Calls that ended without their bodies, which still run."""
        self.superseded: dict[Call, asyncio.Future[None]] = {}
        """Calls that were lost and claimed anew while their bodies run. Each future is done once the body is over, or abandoned."""

    # Waiting for the end.

    def waiter(self, call: Call) -> asyncio.Future[Any]:
        """A future that gets the result, or an error if this process will have no result."""
        waiter: asyncio.Future[Any] = _Future(loop=self._loop)
        call.waiters += (waiter,)
        return waiter

    async def outcome(self, call: Call) -> ToolResult:
        """The result of a live call. Cancelling one waiter does not affect the others."""
        if call.result is not None:
            return call.result
        if call.failure is not None:
            raise call.failure
        trouble = self._journal.trouble
        if trouble is not None and self._journal.is_stuck(call.entry):
            raise trouble
        result: ToolResult = await self.waiter(call)
        return result

    async def created(self, call: Call) -> None:
        """Wait until the call is durable, or raise why it cannot be."""
        if call.failure is not None:
            raise call.failure
        if not call.entry.durable:
            call.accepted = self._loop.create_future()
            await call.accepted

    # What the journal calls.

    def on_created(self, call: Call, error: ClicketError | None) -> None:
        """A commit before the outcome is durable, or was refused for good."""
        if error is not None:
            self.drop(call, error)
        elif call.accepted is not None:
            fulfil(call.accepted)

    def drop(self, call: Call, error: ClicketError) -> None:
        """Nothing more comes of the call here. One that is not on record does not exist."""
        self._body_over(call)
        self.dismiss(call, error)
        self.forget(call)
        call.seal()
        self._limiter.leave(call)
        if call.attempt is not None and call.attempt.abandoned:
            self.abandoned.add(call)  # its body still runs, and keeps its slots
        else:
            self._gate.release(call)
        self.answer(call, error)
        if call.accepted is not None:
            fulfil(call.accepted, None, error)

    def on_outcome_durable(self, call: Call, error: ClicketError | None) -> None:
        """The outcome is durable, or never will be: notify the waiters, release the slots."""
        if error is None:
            call.result = result_from(call)
            if call.accepted is not None:
                fulfil(call.accepted)
            if self._degraded or call.outcome is not _COMPLETED:
                self._hub.ended(call)
            if (
                call.request.id is None
                and call.cache_key is None
                and call.trial is None
                and call.deadline_timer is None
                and call.wait_timer is None
            ):
                self._made.pop(call.entry.id, None)  # all that `forget` would do
            else:
                self.forget(call)
            if call.waiters or call.start_waiter is not None:
                self.answer(call, None)
        elif isinstance(error, Fenced):
            self._body_over(call)
            self.forget(call)
            self.dismiss(call, error)
            self._spawn(self._report_fenced(call, error))
        else:
            self.drop(call, error)
            if call.attempt is not None and call.attempt.sink is not None and call.attempt.sink.spool is not None:
                call.attempt.sink.spool.close()
            return
        attempt = call.attempt
        if attempt is not None:
            if attempt.sink is not None and attempt.sink.spool is not None:
                attempt.sink.spool.close()
            if attempt.abandoned:
                self.abandoned.add(call)
                return
        if call.shared_slot:
            self._gate.release(call)
        else:
            self._limiter.release(call)

    # Removing a call from this process.

    def forget(self, call: Call) -> None:
        """Remove a call from this process: its timers, its trial's and its leader's slots, its entry in the live calls."""
        if call.cache_key is not None:
            self._flights.left(call)
        if call.trial is not None:
            slot = call.take_trial()
            assert slot is not None
            self._slots.give(slot)
        if call.deadline_timer is not None or call.wait_timer is not None:
            self._timers.cancel(call)
        if call.request.id is None:
            self._live.made.pop(call.entry.id, None)
        else:
            self._live.remove(call)

    def supersede(self, call: Call) -> None:
        """This process lost the call while it runs here, and has claimed it anew."""
        self.superseded[call] = self._loop.create_future()

    async def stop_superseded(self, call: Call) -> None:
        """Stop the body of a superseded call, and wait until it is over, or is abandoned because it does not stop."""
        over = self.superseded.get(call)
        if over is not None:  # else it ended before this began
            stop(call, "shutdown", "the call was lost, and is continued anew")
            await asyncio.shield(over)

    def _body_over(self, call: Call) -> None:
        over = self.superseded.pop(call, None)
        if over is not None:
            fulfil(over)

    def lose(self, call: Call) -> None:
        """This process has a call no more that only waits here: its waiters read the outcome from the store."""
        self._journal.fence_off(call.entry)
        self._limiter.leave(call)
        self.let_go(call, Fenced(f"call {call.id} was taken over by another owner"))

    def let_go(self, call: Call, why: ClicketError) -> None:
        """The call has another owner, or none, from now on."""
        self._body_over(call)
        self.forget(call)
        self.answer(call, why)
        self.dismiss(call, why)

    def leave_to_others(self, call: Call, why: Fenced) -> None:
        """As `let_go`, for a call that was accepted to be run by another process: a caller that waits for its start is woken without an
        error, and finds `call.failure`."""
        if call.start_waiter is not None:
            self.wake(call.start_waiter)
        self.let_go(call, why)

    def dismiss(self, call: Call, error: ClicketError) -> None:
        """This process gets no more events of the call: its followers get the reason, and so does the submitter of a call that is not
        durable, because the runtime closes while it looks for a grant."""
        call.failure = error
        if call.accepted is not None:
            fulfil(call.accepted, None, None if call.entry.durable else error)
        self._journal.wake_watchers(call.entry)
        for left in self._journal.observers.left:
            left(call.entry)

    def answer(self, call: Call, error: ClicketError | None) -> None:
        waiters, call.waiters = call.waiters, ()
        result = call.result
        waiter = call.start_waiter
        wake = self.wake
        if waiter is not None and not waiter.done():  # its caller waits for the start
            wake(waiter, result, error)
        for waiter in waiters:
            wake(waiter, result, error)

    async def _report_fenced(self, call: Call, error: Fenced) -> None:
        """Another owner took the call: record our outcome as a late result; our waiters read the outcome from the store."""
        unwritten: list[Event] = error.details.get("events", [])
        outcome = next((event for event in unwritten if event.is_terminal), None)
        try:
            found = await self._store.load(call.id, call.thread, call.caller)
            # A start that was refused is not an outcome: the body did not run here.
            ran = outcome is not None and (outcome.data.get("error") or {}).get("code") != Fenced.code
            if outcome is not None and ran and found and found[0].damaged is None:
                await self._signals.write(found[0], "late_result", dict(outcome.data))
        except StoreUnavailable as unavailable:
            logger.warning("call %s: its late result could not be stored: %s", call.id, unavailable)
        finally:
            self.answer(call, error)


def result_from(call: Call) -> ToolResult:
    """The result of a call that ended here, from the fields that the stages set; equal to the one folded from its events."""
    entry, metadata = call.entry, call.metadata
    given = call.request.metadata if call.secrets is None else call.secrets.metadata
    if given:
        metadata = {**given, **(metadata or {})}
    if call.outcome is _COMPLETED:
        return ToolResult(
            call_id=entry.id,
            tool=entry.tool,
            state=_COMPLETED,
            output=call.output,
            content=call.content,
            truncated=call.truncated,
            artifact=call.artifact,
            files=call.files,
            attempts=entry.attempts,
            cached=call.cached,
            duration=call.duration,
            stages=call.stages,
            metadata={} if metadata is None else metadata,
        )
    return ToolResult(
        call_id=entry.id,
        tool=entry.tool,
        state=call.outcome,
        error=call.error,
        attempts=entry.attempts,
        content=failure_text(call.outcome, call.error),
        cached=call.cached,
        duration=call.duration,
        stages=call.stages,
        metadata={} if metadata is None else metadata,
    )
