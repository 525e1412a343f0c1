"""One child process in the sandbox, from the host's side.

Whatever the program does, a block that was begun ends: by the child's answer, by an interrupt, or with the child process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from clicket.errors import UsageError
from clicket.interpreter.sandbox import Exit, Isolation, Sandbox, SandboxFailed, SandboxProcess
from clicket.interpreter.session import protocol
from clicket.interpreter.session.block_clock import BlockClock
from clicket.interpreter.session.block_run import (
    BlockEnd,
    BlockItem,
    BlockRun,
    DisplayItem,
    OutputItem,
    Stream,
    block_end_of,
)
from clicket.interpreter.session.connection import Connection
from clicket.interpreter.session.exit_reason import ExitReason, SessionGone, StopReason, exit_reason_of
from clicket.interpreter.session.protocol import CheckedBlock as Checked
from clicket.interpreter.session.timers import Timers
from clicket.interpreter.session.uses import SessionUses, UseHandler

__all__ = ["BlockEnd", "Checked", "DisplayItem", "ExitReason", "OutputItem", "Session", "SessionGone", "StopReason"]

MIB = 1024 * 1024
PROGRAM = "clicket.interpreter.inside.command_loop"
_START_TIMEOUT = 60.0
_FREEZE_AFTER = 0.25
_KILL_TIMEOUT = 5.0
"""Seconds after a kill until a process that does not report its exit counts as ended."""
_CHECK_TIMEOUT = 30.0
"""Seconds for the child to compile a block that it then runs."""
_APPLIED_INSIDE = ("rlimits", "landlock", "seccomp")
"""Layers that the child process applies to itself before it runs anything."""
_MAX_DISPLAYED = 64 * MIB
_MAX_LATE = 16 * MIB
_LATE_OVERHEAD = 16 * 1024
"""Bytes that count for a late answer besides its data, because reading it takes time too."""

F = TypeVar("F", protocol.CheckedFrame, protocol.PreloadedFrame)
OnChecked = Callable[[Checked], None]


class Session:
    """Runs blocks of code, one at a time, in one namespace: `begin` sends a block, `watch` yields its output until its end."""

    def __init__(
        self, process: SandboxProcess, *, grace: float, max_output: int, kept_output: int, max_spooled: int
    ) -> None:
        self.process = process
        self.names: frozenset[str] = frozenset()
        """The program's global names after the last block, as the child reported them."""
        self.python: str = ""
        self.layers: tuple[str, ...] = ()
        """Layers applied inside, as the child reported them before it ran anything."""
        self._grace = grace
        self._max_output = max_output
        self._kept = kept_output
        self._max_spooled = max_spooled
        self._id = 0
        self._block: BlockRun | None = None
        self._request: tuple[type[protocol.Answer], int, asyncio.Future[Any]] | None = None
        self._on_checked: tuple[OnChecked, float | None] | None = None
        """For a block that is checked first: the callback, and how long the block may then run."""
        self._kill_reason: ExitReason | None = None
        """Set when the host kills the child; becomes `_exit_reason` when the child has ended."""
        self._exit_reason: ExitReason | None = None
        self._late = 0
        self._late_interrupt = False
        """An interrupt was sent, but its block ended otherwise: the signal may still arrive."""
        self._waiting: tuple[int, bytes] | None = None
        """A block to be sent when the child has answered the request with this id."""
        self.frozen = False
        self._closed = False
        self._timers = Timers()
        self._clock = BlockClock(self._timers, lambda: self._interrupt("timeout"), process.cpu_time)
        self._connection = Connection(process, self)
        self._uses = SessionUses(self._connection, self._clock, self._on_drained)
        process.exited.add_done_callback(self._on_exit)
        process.breach.add_done_callback(self._on_breach)

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
        """Start a child. A block that writes more than `max_output` bytes is killed; `kept_output` bytes of each stream stay in
        memory, and the file with the whole stream may have `max_spooled`. Raises `SandboxFailed`."""
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
        return self._request is not None or (self._block is not None and self._block.ended is None)

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why the session is not alive; None while it is."""
        return self._exit_reason or self._kill_reason

    @property
    def isolation(self) -> Isolation:
        return self.process.isolation

    async def check(self, codes: Sequence[str], timeout: float) -> list[Checked]:
        """Compile blocks without running them: their syntax errors, imports, and the names that they read and bind."""
        self._begin_request()
        answer = await self._ask(protocol.check(self._id, codes), protocol.CheckedFrame, len(codes), timeout)
        return list(answer.blocks)

    async def preload(self, modules: Sequence[str], timeout: float) -> list[str]:
        """Import modules in advance. Returns those that could be imported; none if the session ended meanwhile."""
        self._begin_request()
        try:
            answer = await self._ask(
                protocol.preload(self._id, modules), protocol.PreloadedFrame, len(modules), timeout
            )
        except SessionGone:
            return []
        return list(answer.modules)

    def begin(
        self,
        code: str,
        *,
        name: str,
        timeout: float | None,
        on_checked: OnChecked | None = None,
        uses: UseHandler | None = None,
    ) -> None:
        """Send a block. In a session that has ended, the block ends at once with the same reason.

        With `on_checked`, the child first checks the code as `check` does, and the callback gets the answer. Code that does not
        compile ends the block without running. `uses` performs the uses of tools; without it the program has none.
        """
        self._begin_request()
        block = self._block = self._new_block()
        if not self.alive:
            if self._exit_reason is not None:
                self._end_with(self._exit_reason, block)
            return
        if on_checked is not None:
            self._on_checked = (on_checked, timeout)
            self._connection.read_answers()
            self._timers.start("deadline", _CHECK_TIMEOUT, self._on_check_timeout)
        else:
            self._run_for(timeout)
        self._id += self._late_interrupt
        command = protocol.execute(self._id, code, name, check=on_checked is not None, **self._uses.begin(uses))
        if self._late_interrupt:
            self._waiting = (self._id - 1, command)
            self._connection.send(protocol.check(self._id - 1, ()))
        else:
            self._connection.send(command)

    def watch(self) -> AsyncIterator[BlockItem]:
        """The block's output and displays as they come, and last how it ended."""
        if self._block is None:
            raise UsageError("no block was begun in this session. Call begin(code, name=..., timeout=...) first.")
        return self._block.items()

    async def stop(self, reason: StopReason) -> None:
        """End the running block: interrupt, wait for the grace period, kill. Returns when the block has ended."""
        block = self._block
        if block is not None and block.ended is None:
            self._interrupt(reason)
            await block.wait()

    def kill(self, reason: StopReason = "cancel") -> None:
        """Kill the child now, also while `stop` is waiting."""
        self._finish_check()
        self._kill(reason, "it was told to end at once")

    def idle(self) -> None:
        """No request follows for now: freeze the child soon, so that no thread runs on. The next request thaws it."""
        if self.alive and not self.busy and not self.frozen:
            self._timers.start("freeze", _FREEZE_AFTER, self._freeze)

    async def close(self) -> None:
        """End the child and all that it started. A running block ends as killed."""
        if not self._closed:
            self._closed = True
            closed = ExitReason(status="killed", reason="cancel", detail="the session was closed")
            self._end_session(self.exit_reason or closed)
        await self.process.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Wait for the child's first frame. Handled as a block, so that errors are handled the same way."""
        block = self._block = self._new_block()
        self._connection.read_all()
        detail = f"it was not ready after {_START_TIMEOUT:g} s"
        self._timers.start("deadline", _START_TIMEOUT, self._kill, "timeout", detail)
        ended = await block.wait()
        self._block = None
        if ended.status != "ok":
            output = (ended.stderr.text or ended.stdout.text).strip()[-2000:]
            wrote = f" It wrote: {output}" if output else ""
            raise SandboxFailed(f"Python did not start in the sandbox: {ended.detail}.{wrote}")

    def _begin_request(self) -> None:
        if self._closed:
            raise UsageError("this session is closed. Start another one.")
        if self.busy:
            raise UsageError("this session is busy. Watch its block to the end, or stop it, before the next request.")
        self._timers.stop("freeze")
        if self.frozen:
            self.frozen = False
            self.process.thaw()
        self.process.watching = (
            self.alive
        )  # until it is frozen: threads of earlier blocks may exceed limits at any time
        self._late = 0
        self._id += 1

    async def _ask(self, frame: bytes, kind: type[F], size: int, timeout: float) -> F:
        if (gone := self.exit_reason) is not None:
            raise SessionGone(gone)
        answer: asyncio.Future[F] = asyncio.get_running_loop().create_future()
        self._request = (kind, size, answer)
        self._connection.read_answers()
        self._timers.start("deadline", timeout, self._kill, "timeout", f"it did not answer within {timeout:g} s")
        self._connection.send(frame)
        try:
            return await answer
        finally:  # also when cancelled: the answer then comes late
            self._request = None
            self._timers.stop("deadline")

    def _freeze(self) -> None:
        if self.alive and not self.busy:
            self.frozen = True
            self.process.freeze()
            self.process.watching = False

    def _new_block(self) -> BlockRun:
        return BlockRun(kept=self._kept, max_spooled=self._max_spooled, on_drained=self._on_drained)

    # --- called by the connection -------------------------------------------------------------------------------------

    def on_output(self, stream: Stream, data: bytes) -> None:
        block = self._block
        if block is None or block.ended is not None:  # output of a process that ended while no block ran
            return
        block.add_output(stream, data)
        if block.written > self._max_output:
            self._kill("output", f"it wrote more than {self._max_output} bytes")
        elif block.full and not block.stop_reason:
            self._connection.pause_all()

    def on_frame(self, frame: protocol.Answer) -> None:
        if isinstance(frame, protocol.ReadyFrame | protocol.RefusedFrame):
            self._on_ready(frame)
        elif self._waiting is not None and frame.id == self._waiting[0] and isinstance(frame, protocol.CheckedFrame):
            self._send_waiting(self._waiting[1])
        elif frame.id > self._id:
            raise protocol.Violation(f"an answer to request {frame.id}, which was never made")
        elif frame.id < self._id or not self.busy:
            self._on_late_frame(frame)
        elif self._request is not None:
            self._on_answer(*self._request, frame)
        elif self._on_checked is not None and self._block is not None:
            self._on_check(self._block, *self._on_checked, frame)
        elif isinstance(frame, protocol.UseFrame | protocol.WithdrawFrame):
            self._uses.take(frame)
        elif isinstance(frame, protocol.DoneFrame | protocol.DisplayFrame) and self._block is not None:
            self._connection.drain_output()  # it was written before this frame
            if self._kill_reason is None:
                self._on_block_frame(self._block, frame)
        else:
            raise protocol.Violation(f"{type(frame).__name__} about a block")

    def on_violation(self, why: str) -> None:
        self._kill("protocol", f"the child sent an invalid answer: {why}")

    def on_eof(self) -> None:
        """Usually the process has ended, which `_on_exit` reports. Otherwise the program has closed the pipe."""
        if self.exit_reason is None:
            detail = "the connection to the child was closed"
            self._timers.start("eof", self._grace, self._kill, "protocol", detail)

    def _on_drained(self) -> None:
        if self.alive and self.busy and not (self._uses.full or (self._block is not None and self._block.full)):
            self._connection.read_all()

    def _on_ready(self, frame: protocol.ReadyFrame | protocol.RefusedFrame) -> None:
        block = self._block
        if self._id or block is None or block.ended is not None:
            raise protocol.Violation("it reported twice that it is ready")
        if isinstance(frame, protocol.RefusedFrame):
            self._kill("protocol", f"layer {frame.layer} does not hold: {frame.message}")
        elif missing := [
            name for name in _APPLIED_INSIDE if name in self.isolation.layers and name not in frame.layers
        ]:
            self._kill("protocol", f"it has not applied layers that results would name: {', '.join(missing)}")
        else:
            self.python, self.layers = frame.python, frame.layers
            self._end(block, BlockEnd(status="ok"))

    def _on_late_frame(self, frame: protocol.Answer) -> None:
        """An old id: a thread displays something after its block, or the true end follows a forged one. Both are harmless."""
        self._late += _LATE_OVERHEAD + (len(frame.data) if isinstance(frame, protocol.DisplayFrame) else 0)
        if self._late > _MAX_LATE or isinstance(frame, protocol.UseFrame):
            raise protocol.Violation("too many late answers, or a use of a tool after its block")

    def _on_answer(
        self, kind: type[protocol.Answer], size: int, answer: asyncio.Future[Any], frame: protocol.Answer
    ) -> None:
        if type(frame) is not kind:
            raise protocol.Violation(f"{type(frame).__name__} in answer to another request")
        if isinstance(frame, protocol.CheckedFrame) and len(frame.blocks) != size:
            raise protocol.Violation(f"{len(frame.blocks)} blocks were checked, {size} were sent")
        if not answer.done():
            answer.set_result(frame)

    def _send_waiting(self, frame: bytes) -> None:
        """The child has answered, so earlier interrupts have reached it: none of them can hit the next block."""
        self._waiting, self._late_interrupt = None, False
        self._connection.send(frame)
        if self._block is not None and self._block.stop_reason:
            self.process.interrupt()

    def _on_check(self, block: BlockRun, on_checked: OnChecked, timeout: float | None, frame: protocol.Answer) -> None:
        if not isinstance(frame, protocol.CheckedFrame) or len(frame.blocks) != 1:
            raise protocol.Violation(f"{type(frame).__name__} about a block that was to be checked first")
        self._on_checked = None
        checked = frame.blocks[0]
        if checked.error is not None:
            self._late_interrupt = block.stop_reason is not None
            self._end(block, BlockEnd(status="error", names=self.names))
        else:
            block.restart_clock()
            self._timers.stop("deadline")
            self._run_for(timeout)
        on_checked(checked)

    def _finish_check(self) -> None:
        """Read an answer that has arrived, so that it is known whether the block runs already."""
        if self._on_checked is not None:
            self._connection.drain_answers()

    def _on_check_timeout(self) -> None:
        self._finish_check()
        if self._on_checked is not None:
            self._kill("timeout", f"it did not answer within {_CHECK_TIMEOUT:g} s")

    def _run_for(self, timeout: float | None) -> None:
        self._connection.read_all()
        self._clock.start(timeout)

    def _on_block_frame(self, block: BlockRun, frame: protocol.DoneFrame | protocol.DisplayFrame) -> None:
        if isinstance(frame, protocol.DoneFrame):
            ended = block_end_of(frame, block.stop_reason)
            self._late_interrupt = block.stop_reason is not None and frame.status != "interrupted"
            self.names = ended.names
            self._end(block, ended)
            return
        block.add_display(DisplayItem(mime=frame.mime, data=frame.data, group=frame.group))
        if block.displayed > _MAX_DISPLAYED:
            self._kill("output", f"it displayed more than {_MAX_DISPLAYED} bytes")
        elif block.full and not block.stop_reason:
            self._connection.pause_all()

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _end(self, block: BlockRun, ended: BlockEnd) -> None:
        self._uses.close()
        self._clock.stop()
        if block.stop_reason is not None:
            self._timers.stop("grace")
        self._waiting = self._on_checked = None
        self._connection.pause_output()
        block.end(ended)

    def _interrupt(self, reason: StopReason) -> None:
        self._connection.drain_answers()  # the block may have ended already
        block = self._block
        if block is None or block.ended is not None or block.stop_reason or not self.alive:
            return
        block.stop_reason = reason
        self._uses.close()
        self._connection.read_all()
        if self._waiting is None:
            self.process.interrupt()
        detail = f"it did not stop within {self._grace:g} s of an interrupt"
        self._timers.start("grace", self._grace, self._kill, reason, detail)

    def _kill(self, reason: StopReason, detail: str) -> None:
        if self.exit_reason is None:
            self._kill_reason = ExitReason(status="killed", reason=reason, detail=detail)
            self._uses.close()
            self._timers.stop_all()
            self._connection.close_answers()
            self.process.kill()
            self._timers.start("kill", _KILL_TIMEOUT, self._end_session, self._kill_reason)

    def _on_breach(self, breach: asyncio.Future[str]) -> None:
        if breach.cancelled() or self._closed:
            return
        self._finish_check()
        if breach.result() == "memory":
            self._kill("memory", "it used more memory than it may")
        else:
            self._kill("disk", "it put more into its folder than it may")

    def _on_exit(self, exited: asyncio.Future[Exit]) -> None:
        if exited.cancelled() or self._exit_reason is not None:
            return
        self._connection.drain_answers()  # the last one may be the end of the block
        self._connection.drain_output()
        killed = self._kill_reason
        exit = exited.result()
        if killed is not None and killed.reason == "protocol" and exit.memory:
            killed = None  # the connection broke because the kernel had killed the child
        self._end_session(killed or exit_reason_of(exit))

    def _end_session(self, exit_reason: ExitReason) -> None:
        final = self._exit_reason = self._exit_reason or exit_reason
        self._uses.close()
        self._timers.stop_all()
        self._connection.close()
        self.process.watching = False
        if self._block is not None and self._block.ended is None:
            self._end_with(final, self._block)
        if self._request is not None and not self._request[2].done():
            self._request[2].set_exception(SessionGone(final))

    def _end_with(self, final: ExitReason, block: BlockRun) -> None:
        block.end(BlockEnd(status=final.status, reason=final.reason, detail=final.detail))
