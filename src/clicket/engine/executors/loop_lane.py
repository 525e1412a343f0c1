"""The loop's lane: async bodies, in their caller's task or in their own; and sync ones with isolation="inline"."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any

from clicket.engine.executors.caller_task import cancel_wait, first_step_ended, rest_of, step_through
from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.sink import CallSink, context_for
from clicket.engine.executors.stopping import Stopped, attempt_of, cancel_with_caller, keep_late, set_stopper
from clicket.engine.live_call import Attempt, Call, Late
from clicket.tools import Tool

__all__ = ["LoopLane", "absorb_cancel", "inline", "task_of"]


class LoopLane:
    """`abandon` ends a call whose body does not stop in its grace; `on_returned` is called when such a body has returned, with
    its value or error, or None if it was cancelled in the end."""

    def __init__(
        self,
        clocks: Clocks,
        *,
        make_sink: Callable[[Call], CallSink],
        abandon: Callable[[Call], None],
        on_returned: Callable[[Call, Late | None], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._clocks = clocks
        self._make_sink = make_sink
        self._abandon = abandon
        self._on_returned = on_returned
        self._spawn = spawn

    def begin(self, call: Call, tool: Tool) -> Awaitable[Any] | None:
        """Take a body's first step in this task. None: it ended there, and `call.output` is set.

        Deadlines and stopping are needed only once the body waits, so they are set up then.
        """
        ctx = None
        if tool.traits.wants_context:
            sink = self._make_sink(call)
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
            return first_step_ended(end.value, None)
        except BaseException as error:
            return first_step_ended(None, error)
        return step_through(steps, waiting, call, self._adopt) if call.in_callers_task else rest_of(steps, waiting)

    async def attempt(self, call: Call, tool: Tool) -> Any:
        if call.in_callers_task:
            begun = self.begin(call, tool)
            return call.output if begun is None else await self.guarded(call, tool, begun)
        ctx = None
        sink = attempt_of(call).sink
        if sink is not None:
            sink.begin(call.request.timeout or tool.options.timeout)
            ctx = context_for(call, sink)
        return await self.guarded(call, tool, tool.run(call.bound, ctx))

    async def guarded(self, call: Call, tool: Tool, body: Awaitable[Any]) -> Any:
        """Await a body on the loop, with a deadline, ready to be stopped."""
        attempt = attempt_of(call)
        self._clocks.start(call, tool)
        task = task_of(attempt)
        before = attempt.cancels = task.cancelling()

        def stop() -> None:
            if not call.in_callers_task:
                task.cancel()
            else:
                cancel_wait(attempt)
            self._clocks.start_grace(call, self._abandon, call)

        set_stopper(attempt, stop)
        if call.stopping is not None:  # the call was stopped in the body's first step
            stop()
        try:
            output = await body
        except Stopped:  # the body was detached
            _uncancel(call, task, before)
            raise
        except asyncio.CancelledError:
            _uncancel(call, task, before)
            if call.stopping is None:
                raise RuntimeError("the tool raised CancelledError, but its call was not cancelled") from None
            raise Stopped(call.stopping) from None
        except BaseException as error:
            if call.stopping is None:
                raise
            await absorb_cancel(call, task, before)
            keep_late(attempt, None, error)
            raise Stopped(call.stopping) from error
        finally:
            self._clocks.over(call)
        if call.stopping is not None:
            await absorb_cancel(call, task, before)
            keep_late(attempt, output, None)
            raise Stopped(call.stopping)
        return output

    def _adopt(self, call: Call, body: Coroutine[Any, Any, Any]) -> None:
        """Move a body that does not stop to a task of its own, so that its caller can go on."""
        attempt_of(call).detached = True

        async def rest() -> None:
            try:
                late = (await body, None)
            except asyncio.CancelledError:
                self._on_returned(call, None)
            except BaseException as error:
                self._on_returned(call, (None, error))
            else:
                self._on_returned(call, late)

        self._spawn(rest())


async def inline(call: Call, tool: Tool) -> Any:
    """Run a sync body on the loop (isolation="inline"). It cannot be stopped, so it has no deadline."""
    sink = attempt_of(call).sink
    if sink is None:
        return tool.run(call.bound, None)
    sink.begin(None)
    return tool.run(call.bound, context_for(call, sink))


def task_of(attempt: Attempt) -> asyncio.Task[Any]:
    assert attempt.task is not None, "the runner sets it before a lane runs"
    return attempt.task


async def absorb_cancel(call: Call, task: asyncio.Task[Any], before: int) -> None:
    """Clear the cancellation of a body that swallowed it, or ended before it arrived: it must not reach later stages."""
    if not call.in_callers_task:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    _uncancel(call, task, before)


def _uncancel(call: Call, task: asyncio.Task[Any], before: int) -> None:
    """Undo the cancellation that stopping the call made. One that remains is the caller's."""
    if call.stopping is not None and not call.in_callers_task:
        task.uncancel()
    if task.cancelling() > before:
        cancel_with_caller(call)
