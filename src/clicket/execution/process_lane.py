"""The processes' lane: bodies in child processes, which can always be ended, with all their children."""

from __future__ import annotations

import asyncio
from typing import Any

from clicket.execution.clocks import Clocks
from clicket.execution.loop_lane import absorb_cancel, task_of
from clicket.execution.outcome import Stopped
from clicket.execution.processes import ProcessPool, Worker, target_of
from clicket.execution.sink import CallSink
from clicket.journal import Journal, LiveCall
from clicket.model.codec import decode, encode
from clicket.tools import STREAMED, Tool

__all__ = ["ProcessLane"]

_START_LIMIT = 120.0
"""Seconds that a child may take to import a tool's module; the attempt's own time counts from the body's start."""


class ProcessLane:
    def __init__(self, journal: Journal, pool: ProcessPool, clocks: Clocks) -> None:
        self._journal = journal
        self._pool = pool
        self._clocks = clocks

    async def attempt(self, call: LiveCall, tool: Tool) -> Any:
        worker: Worker = call.worker or await self.prepare(call)
        call.worker = None
        task = task_of(call)
        call.stopper = task.cancel
        sink: CallSink = call.sink or CallSink(self._journal, call)
        call.sink = sink
        self._clocks.limit(call, _START_LIMIT)

        def started() -> None:
            sink.begin(call.request.timeout or tool.options.timeout)
            self._clocks.over(call)
            call.stopper = task.cancel
            self._clocks.start(call, tool)

        def message(kind: str, data: Any) -> None:
            _relay(sink, kind, data)

        context = {
            "call_id": call.id,
            "tool": call.tool_name,
            "thread": call.thread,
            "caller": call.caller,
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
            self._clocks.over(call)
            self._pool.release(worker)
        if call.stopping is not None:
            await absorb_cancel(call, task, 0)
            call.late = (None if reply is None else decode(reply), None)
            raise Stopped(call.stopping)
        return STREAMED if reply is None else decode(reply)

    async def prepare(self, call: LiveCall) -> Worker:
        """A worker of its own for the call. A call that is told to stop meanwhile stops here."""
        if call.stopping is not None:
            raise Stopped(call.stopping)
        task = task_of(call)
        call.stopper = task.cancel
        try:
            return await self._pool.acquire()
        except asyncio.CancelledError:
            task.uncancel()
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            call.stopper = None

    def release(self, call: LiveCall) -> None:
        """Give back a worker that was made ready and never used."""
        if call.worker is not None:
            self._pool.release(call.worker)
            call.worker = None


def _relay(sink: CallSink, kind: str, data: Any) -> None:
    if kind == "emit":
        sink.emit(data)
    elif kind == "progress":
        sink.progress(data["step"], data["total"], data["text"])
    elif kind == "heartbeat":
        sink.heartbeat()
    elif kind == "note":
        sink.note(data["text"], data["data"])
