"""Runs attempts, each in its lane, until one counts.

Timeouts and cancels stop work. What cannot be stopped in time is abandoned, and says so; its slot stays taken until the
body has really returned.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import to_builtins

from clicket.bridge import Workers, fulfil
from clicket.execution.clocks import Clocks
from clicket.execution.loop_lane import Late, LoopLane, inline
from clicket.execution.outcome import Stopped, stop_error
from clicket.execution.process_lane import ProcessLane
from clicket.execution.processes import ProcessPool
from clicket.execution.retry import backoff, describe, transient
from clicket.execution.sink import CallSink
from clicket.execution.thread_lane import ThreadLane
from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.tools import Options, Tool
from clicket.vault import hide_error

__all__ = ["STOPPABLE", "Runner", "lane_of"]

STOPPABLE = (None, "attempt", "idle")
"""Reasons that a stronger one (a cancel, the call's deadline, closing) may still take the place of."""


def lane_of(tool: Tool, *, prefer_sync: bool = False) -> str:
    """Where a tool's body runs. Nothing sync runs on the loop unless its author wrote isolation="inline"."""
    isolation = tool.options.isolation
    if isolation != "auto":
        return "loop" if isolation == "inline" and tool.is_async else isolation
    if prefer_sync and tool.run_sync is not None:
        return "thread"
    return "loop" if tool.is_async else "thread"


class Runner:
    """`abandon` ends a call whose body does not stop in its grace; `returned` hears when such a body has come back."""

    def __init__(
        self,
        journal: Journal,
        workers: Workers,
        processes: ProcessPool,
        *,
        chance: random.Random,
        grace: float,
        abandon: Callable[[LiveCall], None],
        returned: Callable[[LiveCall, Late], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.journal = journal
        self.clock = journal.clock
        self.clocks = Clocks(journal.clock, self.stop, grace=grace)
        self._chance = chance
        self._loop = LoopLane(journal, self.clocks, abandon=abandon, returned=returned, spawn=spawn)
        self._processes = ProcessLane(journal, processes, self.clocks)
        self._lanes: dict[str, Callable[[LiveCall, Tool], Awaitable[Any]]] = {
            "loop": self._loop.attempt,
            "inline": inline,
            "thread": ThreadLane(workers, self.clocks, returned=returned).attempt,
            "process": self._processes.attempt,
        }

    def start(self, call: LiveCall) -> Awaitable[None] | None:
        """Run a call. None: an async body ended in its first step, in its caller's task, and its output is there."""
        if not call.direct or call.state is not State.RUNNING or call.stopping is not None:
            return self.run(call)
        begun = self._loop.begin(call, call.required_tool())
        return None if begun is None else self.run(call, begun)

    async def run(self, call: LiveCall, begun: Awaitable[Any] | None = None) -> None:
        """Attempt until an output counts (then it is `call.output`), or raise what ended the last attempt.

        `begun`: the rest of a first attempt that is under way.
        """
        tool = call.required_tool()
        lane = self._lanes[call.lane]
        if call.sink is None and tool.traits.wants_context:
            call.sink = CallSink(self.journal, call)
        try:
            if (
                begun is None and call.state is not State.RUNNING
            ):  # the lane needs making ready, or a call is taken up again
                if call.lane == "process":
                    call.worker = await self._processes.prepare(call)
                await self.begin(call)
            while call.stopping is None or begun is not None:
                try:
                    call.output = await (lane(call, tool) if begun is None else self._loop.guarded(call, tool, begun))
                    return
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    begun = None
                    await self._again(call, tool.options, error)
            raise Stopped(call.stopping)
        finally:
            self._processes.release(call)

    async def _again(self, call: LiveCall, options: Options, error: BaseException) -> None:
        """Back off and begin another attempt, or raise the error that ended the last one."""
        if call.retries_left <= 0 or call.abandoned or call.caller_left:
            raise error
        if isinstance(error, Stopped):
            if call.stopping not in STOPPABLE:  # told to stop for good while the attempt wound down
                raise Stopped(call.stopping or error.reason)
            if not options.repeatable:
                raise error
            call.stopping = None
            reason = stop_error(call, error.reason)
        elif transient(error, options):
            reason = describe(error, retryable=True)
        else:
            raise error
        call.retries_left -= 1
        if call.sink is not None:
            call.sink.flush()
        delay = backoff(options.max_retries - call.retries_left, options, error, self._chance)
        self.journal.advance(
            call,
            State.RETRYING,
            {"attempt": call.attempt, "error": to_builtins(hide_error(reason, call.secrets)), "delay": delay},
        )
        self.journal.commit(call)
        await self._wait(call, delay)
        await self.begin(call)

    async def begin(self, call: LiveCall) -> None:
        """Intent before effect: the attempt's start is durable before the tool's code runs."""
        self.journal.start(call, call.attempt + 1)
        await self.journal.flush(call)

    def stop(self, call: LiveCall, reason: str) -> None:
        """End what the call is doing now. The first reason counts, unless it ends the attempt only and this one the call."""
        if call.settling:
            return
        if call.stopping is None:
            call.stopping = reason
            if call.stopper is not None:
                call.stopper()
        elif call.stopping in STOPPABLE and reason not in STOPPABLE:
            call.stopping = reason  # the body has been told already; only why is new

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
