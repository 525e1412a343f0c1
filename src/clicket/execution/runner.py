"""Runs attempts: each in its lane (loop, inline, worker thread, child process), each with a deadline, until one counts.

Timeouts and cancels stop work. What cannot be stopped in time is abandoned, and says so; its slot stays taken until the
body has really returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any

from msgspec import to_builtins

from clicket.bridge import Workers, fulfil
from clicket.execution.deadlines import Deadlines
from clicket.execution.hold import hold, settled
from clicket.execution.outcome import Stopped, stop_error
from clicket.execution.processes import ProcessPool, Worker, target_of
from clicket.execution.retry import backoff, describe, transient
from clicket.execution.sink import CallSink, ThreadSink, context_for
from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.model.codec import decode, encode
from clicket.ports import Clock
from clicket.tools import STREAMED, Options, Tool

__all__ = ["Runner", "lane_of"]

Lane = Callable[[LiveCall, Tool], Awaitable[Any]]
_START_LIMIT = 120.0
"""Seconds that a child may take to import a tool's module; the attempt's own time counts from the body's start."""
_RETRYABLE_STOPS = ("attempt", "idle")


def lane_of(tool: Tool, *, prefer_sync: bool = False) -> str:
    """Where a tool's body runs. Nothing sync runs on the loop unless its author wrote isolation="inline"."""
    isolation = tool.options.isolation
    if isolation != "auto":
        return "loop" if isolation == "inline" and tool.is_async else isolation
    if prefer_sync and getattr(tool, "run_sync", None) is not None:
        return "thread"
    return "loop" if tool.is_async else "thread"


