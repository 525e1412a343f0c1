"""Signs of life of a running tool become events. Nothing here grows with a slow reader or a chatty tool.

A call journals at most 1,000 output events, and at most 1 MiB of output; what comes later goes to the artifact alone, announced
by one `note` with its byte offset. Progress and heartbeats that come faster than they are stored are merged.

Secrets are hidden on the way. A text's end that may be the beginning of one is held back until the next text, or the end of
the attempt: no part of a secret that is split over texts gets into the journal or the artifact.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from clicket.bridge import on_loop, on_loop_thread
from clicket.execution.artifacts import keep, read
from clicket.execution.checkpoints import Checkpoints
from clicket.execution.spool import Spool
from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.model.codec import clean, decode
from clicket.model.output import encode_output
from clicket.tools import ToolContext
from clicket.vault import Window, has_token, hide, hide_text

__all__ = ["CallSink", "ThreadSink", "context_for", "progress_data"]

MAX_OUTPUT_EVENTS = 1_000
MAX_OUTPUT_BYTES = 1024 * 1024
MAX_REPORTS = 1_000
_REPORT_EVERY = 1.0
_BACKLOG = 64


class CallSink:
    """For bodies on the loop. One per call; attempts share it, and a new attempt starts its output anew."""

    __slots__ = (
        "_call", "_checkpoints", "_journal", "_last_report", "_window",
        "active_at", "announced", "attempt_at", "deadline_at", "spool",
    )  # fmt: skip

    def __init__(self, journal: Journal, call: LiveCall) -> None:
        self._journal = journal
        self._call = call
        self._last_report = 0.0
        self._window: Window | None = None
        self._checkpoints: Checkpoints | None = None
        self.spool: Spool | None = None
        self.announced = False
        self.active_at = self.attempt_at = journal.clock.monotonic()
        self.deadline_at: float | None = None

    def begin(self, timeout: float | None) -> None:
        """A new attempt: its clock starts, its output is empty."""
        self.active_at = self.attempt_at = self._journal.clock.monotonic()
        self.deadline_at = None if timeout is None else self.attempt_at + timeout
        self._window = None
        if self.spool is not None:
            self.spool.close()
            self.spool = None

    @property
    def cancelled(self) -> bool:
        return self._call.stopping is not None

    @property
    def time_left(self) -> float | None:
        return None if self.deadline_at is None else self.deadline_at - self._journal.clock.monotonic()

    def _silent(self) -> bool:
        """After the call was told to stop or has ended, the tool's words change nothing any more."""
        return self._call.settling or self._call.stopping is not None

    def emit(self, chunk: Any) -> None:
        if type(chunk) is not str:
            chunk = decode(encode_output(chunk))
        elif not chunk.isascii():
            encode_output(chunk)  # refuses text that is not UTF-8
        if self._silent():
            return
        self.active_at = self._journal.clock.monotonic()
        if type(chunk) is str:
            if self._window is None:
                self._window = Window(self._call.secrets)
            shown = self._window.push(chunk)
            if shown or not chunk:
                self._publish(shown)
            return
        self.flush()
        if self._call.secrets is not None or has_token(chunk):
            chunk = hide(chunk, self._call.secrets)
        self._publish(chunk)

    def flush(self) -> None:
        """Nothing more comes that could tell what was held back: it is shown, as far as it may be."""
        if self._window is not None and not self._call.settling:
            rest = self._window.flush()
            if rest:
                self._publish(rest)

    def _publish(self, chunk: Any) -> None:
        call = self._call
        if self.spool is None:
            self.spool = Spool(MAX_OUTPUT_BYTES)
        offset = self.spool.add(chunk)
        if call.state is State.RUNNING:
            self._journal.advance(call, State.STREAMING)
        if call.outputs < MAX_OUTPUT_EVENTS and self.spool.size <= MAX_OUTPUT_BYTES and not self.announced:
            call.outputs += 1
            self._journal.record(call, "output", {"content": chunk, "offset": offset})
        elif not self.announced:
            self.announced = True
            text = "Further output is not in the journal; it goes to the artifact that the outcome names."
            self._journal.record(call, "note", {"text": text, "offset": offset, "reason": "output_limit"})
        else:
            return
        self._journal.commit(call)

    def progress(self, step: float, total: float | None, text: str) -> None:
        call = self._call
        if self._silent():
            return
        now = self.active_at = self._journal.clock.monotonic()
        call.progress = progress_data(step, total, hide_text(clean(text), call.secrets), now - self.attempt_at)
        self._report("progress", call.progress, now)

    def heartbeat(self) -> None:
        if not self._silent():
            now = self.active_at = self._journal.clock.monotonic()
            self._report("heartbeat", {}, now)

    def _report(self, kind: Any, data: dict[str, Any], now: float) -> None:
        call = self._call
        staged = call.staged
        if staged and staged[-1].type == kind:  # not written yet: the newer one takes its place
            staged.pop()
            call.seq -= 1
        elif call.reported >= MAX_REPORTS and now - self._last_report < _REPORT_EVERY:
            return
        else:
            call.reported += 1
        self._last_report = now
        if kind == "progress":
            call.progress_kept = data
        self._journal.record(call, kind, data)
        self._journal.commit(call)

    def note(self, text: str, data: Mapping[str, Any]) -> None:
        call = self._call
        if not self._silent() and call.reported < MAX_REPORTS:
            call.reported += 1
            told = hide(decode(encode_output(dict(data))), call.secrets)
            self._journal.record(call, "note", {**told, "text": hide_text(clean(text), call.secrets)})
            self._journal.commit(call)

    async def drain(self) -> None:
        call = self._call
        if call.inflight is not None or call.staged:
            await self._journal.flush(call)
        else:
            await asyncio.sleep(0)  # a generator that never waits must still let others run

    async def put_artifact(self, data: bytes | Sequence[bytes]) -> str:
        self.active_at = self._journal.clock.monotonic()
        return await keep(self._journal, self._call, data)

    async def artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await read(self._journal, self._call, name, start, end)

    async def checkpoint(self, key: str, data: bytes) -> None:
        self.active_at = self._journal.clock.monotonic()
        await self._kept().keep(key, data)
        self.active_at = self._journal.clock.monotonic()  # a store that was slow is not a tool that was

    async def checkpoints(self) -> dict[str, bytes]:
        self.active_at = self._journal.clock.monotonic()
        return await self._kept().load()

    def _kept(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._journal, self._call)
        return self._checkpoints


