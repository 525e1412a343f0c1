"""The sink of a body in a worker thread: what it reports goes to the event loop, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from clicket.engine.executors.sink import CallSink
from clicket.model.codec import decode
from clicket.model.output import encode_output
from clicket.system.bridge import block_on, on_loop, on_loop_thread

__all__ = ["ThreadSink"]

_BACKLOG = 64


class ThreadSink:
    """For bodies in worker threads: passes everything to the loop, and waits when the loop lags behind."""

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

    def _call_on_loop(self, method: Any, *args: Any) -> None:
        if on_loop_thread(self._loop):
            method(*args)
            return
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._take, method, args)
        except RuntimeError:  # the loop is closed, and so are all readers
            self._room.release()

    def _take(self, method: Any, args: tuple[Any, ...]) -> None:
        try:
            method(*args)
        finally:
            self._room.release()

    def emit(self, chunk: Any) -> None:
        self._call_on_loop(self._sink.emit, decode(encode_output(chunk)))

    def progress(self, step: float, total: float | None, text: str) -> None:
        self._call_on_loop(self._sink.progress, step, total, text)

    def heartbeat(self) -> None:
        self._call_on_loop(self._sink.heartbeat)

    def note(self, text: str, data: Mapping[str, Any]) -> None:
        self._call_on_loop(self._sink.note, text, decode(encode_output(dict(data))))

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

    async def renew_credential(self, provider: str, used: str, refused: bool) -> str:
        return await on_loop(self._loop, lambda: self._sink.renew_credential(provider, used, refused))

    def read_call(self, id: str) -> Any:
        return block_on(self._loop, lambda: self._sink.read_call(id))

    def pending(self, token_for: str) -> str:
        """Returns when the token works."""
        if on_loop_thread(self._loop):
            return self._sink.pending(token_for)
        return block_on(self._loop, lambda: self._pending(token_for))

    async def _pending(self, token_for: str) -> str:
        token = self._sink.pending(token_for)
        await self._sink.drain()
        return token
