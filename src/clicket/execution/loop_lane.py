"""The loop's lane: async bodies, in their caller's task or in one of their own; and sync ones whose author wants them here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any

from clicket.execution.clocks import Clocks
from clicket.execution.hold import hold, settled
from clicket.execution.outcome import Stopped
from clicket.execution.sink import CallSink, context_for
from clicket.journal import Journal, LiveCall
from clicket.tools import Tool

__all__ = ["Late", "LoopLane", "absorb_cancel", "inline", "task_of"]

Late = tuple[Any, BaseException | None] | None
"""What an abandoned body brought when it came back: a value or an error; None if it was cancelled at last."""


class LoopLane:
    """`abandon` ends a call whose body does not stop in its grace; `returned` hears when such a body has come back."""

    def __init__(
        self,
        journal: Journal,
        clocks: Clocks,
        *,
        abandon: Callable[[LiveCall], None],
        returned: Callable[[LiveCall, Late], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._journal = journal
        self._clocks = clocks
        self._abandon = abandon
        self._returned = returned
        self._spawn = spawn

    def begin(self, call: LiveCall, tool: Tool) -> Awaitable[Any] | None:
        """Take a body's first step in its caller's task. None: it ended there, and `call.output` is set.

        All that guards an attempt (deadlines, stopping) is only needed once the body waits, so that is when it is set up.
        """
        ctx = None
        if tool.traits.wants_context:
            sink = call.sink = call.sink or CallSink(self._journal, call)
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
            return settled(end.value, None)
        except BaseException as error:
            return settled(None, error)
        return hold(steps, waiting, call, self._adopt)

    async def attempt(self, call: LiveCall, tool: Tool) -> Any:
        if call.direct:
            begun = self.begin(call, tool)
            return call.output if begun is None else await self.guarded(call, tool, begun)
        if call.sink is not None:
            call.sink.begin(call.request.timeout or tool.options.timeout)
        ctx = context_for(call, call.sink) if call.sink is not None else None
        return await self.guarded(call, tool, tool.run(call.bound, ctx))

    async def guarded(self, call: LiveCall, tool: Tool, body: Awaitable[Any]) -> Any:
        """Await a body on the loop, with a deadline, ready to be stopped."""
        self._clocks.start(call, tool)
        task = task_of(call)
        before = call.cancels = task.cancelling()

        def stop() -> None:
            if not call.direct:
                task.cancel()
            elif call.held is None or not call.held.cancel():
                call.must_stop = True  # it waits for nothing that can be cancelled: it hears of it at its next step
            self._clocks.grant(call, self._abandon, call)

        call.stopper = stop
        if call.stopping is not None:  # it was told to stop in its first step
            stop()
        try:
            output = await body
        except Stopped:  # the body was let go
            _uncancel(call, task, before)
            raise
        except asyncio.CancelledError:
            _uncancel(call, task, before)
            if call.stopping is None:
                raise RuntimeError("the tool raised CancelledError though nobody cancelled it") from None
            raise Stopped(call.stopping) from None
        except BaseException as error:
            if call.stopping is None:
                raise
            await absorb_cancel(call, task, before)
            call.late = (None, error)
            raise Stopped(call.stopping) from error
        finally:
            self._clocks.over(call)
        if call.stopping is not None:
            await absorb_cancel(call, task, before)
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


async def inline(call: LiveCall, tool: Tool) -> Any:
    """A sync body on the loop, by its author's wish: it cannot be stopped, so it has no deadline."""
    if call.sink is None:
        return tool.run(call.bound, None)
    call.sink.begin(None)
    return tool.run(call.bound, context_for(call, call.sink))


def task_of(call: LiveCall) -> asyncio.Task[None]:
    assert call.task is not None, "the engine drives a call in a task of its own"
    return call.task


async def absorb_cancel(call: LiveCall, task: asyncio.Task[Any], before: int) -> None:
    """A body that swallowed its cancellation, or finished before it arrived, must not leave it to the stages after it."""
    if not call.direct:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    _uncancel(call, task, before)


def _uncancel(call: LiveCall, task: asyncio.Task[Any], before: int) -> None:
    """Take back the cancellation that stopping the call made. If another is left, it is the caller's own."""
    if call.stopping is not None and not call.direct:
        task.uncancel()
    if task.cancelling() > before:
        call.caller_left = True
        if call.stopping is None:
            call.stopping, call.cancel_reason = "cancel", "its caller was cancelled"
