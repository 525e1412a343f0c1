"""One block under watch: what it wrote and showed, how much of that nobody has taken yet, and how it ended. The end comes last,
once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec

from clicket.errors import UsageError
from clicket.interpreter.result import ProgramError, Variable
from clicket.interpreter.session.capture import Capture, Captured
from clicket.interpreter.session.exit_reason import StopReason
from clicket.interpreter.session.protocol import DoneFrame, ErrorFrame, VariableFrame

__all__ = ["BlockEnd", "BlockItem", "BlockRun", "DisplayItem", "OutputItem", "Stream", "block_end_of"]

Stream = Literal["stdout", "stderr"]

_MAX_AHEAD = 4 * 1024 * 1024
"""Roughly the bytes that wait for somebody to take them before the program has to wait itself."""
_WEIGHT = 64
"""Bytes that a piece of text takes beside its characters."""
_SHOWN_WEIGHT = 1024
"""The same for what is shown, and what it costs to read it: many small things are no way round the limits."""


class OutputItem(msgspec.Struct, frozen=True, kw_only=True):
    """Text as it came. The pieces of a stream, joined, are what it wrote."""

    stream: Stream
    text: str


class DisplayItem(msgspec.Struct, frozen=True, kw_only=True):
    """One form of something to look at; forms of the same thing have the same group."""

    mime: str
    data: str
    group: int = 0


class BlockEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a block ended. `detail` is what the host knows of a kill or a crash, as a sentence for people."""

    status: Literal["ok", "error", "exit", "interrupted", "killed", "crashed"]
    reason: str | None = None
    detail: str = ""
    value: str | None = None
    error: ProgramError | None = None
    exit_code: int | None = None
    variables: tuple[Variable, ...] = ()
    names: frozenset[str] = frozenset()
    threads: int = 0
    duration: float = 0.0
    stdout: Captured = Captured()
    stderr: Captured = Captured()


BlockItem = OutputItem | DisplayItem | BlockEnd


class _Text:
    """Pieces of one stream that came one after the other, joined when they are taken."""

    __slots__ = ("pieces", "stream", "weight")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pieces: list[str] = []
        self.weight = 0


class BlockRun:
    """Filled by the session, emptied by whoever watches."""

    __slots__ = (
        "_items",
        "_made_room",
        "_over",
        "_taker",
        "ahead",
        "began_at",
        "ended",
        "shown",
        "stderr",
        "stdout",
        "stopping",
    )

    def __init__(
        self,
        *,
        kept: int,
        max_spooled: int,
        made_room: Callable[[], None],
    ) -> None:
        self.stdout: Capture = Capture(kept=kept, max_spooled=max_spooled)
        self.stderr: Capture = Capture(kept=kept, max_spooled=max_spooled)
        self.stopping: StopReason | None = None
        self.ended: BlockEnd | None = None
        self.ahead: int = 0
        self.shown: int = 0
        self.began_at: float = time.monotonic()
        self._items: deque[_Text | DisplayItem | BlockEnd] = deque()
        self._made_room = made_room
        self._taker: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None

    @property
    def full(self) -> bool:
        return self.ahead > _MAX_AHEAD

    @property
    def written(self) -> int:
        return self.stdout.size + self.stderr.size

    @property
    def age(self) -> float:
        return time.monotonic() - self.began_at

    def began(self) -> None:
        """What was before was no part of it."""
        self.began_at = time.monotonic()

    def wrote(self, stream: Stream, data: bytes) -> None:
        self._add_text(stream, (self.stdout if stream == "stdout" else self.stderr).feed(data))

    def show(self, item: DisplayItem) -> None:
        self.shown += _weight(item)
        if self._wanted():
            self.ahead += _weight(item)
            self._items.append(item)
            self._tell()

    def end(self, ended: BlockEnd) -> None:
        """`ended` tells how; times and what was written are added here."""
        self._add_text("stdout", self.stdout.last())
        self._add_text("stderr", self.stderr.last())
        self.ended = msgspec.structs.replace(
            ended, duration=self.age, stdout=self.stdout.finish(), stderr=self.stderr.finish()
        )
        self._items.append(self.ended)
        self._tell()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def over(self) -> BlockEnd:
        """Wait for the end, whoever watches."""
        while self.ended is None:
            if self._over is None or self._over.done():
                self._over = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._over)
        return self.ended

    async def items(self) -> AsyncIterator[BlockItem]:
        while True:
            while self._items:
                item = self._take()
                yield item
                if isinstance(item, BlockEnd):
                    return
            if self.ended is not None:  # taken before, by another look
                return
            if self._taker is not None and not self._taker.done():
                raise UsageError("this block is watched by somebody else. Watch it once, and share what comes.")
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker

    def _take(self) -> BlockItem:
        item = self._items.popleft()
        was_full = self.full
        if isinstance(item, _Text):
            self.ahead -= item.weight
            taken: BlockItem = OutputItem(stream=item.stream, text="".join(item.pieces))
        else:
            taken = item
            if isinstance(item, DisplayItem):
                self.ahead -= _weight(item)
        if was_full and not self.full:
            self._made_room()
        return taken

    def _add_text(self, stream: Stream, text: str) -> None:
        if not text or not self._wanted():
            return
        last = self._items[-1] if self._items else None
        if not isinstance(last, _Text) or last.stream != stream:
            last = _Text(stream)
            self._items.append(last)
        last.pieces.append(text)
        last.weight += len(text) + _WEIGHT
        self.ahead += len(text) + _WEIGHT
        self._tell()

    def _wanted(self) -> bool:
        """A program that is being stopped is read to its end, whoever looks on or not; it is kept, but not piled up."""
        return not (self.stopping and self.full)

    def _tell(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)


def _weight(item: DisplayItem) -> int:
    """What it takes of our memory: one rare character makes a text four times as big as it is long."""
    return sys.getsizeof(item.data) + _SHOWN_WEIGHT


def block_end_of(frame: DoneFrame, asked: StopReason | None) -> BlockEnd:
    """What the worker told of the end. Only who was asked to stop was interrupted: a KeyboardInterrupt that the program raised
    itself is an error like any other, and a block that was asked and stopped has not run to its end, whatever it says."""
    stopped = asked if frame.status != "exit" else None
    told = "error" if frame.status == "interrupted" else frame.status
    return BlockEnd(
        status="interrupted" if stopped else told,
        reason=stopped,
        value=frame.value,
        error=_error(frame.error) if frame.error is not None else None,
        exit_code=frame.exit_code,
        variables=tuple(map(_variable, frame.variables)),
        names=frozenset(frame.names),
        threads=frame.threads,
    )


def _error(error: ErrorFrame) -> ProgramError:
    return ProgramError(type=error.type, message=error.message, traceback=error.traceback, line=error.line)


def _variable(v: VariableFrame) -> Variable:
    return Variable(name=v.name, type=v.type, value=v.value, length=v.length, shape=v.shape, change=v.change)
