"""One worker in its cage, from the host's side. Whatever the program inside does, a block that was begun ends: by its own
answer, by an interrupt, or with the cage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from clicket.errors import UsageError
from clicket.interpreter.session import protocol
from clicket.interpreter.session.block_run import (
    BlockEnd,
    BlockItem,
    BlockRun,
    DisplayItem,
    OutputItem,
    Stream,
    block_end_of,
)
from clicket.interpreter.session.connection import Connection, Timers
from clicket.interpreter.session.exit_reason import ExitReason, SessionGone, StopReason, exit_reason_of
from clicket.interpreter.session.protocol import CheckedBlock as Checked
from clicket.sandbox import Exit, Isolation, Sandbox, SandboxFailed, SandboxProcess

__all__ = ["BlockEnd", "Checked", "DisplayItem", "ExitReason", "OutputItem", "Session", "SessionGone", "StopReason"]

MIB = 1024 * 1024
PROGRAM = "clicket.interpreter.inside.worker"
_START = 60.0
_REST = 0.25
_PATIENCE = 5.0
"""Seconds after a kill until a cage that does not report its end counts as ended all the same."""
_LOOK = 30.0
"""Seconds in which a worker must have compiled a block that it is to run at once."""
_FROM_INSIDE = ("rlimits", "landlock", "seccomp")
"""Layers that a worker puts on itself, before it runs anything."""
_MAX_SHOWN = 64 * MIB
_MAX_LATE = 16 * MIB
_LATE = 16 * 1024
"""What an answer that nobody waits for weighs, however short it is: to read it costs, too."""

F = TypeVar("F", protocol.CheckedFrame, protocol.PreloadedFrame)


class Session:
    """Blocks of code, one at a time, in one namespace: `begin` sends one, `watch` follows it to its end."""

    def __init__(
        self, process: SandboxProcess, *, grace: float, max_output: int, kept_output: int, max_spooled: int
    ) -> None:
        self.process = process
        self.names: frozenset[str] = frozenset()
        """The program's names after the last block, as the worker told."""
        self.python: str = ""
        self.layers: tuple[str, ...] = ()
        """Put on from inside, as the worker told before it ran anything."""
        self._grace = grace
        self._max_output = max_output
        self._kept = kept_output
        self._max_spooled = max_spooled
        self._id = 0
        self._block: BlockRun | None = None
        self._asked: tuple[type[protocol.Answer], int, asyncio.Future[Any]] | None = None
        self._passed: tuple[Callable[[Checked], None], float | None] | None = None
        """Whom to tell when the block turns out to compile, and how long it may then run."""
        self._doom: ExitReason | None = None
        """A exit_reason that was decided here, from then until it has happened."""
        self._fate: ExitReason | None = None
        self._late = 0
        self._stray = False
        """An interrupt was sent, and its block ended otherwise: it may still be on its way."""
        self._waiting: tuple[int, bytes] | None = None
        """A block that is sent when the worker has answered the request of this number."""
        self._frozen = False
        self._closed = False
        self._timers = Timers()
        self._line = Connection(process, self)
        process.exited.add_done_callback(self._exited)
        process.breach.add_done_callback(self._breached)

    @classmethod
    async def start(
        cls,
        sandbox: Sandbox,
        *,
        settings: Mapping[str, Any] = {},
        grace: float = 1.0,
        max_output: int = 64 * MIB,
        kept_output: int = MIB,
        max_spooled: int = 64 * MIB,
    ) -> Session:
        """A worker that is ready. A block that writes more than `max_output` is killed; `kept_output` is what stays in memory
        of each of its streams, and `max_spooled` bounds the file that has the whole of one."""
        process = await sandbox.start(PROGRAM, dict(settings))
        session = cls(process, grace=grace, max_output=max_output, kept_output=kept_output, max_spooled=max_spooled)
        try:
            await session._open()
        except BaseException:
            await session.close()
            raise
        return session

    @property
    def alive(self) -> bool:
        return self.exit_reason is None and not self._closed

    @property
    def busy(self) -> bool:
        return self._asked is not None or (self._block is not None and self._block.ended is None)

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why it is not alive any more."""
        return self._fate or self._doom

    @property
    def isolation(self) -> Isolation:
        return self.process.isolation

    async def check(self, codes: Sequence[str], timeout: float) -> list[Checked]:
        """FolderScan at the text of blocks: does it parse, what does it import, read and bind. Nothing of it runs."""
        self._ready_for_next()
        answer = await self._ask(protocol.check(self._id, codes), protocol.CheckedFrame, len(codes), timeout)
        return list(answer.blocks)

    async def preload(self, modules: Sequence[str], timeout: float) -> list[str]:
        """Import modules before they are needed. Those that could be; none when the session ended over it."""
        self._ready_for_next()
        try:
            answer = await self._ask(
                protocol.preload(self._id, modules), protocol.PreloadedFrame, len(modules), timeout
            )
        except SessionGone:
            return []
        return list(answer.modules)

    def begin(
        self, code: str, *, name: str, timeout: float | None, passed: Callable[[Checked], None] | None = None
    ) -> None:
        """Send a block. In a session that has ended, the block has ended too, and says why.

        With `passed`, the worker looks at the text first, as `check` does, and `passed` is told what it saw. A text that
        does not compile ends the block there and then: nothing of it has run.
        """
        self._ready_for_next()
        block = self._block = self._watched()
        if not self.alive:
            if self._fate is not None:
                self._end_with_fate(block)
            return
        if passed is not None:
            self._passed = (passed, timeout)
            self._line.listen()
            self._timers.start("deadline", _LOOK, self._give_up)
        else:
            self._run_for(timeout)
        if self._stray:
            self._id += 1
            self._waiting = (self._id - 1, protocol.execute(self._id, code, name, check=passed is not None))
            self._line.send(protocol.check(self._id - 1, ()))
        else:
            self._line.send(protocol.execute(self._id, code, name, check=passed is not None))

    def watch(self) -> AsyncIterator[BlockItem]:
        """What the block writes and shows, live, and last how it ended."""
        if self._block is None:
            raise UsageError("no block was begun in this session. Call begin(code, name=..., timeout=...) first.")
        return self._block.items()

    async def stop(self, reason: StopReason) -> None:
        """End the running block: interrupt, grace, kill. Comes back when it has ended; without a block, at once."""
        block = self._block
        if block is not None and block.ended is None:
            self._interrupt(reason)
            await block.over()

    def kill(self, reason: StopReason = "cancel") -> None:
        """End the worker now, whatever it is at; also while `stop` is waiting for it to stop by itself."""
        self._end_look()
        self._kill(reason, "it was told to end at once")

    def rest(self) -> None:
        """Nothing is asked for now: freeze the cage in a moment, so that nothing runs on unseen. The next request thaws it."""
        if self.alive and not self.busy and not self._frozen:
            self._timers.start("rest", _REST, self._freeze)

    async def close(self) -> None:
        """End the worker and all it started. A block that runs ends as killed."""
        if not self._closed:
            self._closed = True
            self._settle(
                self.exit_reason or ExitReason(status="killed", reason="cancel", detail="the session was closed")
            )
        await self.process.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """The start is a block of its own, so that whatever goes wrong in it is seen the same way."""
        block = self._block = self._watched()
        self._line.flow()
        self._timers.start("deadline", _START, self._kill, "timeout", f"it was not ready after {_START:g} s")
        ended = await block.over()
        self._block = None
        if ended.status != "ok":
            words = (ended.stderr.text or ended.stdout.text).strip()[-2000:]
            said = f" It wrote: {words}" if words else ""
            raise SandboxFailed(f"The Python worker did not start in the sandbox: {ended.detail}.{said}")

    def _ready_for_next(self) -> None:
        if self._closed:
            raise UsageError("this session is closed. Start another one.")
        if self.busy:
            raise UsageError("this session is busy. Watch its block to the end, or stop it, before the next request.")
        self._timers.stop("rest")
        if self._frozen:
            self._frozen = False
            self.process.thaw()
        self.process.watching = self.alive  # until it is frozen: what earlier blocks left running may do harm any time
        self._late = 0
        self._id += 1

    async def _ask(self, frame: bytes, kind: type[F], size: int, timeout: float) -> F:
        if (gone := self.exit_reason) is not None:
            raise SessionGone(gone)
        answer: asyncio.Future[F] = asyncio.get_running_loop().create_future()
        self._asked = (kind, size, answer)
        self._line.listen()
        self._timers.start("deadline", timeout, self._kill, "timeout", f"it did not answer within {timeout:g} s")
        self._line.send(frame)
        try:
            return await answer
        finally:  # also when cancelled: the answer will then be a late one
            self._asked = None
            self._timers.stop("deadline")

    def _freeze(self) -> None:
        if self.alive and not self.busy:
            self._frozen = True
            self.process.freeze()
            self.process.watching = False

    def _watched(self) -> BlockRun:
        return BlockRun(kept=self._kept, max_spooled=self._max_spooled, made_room=self._made_room)

    # --- what comes out: called by the line ---------------------------------------------------------------------------

    def wrote(self, stream: Stream, data: bytes) -> None:
        block = self._block
        if block is None or block.ended is not None:  # the last words of a cage that ended while nothing ran
            return
        block.wrote(stream, data)
        if block.written > self._max_output:
            self._kill("output", f"it wrote more than {self._max_output} bytes")
        elif block.full and not block.stopping:
            self._line.hold()

    def heard(self, frame: protocol.Answer) -> None:
        if isinstance(frame, protocol.ReadyFrame | protocol.RefusedFrame):
            self._opened(frame)
        elif self._waiting is not None and frame.id == self._waiting[0] and isinstance(frame, protocol.CheckedFrame):
            self._send_waiting(self._waiting[1])
        elif frame.id > self._id:
            raise protocol.Violation(f"an answer to request {frame.id}, which was never made")
        elif frame.id < self._id or not self.busy:
            self._came_late(frame)
        elif self._asked is not None:
            self._answered(*self._asked, frame)
        elif self._passed is not None and self._block is not None:
            self._looked(self._block, *self._passed, frame)
        elif isinstance(frame, protocol.DoneFrame | protocol.DisplayFrame) and self._block is not None:
            self._line.take_output()  # what was written before this frame
            if self._doom is None:
                self._told(self._block, frame)
        else:
            raise protocol.Violation(f"{type(frame).__name__} about a block")

    def broke(self, why: str) -> None:
        self._kill("protocol", f"what came from the worker is none of its answers: {why}")

    def fell_silent(self) -> None:
        """Usually the end of the cage, which tells more. If that does not come, a program has closed the line."""
        if self.exit_reason is None:
            self._timers.start("silent", self._grace, self._kill, "protocol", "the line to the worker was closed")

    def _made_room(self) -> None:
        if self.alive and self.busy:
            self._line.flow()

    def _opened(self, frame: protocol.ReadyFrame | protocol.RefusedFrame) -> None:
        block = self._block
        if self._id or block is None or block.ended is not None:
            raise protocol.Violation("it said twice that it is ready")
        if isinstance(frame, protocol.RefusedFrame):
            self._kill("protocol", f"layer {frame.layer} does not hold: {frame.message}")
        elif missing := [name for name in _FROM_INSIDE if name in self.isolation.layers and name not in frame.layers]:
            self._kill("protocol", f"it has not put on what results would name: {', '.join(missing)}")
        else:
            self.python, self.layers = frame.python, frame.layers
            self._end(block, BlockEnd(status="ok"))

    def _came_late(self, frame: protocol.Answer) -> None:
        """Old ids: a thread that shows something after its block, or the true end after a forged one. Both do no harm."""
        self._late += _LATE + (len(frame.data) if isinstance(frame, protocol.DisplayFrame) else 0)
        if self._late > _MAX_LATE:
            raise protocol.Violation("too many answers that nobody waits for")

    def _answered(
        self, kind: type[protocol.Answer], size: int, answer: asyncio.Future[Any], frame: protocol.Answer
    ) -> None:
        if type(frame) is not kind:
            raise protocol.Violation(f"{type(frame).__name__} to another question")
        if isinstance(frame, protocol.CheckedFrame) and len(frame.blocks) != size:
            raise protocol.Violation(f"{len(frame.blocks)} blocks were looked at, {size} were sent")
        if not answer.done():
            answer.set_result(frame)

    def _send_waiting(self, frame: bytes) -> None:
        """Whoever was answered has seen all interrupts that came before the question: none of them hits the next block."""
        self._waiting, self._stray = None, False
        self._line.send(frame)
        if self._block is not None and self._block.stopping:
            self.process.interrupt()

    def _looked(
        self, block: BlockRun, passed: Callable[[Checked], None], timeout: float | None, frame: protocol.Answer
    ) -> None:
        if not isinstance(frame, protocol.CheckedFrame) or len(frame.blocks) != 1:
            raise protocol.Violation(f"{type(frame).__name__} about a block that was to be looked at first")
        self._passed = None
        checked = frame.blocks[0]
        if checked.error is not None:
            self._stray = block.stopping is not None
            self._end(block, BlockEnd(status="error", names=self.names))
            passed(checked)
            return
        block.began()
        self._timers.stop("deadline")
        self._run_for(timeout)
        passed(checked)

    def _end_look(self) -> None:
        """Whoever ends a block that is looked at first wants to know whether it runs already."""
        if self._passed is not None:
            self._line.take_answers()

    def _give_up(self) -> None:
        self._end_look()
        if self._passed is not None:
            self._kill("timeout", f"it did not answer within {_LOOK:g} s")

    def _run_for(self, timeout: float | None) -> None:
        self._line.flow()
        if timeout is not None:
            self._timers.start("deadline", timeout, self._interrupt, "timeout")

    def _told(self, block: BlockRun, frame: protocol.DoneFrame | protocol.DisplayFrame) -> None:
        if isinstance(frame, protocol.DoneFrame):
            ended = block_end_of(frame, block.stopping)
            self._stray = block.stopping is not None and frame.status != "interrupted"
            self.names = ended.names
            self._end(block, ended)
            return
        block.show(DisplayItem(mime=frame.mime, data=frame.data, group=frame.group))
        if block.shown > _MAX_SHOWN:
            self._kill("output", f"it showed more than {_MAX_SHOWN} bytes")
        elif block.full and not block.stopping:
            self._line.hold()

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _end(self, block: BlockRun, ended: BlockEnd) -> None:
        self._timers.stop("deadline")
        if block.stopping is not None:
            self._timers.stop("grace")
        self._waiting = self._passed = None
        self._line.rest()
        block.end(ended)

    def _interrupt(self, reason: StopReason) -> None:
        self._line.take_answers()  # it may have ended, and we have only not heard of it
        block = self._block
        if block is None or block.ended is not None or block.stopping or not self.alive:
            return
        block.stopping = reason
        self._line.flow()
        if self._waiting is None:
            self.process.interrupt()
        detail = f"it did not stop within {self._grace:g} s of an interrupt"
        self._timers.start("grace", self._grace, self._kill, reason, detail)

    def _kill(self, reason: StopReason, detail: str) -> None:
        if self.exit_reason is None:
            self._doom = ExitReason(status="killed", reason=reason, detail=detail)
            self._timers.stop_all()
            self._line.hang_up()
            self.process.kill()
            self._timers.start("patience", _PATIENCE, self._settle, self._doom)

    def _breached(self, breach: asyncio.Future[str]) -> None:
        if breach.cancelled() or self._closed:
            return
        self._end_look()
        if breach.result() == "memory":
            self._kill("memory", "it used more memory than it may")
        else:
            self._kill("disk", "it put more into its folder than it may")

    def _exited(self, exited: asyncio.Future[Exit]) -> None:
        if exited.cancelled() or self._fate is not None:
            return
        self._line.take_answers()  # the last of them may be the end of the block
        self._line.take_output()
        self._settle(self._doom or exit_reason_of(exited.result()))

    def _settle(self, exit_reason: ExitReason) -> None:
        self._fate = self._fate or exit_reason
        self._timers.stop_all()
        self._line.close()
        self.process.watching = False
        if self._block is not None and self._block.ended is None:
            self._end_with_fate(self._block)
        if self._asked is not None and not self._asked[2].done():
            self._asked[2].set_exception(SessionGone(self._fate))

    def _end_with_fate(self, block: BlockRun) -> None:
        assert self._fate is not None
        block.end(BlockEnd(status=self._fate.status, reason=self._fate.reason, detail=self._fate.detail))
