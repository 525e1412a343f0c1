"""The processes' lane: bodies in child processes, which can always be ended, with all their children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.loop_lane import absorb_cancel, task_of
from clicket.engine.executors.processes import ProcessPool, ToolProcess, factories_for, target_of
from clicket.engine.executors.processes.file_outputs import output_in
from clicket.engine.executors.sink import CallSink, relay, sent_context
from clicket.engine.executors.stopping import Stopped, attempt_of, keep_late, set_stopper
from clicket.engine.live_call import Call
from clicket.model.codec import encode
from clicket.tools import STREAMED, Tool
from clicket.tools.deps import Factory

__all__ = ["ProcessLane"]

_START_LIMIT = 120.0
"""Seconds that a child may take to import a tool's module; the attempt's own time counts from the body's start."""


class ProcessLane:
    """`factories`: of the runtime's deps; the child calls those that the tool may read."""

    def __init__(
        self,
        pool: ProcessPool,
        clocks: Clocks,
        factories: Mapping[str, Factory],
        *,
        make_sink: Callable[[Call], CallSink],
    ) -> None:
        self._pool = pool
        self._clocks = clocks
        self._factories = factories
        self._make_sink = make_sink

    async def attempt(self, call: Call, tool: Tool) -> Any:
        attempt = attempt_of(call)
        child: ToolProcess = attempt.prepared or await self._acquire(call)
        attempt.prepared = None
        task = task_of(attempt)
        set_stopper(attempt, task.cancel)
        sink = self._make_sink(call)
        self._clocks.limit(call, _START_LIMIT)

        def started() -> None:
            sink.begin(call.request.timeout or tool.options.timeout)
            self._clocks.over(call)
            set_stopper(attempt, task.cancel)
            self._clocks.start(call, tool)

        def message(kind: str, data: Any) -> None:
            relay(sink, kind, data)

        context = sent_context(call, tool.options.timeout)
        try:
            reply = await child.run(
                target_of(tool),
                encode(call.arguments),
                context=context,
                started=started,
                message=message,
                deps=factories_for(tool, self._factories),
            )
        except asyncio.CancelledError:
            task.uncancel()
            set_stopper(attempt, None)
            await child.stop()
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            self._clocks.over(call)
            self._pool.release(child)
        if call.stopping is not None:
            await absorb_cancel(call, task, 0)
            keep_late(attempt, None if reply is None else output_in(reply), None)
            raise Stopped(call.stopping)
        return STREAMED if reply is None else output_in(reply)

    async def prepare(self, call: Call) -> None:
        """Make a tool process ready for the call. If the call is stopped meanwhile, it ends here."""
        attempt_of(call).prepared = await self._acquire(call)

    async def _acquire(self, call: Call) -> ToolProcess:
        if call.stopping is not None:
            raise Stopped(call.stopping)
        attempt = attempt_of(call)
        task = task_of(attempt)
        set_stopper(attempt, task.cancel)
        try:
            return await self._pool.acquire()
        except asyncio.CancelledError:
            task.uncancel()
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            set_stopper(attempt, None)

    def release(self, call: Call) -> None:
        """Release a tool process that was made ready and not used."""
        attempt = call.attempt
        if attempt is not None and attempt.prepared is not None:
            self._pool.release(attempt.prepared)
            attempt.prepared = None
