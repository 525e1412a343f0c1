"""Runs calls in this process: accept, wait for a slot, start, settle. The journal is the truth; this only moves things along.

Accepting does not wait: the first three stages, the slot and the intent are staged at once and become durable in one commit.
What follows hangs on that commit's callback, so a caller who goes away in the middle breaks nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, cast

from clicket.bridge import Workers, fulfil
from clicket.engine.limits import Limits, Plans
from clicket.engine.results import result_from
from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.execution import STOPPABLE, Limiter, ProcessPool, Runner, describe
from clicket.journal import Fenced, Journal, LiveCall
from clicket.kernel import State
from clicket.model import Event, ToolCall, ToolResult
from clicket.model.codec import clean
from clicket.model.ids import new_id
from clicket.model.output import plain_output
from clicket.pipeline import Authorize, Execute, Find, Persist, Pipeline, Policy, Process, Validate
from clicket.ports import Append, Clock, Store
from clicket.tools import Registry

__all__ = ["LocalEngine"]

logger = logging.getLogger("clicket.engine")
_BREATH = 0.002
"""Seconds of one turn of the loop that calls which never wait may have, all together."""


class LocalEngine:
    """One per runtime, on one event loop."""

    def __init__(
        self, registry: Registry, store: Store, policy: Policy, limits: Limits, clock: Clock, chance: random.Random
    ) -> None:
        self.registry = registry
        self.store = store
        self.policy = policy
        self.limits = limits
        self.clock = clock
        self.live: dict[str, list[LiveCall]] = {}
        self.lingering: set[LiveCall] = set()
        self.closing = False
        self.closed = False
        self.journal = Journal(store, clock, self.spawn)
        self.journal.on_request = self._requested
        self.journal.on_unsaved = self.answer
        self.workers = Workers(limits.worker_threads, "clicket-worker")
        self.results = Workers(1, "clicket-results")
        self.processes = ProcessPool(
            size=limits.worker_processes,
            memory=limits.worker_memory,
            grace=limits.cancel_grace,
            warm=int(any(tool.options.isolation == "process" for tool in registry)),
        )
        self.runner = Runner(
            self.journal, self.workers, self.processes,
            chance=chance, grace=limits.cancel_grace, abandon=self._abandon, returned=self._returned, spawn=self.spawn,
        )  # fmt: skip
        self.pipeline = Pipeline(
            (
                Find(registry),
                Authorize(policy),
                Validate(max_size=limits.max_arguments_size),
                Execute(self.runner),
                Process(store, self.results),
                Persist(self.journal),
            ),
            self.journal,
        )
        self.limiter = Limiter(max_queue=limits.max_queue, start=self.begin)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.plans = Plans(limits)
        self._monotonic = clock.monotonic
        self._breathe_at = 0.0
        self._turning = False
        self._loop = asyncio.get_running_loop()

    # Accepting.

    def accept(
        self, request: ToolCall, *, caller: str = "", prefer_sync: bool = False, direct: bool = False
    ) -> LiveCall:
        """Take a call in. Its first commit is under way when this returns; nothing is visible before it is durable.

        `direct`: whoever made it goes on to `conduct` it.
        """
        if self.closing:
            raise UsageError("the runtime is closed; open it with `async with Runtime(...)`.")
        minted = new_id()
        call = LiveCall(
            request=request,
            id=request.id or minted,
            caller=caller,
            created_at=self.clock.now(),
            submitted_at=self.clock.monotonic(),
            idempotency_key=minted,
        )
        if prefer_sync:
            call.prefer_sync = True
        call.direct = direct
        if not self.pipeline.admit(call):
            self.remember(call)
            self.pipeline.finish(call, self.settled)
            return call
        self.enlist(call)
        return call

    def enlist(self, call: LiveCall) -> None:
        """An admitted call goes to approval, into a slot, or into the line."""
        self.plans.fit(call)
        if call.verdict == "ask":
            self.remember(call)
            self.ask(call, self.policy.approval_timeout)
            self.journal.commit(call, self._accepted)
        else:
            self.queue(call)
        if call.request.deadline is not None and not call.settling:
            call.deadline_timer = self.clock.call_later(call.request.deadline, self.expire, call, "deadline")

    def queue(self, call: LiveCall) -> None:
        """Take a slot now or stand in line. `QueueFull` leaves no trace of a new call; one that exists always gets a place."""
        taken = self.limiter.take(call, force=bool(call.events))
        self.remember(call)
        if taken:
            self.begin(call)
        else:
            self.journal.commit(call, self._accepted)
            if self.limits.queue_timeout is not None:
                call.queue_timer = self.clock.call_later(self.limits.queue_timeout, self.expire, call, "queue")

    def ask(self, call: LiveCall, timeout: float | None, purpose: str = "run") -> None:
        """Wait for a person. The question is in the journal, so it survives restarts."""
        call.waiting_for = "approval"
        self.journal.record(call, "approval_requested", {"timeout": timeout, "purpose": purpose})
        if timeout is not None:
            call.queue_timer = self.clock.call_later(timeout, self.expire, call, "approval")

    def decide(self, call: LiveCall, *, approved: bool, by: str, reason: str) -> None:
        """A person's word on a call that waits for it."""
        by, reason = clean(by), clean(reason)
        call.waiting_for = None
        if call.queue_timer is not None:
            call.queue_timer.cancel()
        self.journal.record(call, "approval_given", {"approved": approved, "by": by, "reason": reason})
        if approved:
            self.queue(call)
            return
        why = f": {reason}" if reason else ""
        error = describe(
            _Denied(f"{by or 'somebody'} denied the call{why}. Ask again with other arguments, or do without."),
            retryable=False,
        )
        self.pipeline.fail(call, error, self.settled)

    def begin(self, call: LiveCall) -> None:
        """The slot is taken: say so, and start once that is durable."""
        if call.queue_timer is not None:
            call.queue_timer.cancel()
        if call.lane != "process":
            self.journal.start(call, call.attempt + 1)
        elif call.state is State.PENDING:
            self.journal.advance(call, State.INITIALIZING)
        self.journal.commit(call, self._launch)

    # Running and settling.

    def _launch(self, call: LiveCall, error: ClicketError | None) -> None:
        if error is not None or call.accepted is not None:
            self._accepted(call, error)
        if error is not None:
            return
        if call.settling:
            self.limiter.release(call)
        elif call.direct and call.lane == "loop" and (call.turn is None or not call.turn.done()):
            call.ready = True
            if call.turn is not None:
                fulfil(call.turn)
        else:
            self._drive_apart(call)

    def _drive_apart(self, call: LiveCall) -> None:
        call.direct = False
        call.task = task = self._loop.create_task(self._drive(call))
        self.tasks.add(task)

    async def conduct(self, call: LiveCall) -> ToolResult:
        """For a caller that waits: an async body runs in the caller's own task, other calls are waited for."""
        if call.refused is not None:
            raise call.refused
        if not call.ready and call.result is None:
            call.turn = self._loop.create_future()
            call.waiters.append(call.turn)
            try:
                await call.turn
            except asyncio.CancelledError:
                await self._caller_left(call)
                raise
        if call.result is not None:
            return call.result
        call.task = asyncio.current_task()
        await self.pipeline.perform(call)
        self._performed(call)
        if call.caller_left:
            raise asyncio.CancelledError
        if self._monotonic() >= self._breathe_at:  # calls that never wait must still let others run
            if not self._turning:
                self._turning = True
                self._loop.call_soon(self._new_turn)
            await asyncio.sleep(0)
        return call.result or await self.outcome(call)

    def _new_turn(self) -> None:
        self._turning = False
        self._breathe_at = self._monotonic() + _BREATH

    async def outcome(self, call: LiveCall) -> ToolResult:
        """The result of a live call. Whoever stops waiting disturbs nobody else."""
        if call.result is not None:
            return call.result
        if call.refused is not None:
            raise call.refused
        waiter: asyncio.Future[ToolResult] = self._loop.create_future()
        call.waiters.append(waiter)
        return await waiter

    async def _caller_left(self, call: LiveCall) -> None:
        """The caller was cancelled while its call waited or ran elsewhere: the call ends, and with it the work."""
        self.cancel(call, "its caller was cancelled")
        if call.ready and not call.settling:
            self._drive_apart(call)
        call.direct = False
        if not call.settled:
            ending = asyncio.ensure_future(self.outcome(call))
            try:
                await asyncio.wait([ending], timeout=self.limits.cancel_grace + 1.0)
            finally:
                ending.cancel()

    async def _drive(self, call: LiveCall) -> None:
        try:
            await self.pipeline.perform(call)
            self._performed(call)
        except Exception:
            logger.exception("call %s could not be brought to its end", call.id)
        finally:
            self.tasks.discard(cast("asyncio.Task[Any]", call.task))  # signing off saves the loop a callback

    def _performed(self, call: LiveCall) -> None:
        if not call.settling:
            self.pipeline.finish(call, self.settled)
        elif not call.detached:  # the call was abandoned, and its body is back
            self._returned(call, call.late)

    def _accepted(self, call: LiveCall, error: ClicketError | None) -> None:
        """The first commit of a call is through, or refused: then the call does not exist."""
        if error is not None:
            call.refused = error
            self.dismiss(call, error)
            self.forget(call)
            call.settling = True
            self.limiter.leave(call)
            self.limiter.release(call)
            self.answer(call, error)
        if call.accepted is not None:
            fulfil(call.accepted, None, error)

    def settled(self, call: LiveCall, error: ClicketError | None) -> None:
        """The outcome is durable: tell those who wait, free the slot."""
        if isinstance(error, Fenced):
            self.forget(call)
            self.dismiss(call, error)
            self.spawn(self._report_fenced(call, error))
        elif error is not None:
            self._accepted(call, error)
            return
        else:
            call.settled = True
            call.result = result_from(call)
            if call.accepted is not None:
                fulfil(call.accepted)
            self.forget(call)
            self.answer(call, None)
        if call.sink is not None and call.sink.spool is not None:
            call.sink.spool.close()
        if call.abandoned:
            self.lingering.add(call)
        else:
            self.limiter.release(call)

    def dismiss(self, call: LiveCall, error: ClicketError) -> None:
        """Nothing more will be heard of the call here: those who follow its events are told why."""
        call.gone = error
        watchers, call.watchers = call.watchers, []
        for watcher in watchers:
            fulfil(watcher)

    def answer(self, call: LiveCall, error: ClicketError | None) -> None:
        waiters, call.waiters = call.waiters, []
        for waiter in waiters:
            fulfil(waiter, call.result, error)

    def _abandon(self, call: LiveCall) -> None:
        """The body did not stop in its grace: the call ends without it, the slot stays with it."""
        if not call.settling and call.stopping is not None:
            call.abandoned = True
            self.pipeline.stop(call, call.stopping, self.settled, execute=True)
            if call.gate is not None:
                fulfil(call.gate)  # the caller goes on, and lets the body go

    def _returned(self, call: LiveCall, late: tuple[Any, BaseException | None] | None) -> None:
        """An abandoned body came back after all: with a value or an error, or (None) because it was cancelled at last."""
        self.lingering.discard(call)
        call.abandoned = False
        self.limiter.release(call)
        if late is not None and not self.closed:
            self.pipeline.keep_late(call, late)
            self.journal.commit(call)

    async def _report_fenced(self, call: LiveCall, error: Fenced) -> None:
        """Another owner took the call: what we know is kept as a late result, and our callers look for the other's outcome."""
        said: list[Event] = error.details.get("events", [])
        outcome = next((e for e in said if e.is_terminal), None)
        try:
            if outcome is not None:
                await self.request(call.id, call.thread, call.caller, "late_result", dict(outcome.data))
        except StoreUnavailable as unavailable:
            logger.warning("call %s: its late result could not be kept: %s", call.id, unavailable)
        finally:
            self.answer(call, error)

    # Stopping.

    def cancel(self, call: LiveCall, reason: str) -> bool:
        """Ask a live call to end as cancelled. False: it has ended, or is just about to."""
        if call.settling or call.stopping not in STOPPABLE:
            return False
        call.cancel_reason = reason = clean(reason)
        self.journal.record(call, "cancel_requested", {"reason": reason})
        self.stop(call, "cancel")
        self.journal.commit(call)
        return True

    def expire(self, call: LiveCall, reason: str) -> None:
        if not call.settling and call.stopping in STOPPABLE:
            self.stop(call, reason)

    def stop(self, call: LiveCall, reason: str) -> None:
        if call.queued or call.waiting_for is not None or not call.slot:
            self.limiter.leave(call)
            call.waiting_for = None
            self.pipeline.stop(call, reason, self.settled)
        else:
            self.runner.stop(call, reason)

    def _requested(self, call: LiveCall, events: list[Event]) -> None:
        """Another process wrote a request into a call of ours."""
        for event in events:
            if event.type == "cancel_requested" and not call.settling and call.stopping in STOPPABLE:
                call.cancel_reason = event.data.get("reason", "")
                self.stop(call, "cancel")

    async def request(self, id: str, thread: str, caller: str, kind: Any, data: dict[str, Any]) -> bool:
        """Write into a call that another process owns. False: it has ended (a late result is kept even then)."""
        data = plain_output(data)[0]
        while True:
            found = await self.store.load(id, thread, caller)
            if not found or (found[0].events[-1].state.is_terminal and kind != "late_result"):
                return False
            stored = found[0]
            last = stored.events[-1]
            event = Event(call_id=id, seq=last.seq + 1, at=self.clock.now(), type=kind, state=last.state, data=data)
            first = stored.events[0]
            change = Append(
                id, thread, caller, first.data["tool"], last.seq, -1, [event], last.state, first.at,
                cancel=kind == "cancel_requested", key=stored.key,
            )  # fmt: skip
            error = await self.journal.append(change)
            if error is None:
                return True
            if error.code != "stale":
                raise error

    async def refresh(self, call: LiveCall) -> None:
        """Bring a live call up to date with what others wrote into it, by writing nothing on top of what we know."""
        if call.inflight is None:
            await self.journal.flush(call)

    # Looking.

    def find_live(self, id: str, thread: str | None, caller: str | None) -> LiveCall | None:
        """The live call of that name; None also when several threads have it and none was named."""
        found = [
            call
            for call in self.live.get(id, ())
            if (thread is None or call.thread == thread) and (caller is None or call.caller == caller)
        ]
        return found[0] if len(found) == 1 else None

    def remember(self, call: LiveCall) -> None:
        known = self.live.get(call.id)
        if known is None:
            self.live[call.id] = [call]
        elif call not in known:
            known.append(call)

    def forget(self, call: LiveCall) -> None:
        if call.deadline_timer is not None:
            call.deadline_timer.cancel()
        if call.queue_timer is not None:
            call.queue_timer.cancel()
        known = self.live.get(call.id)
        if known == [call]:
            del self.live[call.id]
        elif known is not None and call in known:
            known.remove(call)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Every task has a parent: the engine waits for its tasks when it closes."""
        task = self._loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._task_ended)

    def spawn_later(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """For timers: make the coroutine only when its time has come."""
        self.spawn(start())

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the engine failed", exc_info=task.exception())


class _Denied(ClicketError):
    code = "approval_denied"
