"""One running block: its output and displays until a reader takes them, then how it ended. The end is the last item, once."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec

from clicket import system
from clicket.errors import UsageError
from clicket.interpreter.result import ProgramError, Variable
from clicket.interpreter.session.capture import Capture, Captured
from clicket.interpreter.session.exit_reason import StopReason
from clicket.interpreter.session.protocol import DoneFrame

__all__ = ["BlockEnd", "BlockItem", "BlockRun", "DisplayItem", "OutputItem", "Stream", "block_end_of"]

Stream = Literal["stdout", "stderr"]

_MAX_BUFFERED = 4 * 1024 * 1024
"""Approximate bytes of unread items before the program has to wait."""
_TEXT_OVERHEAD = 64
"""Bytes that a piece of text takes besides its characters."""
_DISPLAY_OVERHEAD = 1024
"""The same for a display, with the cost of reading it: many small displays must not evade the limits."""


class OutputItem(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text. The pieces of a stream, joined, are what the block wrote."""

    stream: Stream
    text: str


class DisplayItem(msgspec.Struct, frozen=True, kw_only=True):
    """One representation of a displayed object; representations of the same object have the same group."""

    mime: str
    data: str
    group: int = 0


class BlockEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a block ended. `detail` is what the host knows of a kill or a crash, as a clause for people."""

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


class _PendingText:
    """Consecutive pieces of one stream, joined when they are read."""

    __slots__ = ("pieces", "stream", "weight")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pieces: list[str] = []
        self.weight = 0


class BlockRun:
    """Filled by the session, read by one reader. `on_drained` is called when a full buffer has room again."""

    __slots__ = (
        "_items", "_on_drained", "_over", "_reader", "buffered", "displayed", "ended", "started_at", "stderr", "stdout",
        "stop_reason",
    )  # fmt: skip

    def __init__(self, *, kept: int, max_spooled: int, on_drained: Callable[[], None]) -> None:
        self.stdout: Capture = Capture(kept=kept, max_spooled=max_spooled)
        self.stderr: Capture = Capture(kept=kept, max_spooled=max_spooled)
        self.stop_reason: StopReason | None = None
        """Set once the session has interrupted the block."""
        self.ended: BlockEnd | None = None
        self.buffered: int = 0
        self.displayed: int = 0
        self.started_at: float = system.monotonic()
        self._items: deque[_PendingText | DisplayItem | BlockEnd] = deque()
        self._on_drained = on_drained
        self._reader: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None

    @property
    def full(self) -> bool:
        return self.buffered > _MAX_BUFFERED

    @property
    def written(self) -> int:
        return self.stdout.size + self.stderr.size

    def restart_clock(self) -> None:
        """The time until now does not count as run time."""
        self.started_at = system.monotonic()

    def add_output(self, stream: Stream, data: bytes) -> None:
        self._add_text(stream, (self.stdout if stream == "stdout" else self.stderr).feed(data))

    def add_display(self, item: DisplayItem) -> None:
        self.displayed += _weight(item)
        if self._accepts():
            self.buffered += _weight(item)
            self._items.append(item)
            self._wake_reader()

    def end(self, ended: BlockEnd) -> None:
        """Duration and captured output are added here."""
        self._add_text("stdout", self.stdout.last())
        self._add_text("stderr", self.stderr.last())
        duration = system.monotonic() - self.started_at
        self.ended = msgspec.structs.replace(
            ended, duration=duration, stdout=self.stdout.finish(), stderr=self.stderr.finish()
        )
        self._items.append(self.ended)
        self._wake_reader()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def wait(self) -> BlockEnd:
        """Wait for the end without reading the items."""
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
            if self.ended is not None:  # read before, by another iterator
                return
            if self._reader is not None and not self._reader.done():
                raise UsageError("this block has a reader already. Watch it once, and share the items.")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _take(self) -> BlockItem:
        item = self._items.popleft()
        was_full = self.full
        if isinstance(item, _PendingText):
            self.buffered -= item.weight
            taken: BlockItem = OutputItem(stream=item.stream, text="".join(item.pieces))
        else:
            taken = item
            if isinstance(item, DisplayItem):
                self.buffered -= _weight(item)
        if was_full and not self.full:
            self._on_drained()
        return taken

    def _add_text(self, stream: Stream, text: str) -> None:
        if not text or not self._accepts():
            return
        last = self._items[-1] if self._items else None
        if not isinstance(last, _PendingText) or last.stream != stream:
            last = _PendingText(stream)
            self._items.append(last)
        last.pieces.append(text)
        last.weight += len(text) + _TEXT_OVERHEAD
        self.buffered += len(text) + _TEXT_OVERHEAD
        self._wake_reader()

    def _accepts(self) -> bool:
        """A block that is being stopped is read to its end even without a reader; its output is captured, but not buffered."""
        return not (self.stop_reason and self.full)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _weight(item: DisplayItem) -> int:
    """Bytes of our memory: one character outside of Latin-1 makes a text up to four times as large."""
    return sys.getsizeof(item.data) + _DISPLAY_OVERHEAD


def block_end_of(frame: DoneFrame, stop_reason: StopReason | None) -> BlockEnd:
    """The end as the child reported it. Only a block that the host stopped counts as interrupted: a KeyboardInterrupt that the
    program raised itself is an error, and a block that was stopped did not finish, whatever the child says."""
    stopped = stop_reason if frame.status != "exit" else None
    reported = "error" if frame.status == "interrupted" else frame.status
    error = frame.error
    return BlockEnd(
        status="interrupted" if stopped else reported,
        reason=stopped,
        value=frame.value,
        error=None if error is None else ProgramError(**msgspec.structs.asdict(error)),
        exit_code=frame.exit_code,
        variables=tuple(Variable(**msgspec.structs.asdict(variable)) for variable in frame.variables),
        names=frozenset(frame.names),
        threads=frame.threads,
    )