class Runner:
    """`returned` is called when a body that was abandoned comes back after all, with its value or error."""

    def __init__(
        self,
        journal: Journal,
        workers: Workers,
        processes: ProcessPool,
        *,
        chance: random.Random,
        grace: float,
        abandon: Callable[[LiveCall], None],
        returned: Callable[[LiveCall, tuple[Any, BaseException | None] | None], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.journal = journal
        self.clock: Clock = journal.clock
        self.workers = workers
        self.processes = processes
        self.grace = grace
        self._chance = chance
        self._abandon = abandon
        self._returned = returned
        self._spawn = spawn
        self.deadlines = Deadlines(self.clock, lambda call: self.stop(call, "attempt"))
        self._lanes: dict[str, Lane] = {
            "loop": self._on_loop,
            "inline": self._inline,
            "thread": self._in_thread,
            "process": self._in_process,
        }

    def start(self, call: LiveCall) -> Awaitable[None] | None:
        """Run a call, in its caller's task if that is at hand. None: its output is there already.

        An async body takes its first step here and now. All that guards an attempt (deadlines, stopping, retries) is only
        needed once the body waits for something or fails, so that is when it is set up.
        """
        tool = call.required_tool()
        if not call.direct or call.state is not State.RUNNING or call.stopping is not None:
            return self.run(call)
        ctx = None
        if getattr(tool, "wants_context", True):
            sink = call.sink = CallSink(self.journal, call)
            sink.begin(call.request.timeout or tool.options.timeout)
            ctx = context_for(call, sink)
        try:
            body = tool.run(call.bound, ctx)
            steps = body if type(body) is CoroutineType else body.__await__()
            waiting = steps.send(None)
        except StopIteration as end:
            if call.stopping is None:
                call.output = end.value
                return None
            return self.run(call, settled(end.value, None))
        except BaseException as error:
            return self.run(call, settled(None, error))
        return self.run(call, hold(steps, waiting, call, self._adopt))

    async def run(self, call: LiveCall, begun: Awaitable[Any] | None = None) -> None:
        """Attempt until an output counts (then it is `call.output`), or raise what ended the last attempt.

        `begun`: the rest of a first attempt that is under way.
        """
        tool = call.required_tool()
        lane = self._lanes[call.lane]
        if call.sink is None and getattr(tool, "wants_context", True):
            call.sink = CallSink(self.journal, call)
        try:
            if call.state is not State.RUNNING:  # the lane needs making ready, or a call is taken up again
                if call.lane == "process":
                    call.worker = await self._prepare(call)
                await self.begin(call)
            while call.stopping is None or begun is not None:
                try:
                    call.output = await (lane(call, tool) if begun is None else self._guarded(call, tool, begun))
                    return
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    begun = None
                    await self._again(call, tool.options, error)
            raise Stopped(call.stopping)
        finally:
            if call.worker is not None:  # stopped between getting ready and starting
                self.processes.release(call.worker)

    async def _again(self, call: LiveCall, options: Options, error: BaseException) -> None:
        """Back off and begin another attempt, or raise the error that ended the last one."""
        if call.retries_left <= 0 or call.abandoned:
            raise error
        if isinstance(error, Stopped):
            if error.reason not in _RETRYABLE_STOPS or not options.repeatable:
                raise error
            call.stopping = None
            reason = stop_error(call, error.reason)
        elif transient(error, options):
            reason = describe(error, retryable=True)
        else:
            raise error
        call.retries_left -= 1
        delay = backoff(options.max_retries - call.retries_left, options, error, self._chance)
        self.journal.advance(
            call, State.RETRYING, {"attempt": call.attempt, "error": to_builtins(reason), "delay": delay}
        )
        self.journal.commit(call)
        await self._wait(call, delay)
        await self.begin(call)

    async def begin(self, call: LiveCall) -> None:
        """Intent before effect: the attempt's start is durable before the tool's code runs."""
        self.journal.start(call, call.attempt + 1)
        await self.journal.flush(call)

    def stop(self, call: LiveCall, reason: str) -> None:
        """End what the call is doing now. The first reason counts."""
        if call.stopping is None and not call.settling:
            call.stopping = reason
            if call.stopper is not None:
                call.stopper()

    # One attempt, by lane.

    def _limits(self, call: LiveCall, tool: Tool) -> None:
        """Start the attempt's clocks."""
        timeout = call.request.timeout or tool.options.timeout
        if call.sink is not None:
            call.sink.begin(timeout)
        if timeout is not None:
            call.attempt_deadline = self.deadlines.add(call, timeout)
        if tool.options.idle_timeout is not None:
            call.idle_timer = _IdleTimer(self, call, tool.options.idle_timeout)

    def _attempt_over(self, call: LiveCall) -> None:
        """Stop the attempt's clocks."""
        call.stopper = None
        if call.attempt_deadline is not None:
            self.deadlines.drop(call, call.attempt_deadline)
            call.attempt_deadline = None
        if call.idle_timer is not None:
            call.idle_timer.cancel()
            call.idle_timer = None
        if call.grace_timer is not None:
            call.grace_timer.cancel()
            call.grace_timer = None

    async def _on_loop(self, call: LiveCall, tool: Tool) -> Any:
        ctx = context_for(call, call.sink) if call.sink is not None else None
        body = tool.run(call.bound, ctx)
        if not call.direct:
            return await self._guarded(call, tool, body)
        steps = body if type(body) is CoroutineType else body.__await__()
        try:
            waiting = steps.send(None)
        except StopIteration as end:
            return await self._guarded(call, tool, settled(end.value, None))
        return await self._guarded(call, tool, hold(steps, waiting, call, self._adopt))

    async def _guarded(self, call: LiveCall, tool: Tool, body: Awaitable[Any]) -> Any:
        """Await a body on the loop, with a deadline, ready to be stopped."""
        self._limits(call, tool)
        task = _task_of(call)
        before = task.cancelling()

        def stop() -> None:
            task.cancel()
            call.grace_timer = self.clock.call_later(self.grace, self._abandon, call)

        call.stopper = stop
        if call.stopping is not None:  # it was told to stop in its first step
            stop()
        try:
            output = await body
        except Stopped:  # the body was let go
            raise
        except asyncio.CancelledError:
            _uncancel(call, task, before)
            if call.stopping is None:
                raise RuntimeError("the tool raised CancelledError though nobody cancelled it") from None
            raise Stopped(call.stopping) from None
        except BaseException as error:
            if call.stopping is None:
                raise
            await _absorb_cancel(call, task, before)
            call.late = (None, error)
            raise Stopped(call.stopping) from error
        finally:
            self._attempt_over(call)
        if call.stopping is not None:
            await _absorb_cancel(call, task, before)
            call.late = (output, None)
            raise Stopped(call.stopping)
        return output

    def _adopt(self, call: LiveCall, body: Coroutine[Any, Any, Any]) -> None:
        """A body that would not stop goes on in a task of its own, so that its caller can go on, too."""
        call.detached = True

        async def rest() -> None:
            try:
                late = (await body, None)
            except asyncio.CancelledError:
                self._returned(call, None)
            except BaseException as error:
                self._returned(call, (None, error))
            else:
                self._returned(call, late)

        self._spawn(rest())

    async def _inline(self, call: LiveCall, tool: Tool) -> Any:
        """A sync body on the loop, by its author's wish: it cannot be stopped, so it has no deadline."""
        if call.sink is None:
            return tool.run(call.bound, None)
        call.sink.begin(None)
        return tool.run(call.bound, context_for(call, call.sink))

    async def _in_thread(self, call: LiveCall, tool: Tool) -> Any:
        self._limits(call, tool)
        body = getattr(tool, "run_sync", None) or tool.run
        if tool.is_async and body is tool.run:
            body = _run_async_body(body)
        ctx = context_for(call, ThreadSink(call.sink)) if call.sink is not None else None
        bound = call.bound
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()

        def done(value: Any, error: BaseException | None) -> None:
            if outcome.done():
                self._returned(call, (value, error))
            else:
                fulfil(outcome, value, error)

        def give_up() -> None:
            if not outcome.done():
                call.abandoned = True
                outcome.set_exception(Stopped(call.stopping or "cancel"))

        def stop() -> None:
            # A deadline is a deadline; a cancel gives the body a moment to see ctx.cancelled and return.
            if call.stopping in ("cancel", "shutdown"):
                call.grace_timer = self.clock.call_later(self.grace, give_up)
            else:
                give_up()

        call.stopper = stop
        self.workers.submit(lambda: context.run(body, bound, ctx), done)
        try:
            output = await outcome
        except Stopped:
            raise
        except BaseException as error:
            if call.stopping is None:
                raise
            call.late = (None, error)
            raise Stopped(call.stopping) from error
        finally:
            self._attempt_over(call)
        if call.stopping is not None:
            call.late = (output, None)
            raise Stopped(call.stopping)
        return output

    async def _in_process(self, call: LiveCall, tool: Tool) -> Any:
        worker: Worker = call.worker or await self._prepare(call)
        call.worker = None
        task = _task_of(call)
        call.stopper = task.cancel
        sink: CallSink = call.sink
        call.attempt_deadline = self.deadlines.add(call, _START_LIMIT)

        def started() -> None:
            if call.attempt_deadline is not None:
                self.deadlines.drop(call, call.attempt_deadline)
                call.attempt_deadline = None
            self._limits(call, tool)

        def message(kind: str, data: Any) -> None:
            _relay(sink, kind, data)

        context = {
            "call_id": call.id,
            "tool": call.tool_name,
            "thread": call.thread,
            "attempt": call.attempt,
            "idempotency_key": call.idempotency_key,
            "metadata": dict(call.request.metadata or {}),
            "time_left": call.request.timeout or tool.options.timeout,
        }
        try:
            reply = await worker.run(
                target_of(tool), encode(call.arguments), context=context, started=started, message=message
            )
        except asyncio.CancelledError:
            task.uncancel()
            call.stopper = None
            await worker.stop()
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            self._attempt_over(call)
            self.processes.release(worker)
        if call.stopping is not None:
            await _absorb_cancel(call, task, 0)
            call.late = (None if reply is None else decode(reply), None)
            raise Stopped(call.stopping)
        return STREAMED if reply is None else decode(reply)

    async def _prepare(self, call: LiveCall) -> Worker:
        """A worker of its own for the call. A call that is told to stop meanwhile stops here."""
        if call.stopping is not None:
            raise Stopped(call.stopping)
        task = _task_of(call)
        call.stopper = task.cancel
        try:
            return await self.processes.acquire()
        except asyncio.CancelledError:
            task.uncancel()
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            call.stopper = None

    async def _wait(self, call: LiveCall, delay: float) -> None:
        """Back off, unless somebody stops the call."""
        waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        timer = self.clock.call_later(delay, fulfil, waited)
        call.stopper = lambda: fulfil(waited)
        if call.stopping is not None:
            fulfil(waited)
        try:
            await waited
        finally:
            call.stopper = None
            timer.cancel()
        if call.stopping is not None:
            raise Stopped(call.stopping)


class _IdleTimer:
    """Ends the attempt when its sink was silent for too long; looks again only when it might be."""

    __slots__ = ("_call", "_limit", "_runner", "_since", "_timer")

    def __init__(self, runner: Runner, call: LiveCall, limit: float) -> None:
        self._runner, self._call, self._limit = runner, call, limit
        self._since = runner.clock.monotonic()
        self._timer = runner.clock.call_later(limit, self._look)

    def _look(self) -> None:
        active_at = self._since if self._call.sink is None else self._call.sink.active_at
        left = active_at + self._limit - self._runner.clock.monotonic()
        if left <= 0:
            self._runner.stop(self._call, "idle")
        else:
            self._timer = self._runner.clock.call_later(left, self._look)

    def cancel(self) -> None:
        self._timer.cancel()


def _task_of(call: LiveCall) -> asyncio.Task[None]:
    assert call.task is not None, "the engine drives a call in a task of its own"
    return call.task


async def _absorb_cancel(call: LiveCall, task: asyncio.Task[Any], before: int) -> None:
    """A body that swallowed its cancellation, or finished before it arrived, must not leave it to the stages after it."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    _uncancel(call, task, before)


def _uncancel(call: LiveCall, task: asyncio.Task[Any], before: int) -> None:
    """Take back the cancellation that stopping the call made. If another is left, it is the caller's own."""
    if call.stopping is not None:
        task.uncancel()
    if task.cancelling() > before:
        call.caller_left = True
        if call.stopping is None:
            call.stopping, call.cancel_reason = "cancel", "its caller was cancelled"


def _run_async_body(body: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An async body that its author sent to a thread gets a loop of its own there."""

    def run(bound: Any, ctx: Any) -> Any:
        async def main() -> Any:
            return await body(bound, ctx)

        return asyncio.run(main())

    return run


def _relay(sink: CallSink, kind: str, data: Any) -> None:
    if kind == "emit":
        sink.emit(data)
    elif kind == "progress":
        sink.progress(data["step"], data["total"], data["text"])
    elif kind == "heartbeat":
        sink.heartbeat()
    elif kind == "note":
        sink.note(data["text"], data["data"])
