"""Calls take a slot, start, and run: in their caller's own task, or in one of their own.

The commit's callback continues the call after its start, so cancelling the caller in between does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from clicket.engine.core import Core
from clicket.engine.executors import PREPARED
from clicket.engine.executors.stopping import CALLER_LEFT, abandon, is_parked, returned
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.parking import Parking
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call, Late
from clicket.engine.local.loop_share import LoopShare
from clicket.engine.local.tasks import Tasks
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import ToolResult
from clicket.system.bridge import fulfil

__all__ = ["Running"]

logger = logging.getLogger("clicket.engine")
_Future = asyncio.Future  # the loop's `create_future` would be one call more


class Running:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        handover: HandOver,
        stopping: Stopping,
        parking: Parking,
        share: LoopShare,
        tasks: Tasks,
    ) -> None:
        self._journal = core.journal
        self._pipeline = core.pipeline
        self._live = core.live
        self._limiter = core.limiter
        self._gate = core.gate
        self._timers = core.timers
        self._ending = ending
        self._on_outcome_durable = ending.on_outcome_durable
        self._wake = ending.wake
        self._loop = asyncio.get_running_loop()
        self._handover = handover
        self._stopping = stopping
        self._parking = parking
        self._share = share
        self._tasks = tasks
        self._uncounted = core.costs.writing  # calls that end once the ledger has what they have cost
        self._queue_timeout = core.limits.queue_timeout
        self._cancel_grace = core.limits.cancel_grace
        self._monotonic = core.clock.monotonic
        self._phase = core.phase
        self._on_start_durable = self.on_start_durable

    # A slot.

    def take_slot(self, call: Call) -> None:
        """Take a slot now or wait in the queue. On `QueueFull` a new call is not recorded; a call that exists always gets a place."""
        entry = call.entry
        taken = self._limiter.take(call, entry.durable > 0)
        if call.request.id is None:
            self._live.made[entry.id] = call
        else:
            self._live.add(call)
        if not taken:
            self.wait_in_queue(call)
        elif call.plan.is_simple and call.wait_timer is None:
            self._journal.start_and_commit(entry, self._on_start_durable, call)
        else:
            self.start_attempt(call)

    def wait_in_queue(self, call: Call) -> None:
        """Make a waiting call durable, and bound its wait. What it waited for before, as for a person, is not time in the queue."""
        if len(call.plan.needs) > 1:
            self._gate.note_wait(call)
        self.keep(call)
        if self._queue_timeout is not None and call.wait_timer is None:
            self._timers.wait(call, self._queue_timeout, "queue")

    def keep(self, call: Call) -> None:
        """Make a call durable that does not start yet."""
        entry = call.entry
        if entry.has_staged or not entry.durable:
            self._journal.commit(entry, lambda error: self._ending.on_created(call, error))

    def start_attempt(self, call: Call) -> None:
        """The slot is taken: record the start; the body runs once that is durable."""
        if len(call.plan.needs) > 1 and not self._gate.admits(call):  # there are limits beside the runtime's
            return
        if call.wait_timer is not None:
            self._timers.end_wait(call)
        entry = call.entry
        if call.plan.lane not in PREPARED:
            self._journal.start_and_commit(entry, self.on_start_durable, call)
            return
        if entry.state is State.PENDING:
            self._journal.advance(entry, State.INITIALIZING)
        self._journal.commit(entry, lambda error: self.on_start_durable(call, error))

    def on_start_durable(self, call: Call, error: ClicketError | None) -> None:
        """The start is on record, or the store refused it."""
        if error is not None or call.accepted is not None:
            self._ending.on_created(call, error)
            if error is not None:
                return
        if call.ending:
            self._gate.release(call)
        elif (
            call.in_callers_task
            and call.plan.lane == "loop"
            and (call.start_waiter is None or not call.start_waiter.done())
        ):
            call.ready = True
            if call.start_waiter is not None:
                wake = self._wake
                wake(call.start_waiter)
        else:
            self.run_in_own_task(call)

    # The body.

    async def run(self, call: Call) -> ToolResult:
        """For a caller that waits: run an async body in the caller's task, or wait for the call."""
        rest = self.run_first_step(call)
        result = None if rest is None else await rest
        return await self._ending.outcome(call) if result is None else result

    def run_first_step(self, call: Call) -> Awaitable[ToolResult | None] | None:
        """As `run`, without a coroutine for a body that ends in its first step: None, and `call.result` is set. One that waits gets None if
        another process has the call: that is not an exception, because its traceback would tie the call and its caller into a cycle, which
        only the garbage collector frees."""
        if not call.ready or call.result is not None or call.failure is not None:
            return self._wait_and_run(call)
        rest = self._pipeline.perform(call)
        if rest is not None:
            return self._end(call, rest)
        self._on_body_done(call)
        monotonic = self._monotonic
        if call.result is None or call.attempt is not None or monotonic() >= self._share.over_at:
            return self._after_body(call)
        return None

    async def _wait_and_run(self, call: Call) -> ToolResult | None:
        if call.failure is not None:
            _raise_unless_left(call.failure)
            return None
        if not call.ready and call.result is None:
            waiter: asyncio.Future[Any] = _Future(loop=self._loop)
            call.start_waiter = waiter
            try:
                await waiter
            except asyncio.CancelledError:
                await self._on_caller_left(call)
                raise
        if call.result is not None:
            return call.result
        if call.failure is not None and not call.ready:
            _raise_unless_left(call.failure)
            return None
        rest = self._pipeline.perform(call)
        if rest is not None:
            await rest
        self._on_body_done(call)
        if call.result is None and call.failure is None and call.attempt is None:
            return await self._ending.waiter(call)  # type: ignore[no-any-return]  # as `_after_body`, without its coroutines
        return await self._after_body(call)

    async def _end(self, call: Call, rest: Awaitable[None]) -> ToolResult:
        """Await the rest of the body, and end its call."""
        await rest
        self._on_body_done(call)
        return await self._after_body(call)

    async def _after_body(self, call: Call) -> ToolResult:
        """Wait for the outcome, and let other tasks run if this iteration of the loop is long."""
        if call.attempt is not None and call.attempt.caller_left:
            raise asyncio.CancelledError
        if call.result is None:
            return await self._outcome(call)
        if self._monotonic() >= self._share.over_at:
            await self._share.rest()
        return call.result

    async def _outcome(self, call: Call) -> ToolResult:
        """Wait for the outcome. A caller that leaves a call that was parked cancels it, as it would cancel the body."""
        try:
            return await self._ending.outcome(call)
        except asyncio.CancelledError:
            if not call.in_callers_task and not call.ended:
                await self._on_caller_left(call)
            raise

    def run_in_own_task(self, call: Call) -> None:
        call.in_callers_task = False
        self._tasks.start(self._run(call))

    async def _run(self, call: Call) -> None:
        try:
            rest = self._pipeline.perform(call)
            if rest is not None:
                await rest
            self._on_body_done(call)
        except Exception:
            logger.exception("call %s could not be brought to its end", call.id)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    def _on_body_done(self, call: Call) -> None:
        if not call.ending:
            if call.stopping in ("shutdown", "elsewhere") and call.outcome is State.CANCELLED:
                self._handover.close_stopped(call)
            elif is_parked(call):
                call.in_callers_task = call.ready = False  # the caller waits for the outcome
                self._parking.park(call)
            else:
                self._pipeline.finish(call, self._on_outcome_durable)
        elif (
            call.attempt is not None and not call.attempt.detached
        ):  # the call was abandoned, and its body has returned
            self.on_returned(call, call.attempt.late)

    async def _on_caller_left(self, call: Call) -> None:
        """The caller was cancelled while its call waited or ran in another task: cancel the call."""
        self._stopping.cancel(call, CALLER_LEFT)
        if call.ready and not call.ending:
            self.run_in_own_task(call)
        call.in_callers_task = False
        if not call.ended:
            ending = asyncio.ensure_future(self._ending.outcome(call))
            try:
                await asyncio.wait([ending], timeout=self._cancel_grace + 1.0)
            finally:
                ending.cancel()

    # Bodies that do not stop.

    def abandon(self, call: Call) -> None:
        """The body did not stop in its grace: the call ends without it, the slot stays with it."""
        if not call.ending and call.stopping is not None:
            abandon(call)
            self._handover.end_stopped(call, execute=True)
            if call.attempt is not None and call.attempt.gate is not None:
                fulfil(call.attempt.gate)  # the caller goes on, and the body is detached

    def on_returned(self, call: Call, late: Late | None) -> None:
        """An abandoned body returned: a value, an error, or None if it was cancelled in the end."""
        if call.ending and call in self._uncounted:  # its end is not on record yet, and comes first
            self._uncounted[call].add_done_callback(lambda _: self.on_returned(call, late))
            return
        self._ending.abandoned.discard(call)
        returned(call)
        self._gate.release(call)
        if late is not None and not self._phase.closed:
            self._pipeline.keep_late(call, late)
            self._journal.commit(call.entry)


def _raise_unless_left(failure: ClicketError) -> None:
    """Raise why there is no result, unless another process has the call."""
    if not isinstance(failure, Fenced):
        raise failure