class ThreadSink:
    """For bodies in worker threads: hands everything to the loop, and waits when the loop lags behind."""

    __slots__ = ("_loop", "_room", "_sink")

    def __init__(self, sink: CallSink) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._room = threading.BoundedSemaphore(_BACKLOG)

    @property
    def cancelled(self) -> bool:
        return self._sink.cancelled

    @property
    def time_left(self) -> float | None:
        return self._sink.time_left

    def _hand_over(self, method: Any, *args: Any) -> None:
        if on_loop_thread(self._loop):
            method(*args)
            return
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._take, method, args)
        except RuntimeError:  # the loop is gone; so is everyone who could listen
            self._room.release()

    def _take(self, method: Any, args: tuple[Any, ...]) -> None:
        try:
            method(*args)
        finally:
            self._room.release()

    def emit(self, chunk: Any) -> None:
        self._hand_over(self._sink.emit, decode(encode_output(chunk)))

    def progress(self, step: float, total: float | None, text: str) -> None:
        self._hand_over(self._sink.progress, step, total, text)

    def heartbeat(self) -> None:
        self._hand_over(self._sink.heartbeat)

    def note(self, text: str, data: Mapping[str, Any]) -> None:
        self._hand_over(self._sink.note, text, decode(encode_output(dict(data))))

    async def drain(self) -> None:
        """For async bodies that run in a thread, on a loop of their own."""
        await on_loop(self._loop, self._sink.drain)

    async def put_artifact(self, data: bytes | Sequence[bytes]) -> str:
        return await on_loop(self._loop, lambda: self._sink.put_artifact(data))

    async def artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await on_loop(self._loop, lambda: self._sink.artifact(name, start, end))

    async def checkpoint(self, key: str, data: bytes) -> None:
        await on_loop(self._loop, lambda: self._sink.checkpoint(key, data))

    async def checkpoints(self) -> dict[str, bytes]:
        return await on_loop(self._loop, self._sink.checkpoints)


def progress_data(step: float, total: float | None, text: str, elapsed: float) -> dict[str, Any]:
    """What a progress event says; the estimate assumes that the rest goes as fast as what is done."""
    percentage = left = None
    if total is not None and total > 0:
        done = min(max(step / total, 0.0), 1.0)
        percentage = round(done * 100, 2)
        left = round(elapsed / done * (1 - done), 3) if done > 0 else None
    return {
        "step": step,
        "total_steps": total,
        "percentage": percentage,
        "status": text[:2_000],
        "estimated_time_remaining": left,
    }


def context_for(call: LiveCall, sink: Any) -> ToolContext:
    """The context of one attempt."""
    return ToolContext(
        sink,
        call_id=call.id,
        tool=call.tool_name,
        thread=call.thread,
        attempt=call.attempt,
        idempotency_key=call.idempotency_key,
        metadata=call.request.metadata or {},
        caller=call.caller,
    )
