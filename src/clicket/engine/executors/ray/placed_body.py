"""One body on the Ray cluster, as the event loop sees it: placed, then run, then ended for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from clicket.engine.executors.processes.file_outputs import FilesOutput
from clicket.engine.executors.processes.handle import MESSAGES, Message, ToolFailed
from clicket.engine.executors.processes.wire import Failure, Frames, Kind
from clicket.engine.executors.ray.attempts import BROKEN, CANCELLED, END, FRAMES, Attempts, Item
from clicket.engine.executors.ray.cluster import Cluster, RayUnavailable
from clicket.errors import ClicketError, InvalidInput, ResultUnserializable
from clicket.model.codec import decode
from clicket.system.bridge import ThreadPool

__all__ = ["BodyLost", "PlacedBody"]

T = TypeVar("T")
_LOOK_EVERY = 0.5
"""Seconds of one wait for a place. A thread that waits can be left only between two of them."""
_STOP_LIMIT = 15.0
"""Seconds that Ray gets to confirm the end of a body."""
_failures = msgspec.json.Decoder(Failure)


class BodyLost(ClicketError):
    """The Ray worker or its node was lost under a body. `retryable`: the tool may run again."""

    code = "outcome_unknown"
    blames_tool = False
    type = "OutcomeUnknown"

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class PlacedBody:
    """Made without any effect; `place` asks for resources, `run` lets the body go, `stop` ends it."""

    def __init__(self, cluster: Cluster, threads: ThreadPool, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self._threads = threads
        self._attempts: Attempts | None = None
        self._submitting: asyncio.Task[None] | None = None
        self._over = False
        self.answered = False
        """The body sent its answer; nothing was read after it."""
        self._reading: asyncio.Task[Item] | None = None

    async def place(self, label: str, job: bytes, options: dict[str, Any]) -> None:
        """Return when the body has its resources and waits for `run`."""
        attempts = self._attempts = self._cluster.attempts
        submitted = self._call(lambda: attempts.submit(self.name, label, job, options))
        self._submitting = asyncio.ensure_future(submitted)
        await asyncio.shield(self._submitting)
        while not await self._call(lambda: attempts.is_placed(self.name, _LOOK_EVERY)):
            pass

    async def run(
        self,
        *,
        started: Callable[[], None],
        message: Message,
        caught_up: Callable[[], Awaitable[None]],
        repeatable: bool,
    ) -> bytes | FilesOutput | None:
        """The body's output as JSON or with its files, or None if all of it was emitted.

        `started()` is called when the body is about to run, its module imported; `message` as for a child process. The next
        messages are read when `caught_up` has returned.
        """
        kind, data = await self._read()
        if kind == BROKEN:
            raise RayUnavailable(
                f"the Ray worker could not run the body ({_shown(kind, data)}). Install the same versions of clicket and of the "
                "tool's module on every node."
            )
        if kind != FRAMES:
            raise RayUnavailable(
                f"the place on the Ray cluster was lost before the body began ({_shown(kind, data)}).", retryable=True
            )
        frames = Frames()
        while True:
            kind, data = await self._read()
            if kind != FRAMES:
                raise _lost(kind, data, repeatable=repeatable)
            for frame, pieces in frames.feed(data):
                payload = b"".join(pieces)
                if frame is Kind.STARTED:
                    started()
                elif frame in MESSAGES:
                    message(MESSAGES[frame], decode(payload) if payload else None)
                else:
                    self._over = self.answered = True  # the worker ends the stream by itself
                    return _answer(frame, payload)
            await caught_up()

    async def stop(self) -> bool:
        """End the body. True: Ray has confirmed that it does not run; False: it has not, within some seconds."""
        attempts = self._attempts
        if attempts is None or self._submitting is None or self._over:
            return True
        try:
            async with asyncio.timeout(_STOP_LIMIT):
                await asyncio.wait({self._submitting})  # a request that is not there yet cannot be taken back
                await self._call(lambda: attempts.cancel(self.name))
                await self.ended()
        except TimeoutError:
            return False
        return True

    async def ended(self) -> None:
        """Wait until the stream of a stopped body is over."""
        while not self._over:
            await self._read()

    async def forget(self) -> None:
        attempts = self._attempts
        if attempts is not None:
            await self._call(lambda: attempts.forget(self.name))

    async def _read(self) -> Item:
        """The next item. One that was asked for before a cancel is taken first: each is read once."""
        if self._reading is None:
            attempts = self._attempts
            assert attempts is not None, "it was placed"
            self._reading = asyncio.ensure_future(self._threads.run(lambda: attempts.read(self.name)))
        item = await asyncio.shield(self._reading)
        self._reading = None
        self._over = item[0] != FRAMES
        return item

    async def _call(self, function: Callable[[], T]) -> T:
        try:
            return await self._threads.run(function)
        except ClicketError:
            raise
        except Exception as error:  # the body has not begun, or is being ended: another attempt repeats nothing
            raise RayUnavailable(
                f"the Ray cluster did not answer ({type(error).__name__}: {error})", retryable=True
            ) from error


def _lost(kind: str, data: bytes, *, repeatable: bool) -> BodyLost:
    advice = "The tool may run again." if repeatable else "It may have had its effect: check, then submit a new call."
    return BodyLost(f"the body was lost on the Ray cluster ({_shown(kind, data)}). {advice}", retryable=repeatable)


def _shown(kind: str, data: bytes) -> str:
    known = {CANCELLED: "its task was cancelled in Ray", END: "its stream ended without an answer"}
    return known.get(kind) or data.decode("utf-8", "replace")


def _answer(kind: Kind, payload: bytes) -> bytes | FilesOutput | None:
    if kind is Kind.STREAMED:
        return None
    if kind is Kind.FILES:
        return FilesOutput(payload)
    if kind is Kind.OUTPUT:
        return payload
    failure = _failures.decode(payload)
    if failure.code == "invalid_input":
        raise InvalidInput(failure.problems or failure.message)
    if failure.code == "result_unserializable":
        raise ResultUnserializable(failure.message)
    raise ToolFailed(failure)
