"""Uses of tools on the pipes: a use leaves as one frame, its answer comes back among the commands. Several threads and an event loop
may wait at once; whichever waits reads for all. Between blocks nothing is read here: the pipe belongs to the child's own loop."""

from __future__ import annotations

import _thread
import posix
import select

from clicket.interpreter.inside.safe_builtins import BUILTINS
from clicket.interpreter.sandbox.frames import BadFrame, pack, read

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from clicket.interpreter.inside.interrupts import Interrupts

__all__ = ["UseFailed", "UseMailbox"]

globals()["__builtins__"] = BUILTINS

MAX_USE = 2 * 1024 * 1024
"""Bytes of one use with its arguments."""
_select = select.select
_pipe, _read_bytes, _write_bytes = posix.pipe2, posix.read, posix.write
_FLAGS = posix.O_NONBLOCK | posix.O_CLOEXEC
_lock_of, _thread_id = _thread.allocate_lock, _thread.get_ident


class UseFailed(Exception):
    """A use that was refused here, or answered with an error."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        self.code, self.message, self.retryable = code, message, retryable


class UseMailbox:
    """`send` writes one whole frame to the host."""

    def __init__(self, commands: int, send: Callable[[bytes], None], interrupts: Interrupts) -> None:
        self._commands: tuple[int, ...] = (commands,)
        self._send = send
        self._interrupts = interrupts
        self._lock = _lock_of()
        self._owner = 0
        """The thread that has the lock."""
        self._block = 0
        self._count = 0
        """Uses so far, in all blocks."""
        self._reading = False
        """A thread waits for the pipe; others wait for their gate."""
        self._alarm: tuple[int, ...] = ()
        """A pipe that wakes a thread of the program when its block ends; made when such a thread first waits."""
        self._open: set[int] = set()
        self._answers: dict[int, dict[str, Any]] = {}
        self._gates: dict[int, Any] = {}
        self._futures: dict[int, tuple[Any, Any]] = {}
        self._loops: dict[Any, int] = {}
        """Event loops that read the pipe, and how many uses each of them waits for."""
        self._forked = False

    # --- called by the child -----------------------------------------------------------------------------------------

    def begin(self, block: int) -> None:
        self._block = block
        self._reading = False
        self._answers.clear()
        try:
            while self._alarm and _read_bytes(self._alarm[0], 64):
                pass
        except OSError:  # nothing is in it
            pass

    def end(self) -> None:
        """The block is over: what still waits gets an error, and nothing more is read here."""
        with _Held(self):
            self._block = 0
            over = {"error": {"code": "cancelled", "message": "the block ended before this use was answered."}}
            for number in sorted(self._open):
                self._deliver({**over, "use": number})
            for loop in list(self._loops):
                self._stop_reading(loop)
            try:
                if self._alarm and self._reading:
                    _write_bytes(self._alarm[1], b"!")
            except OSError:  # the program closed it
                pass

    def mute(self) -> None:
        """In a forked child, which has no connection to the host."""
        self._forked = True

    # --- called for the program ---------------------------------------------------------------------------------------

    def post(self, tool: str, arguments: dict[str, Any]) -> int:
        """Send a use; returns its number. Raises `UseFailed` if it cannot be sent."""
        if self._forked:
            raise UseFailed("tool_unavailable", "a forked process has no tools. Use them in the program's own process.")
        with _Held(self):
            if not self._block:
                raise UseFailed("cancelled", "no block runs now, so no tool can be used.")
            number = self._count + 1
            try:
                data = pack(
                    {"type": "use", "id": self._block, "use": number, "tool": tool, "arguments": arguments}, strict=True
                )
            except BadFrame:
                data = b""
            except (ValueError, TypeError, RecursionError) as error:
                raise UseFailed("invalid_input", f"the arguments cannot be written as JSON: {error}") from None
            if not 0 < len(data) <= MAX_USE:
                raise UseFailed("invalid_input", f"the arguments take more than {MAX_USE} bytes as JSON. Send less.")
            self._send(data)
            self._count = number  # after it was sent: the host counts along
            self._open.add(number)
        return number

    def withdraw(self, number: int) -> None:
        """The program does not wait for this use any more."""
        if self._forked:
            return
        with _Held(self):
            if number in self._open and self._block:
                self._open.discard(number)
                self._forget_future(number)
                self._send(pack({"type": "withdraw", "id": self._block, "use": number}))

    def wait(self, number: int) -> dict[str, Any]:
        """The answer, when it is there. A thread that waits reads the answers of the others, too."""
        while True:
            gate: Any = None
            watched = self._commands
            with _Held(self):
                if number in self._answers:
                    return self._answers.pop(number)
                if number not in self._open:
                    raise UseFailed("cancelled", "this use was withdrawn, or its block has ended.")
                if self._reading:
                    gate = self._gates[number] = _lock_of()
                    gate.acquire()
                else:
                    self._reading = True
                    if not self._alarm and not self._interrupts.is_main():
                        self._alarm = _pipe(_FLAGS)
                    watched += self._alarm[:1]
            if gate is not None:
                gate.acquire()  # until its answer is there, or it is this thread's turn to read
                continue
            try:
                while number in self._open:
                    _select(watched, (), ())
                    self._read_one()
            finally:
                with _Held(self):
                    self._reading = False
                    self._wake_all()

    def future_of(self, number: int, loop: Any) -> Any:
        """A future of the running loop that is done when the answer is there."""
        future = loop.create_future()
        with _Held(self):
            if number in self._open:
                self._futures[number] = (loop, future)
                self._loops[loop] = self._loops.get(loop, 0) + 1
                if self._loops[loop] == 1:
                    loop.add_reader(self._commands[0], self._read_one)
            else:
                future.set_result(None)
        return future

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_one(self) -> None:
        """Read one answer, if there is one: another thread may have been faster."""
        with _Held(self):
            if self._block and _select(self._commands, (), (), 0)[0]:
                frame = read(self._commands[0])
                if frame is None:  # the host is gone; the child's own loop ends the process
                    raise UseFailed("cancelled", "the host has closed the connection.")
                self._deliver(frame)

    def _deliver(self, frame: dict[str, Any]) -> None:
        number = frame.get("use")
        if number not in self._open:
            return
        self._open.discard(number)
        self._answers[number] = frame
        self._forget_future(number)
        gate = self._gates.pop(number, None)
        if gate is not None:
            gate.release()

    def _wake_all(self) -> None:
        """Another thread that waits has to read now. All look again: one of them may have been interrupted."""
        for gate in self._gates.values():
            gate.release()
        self._gates.clear()

    def _forget_future(self, number: int) -> None:
        loop, future = self._futures.pop(number, (None, None))
        if loop is None or loop.is_closed():
            self._loops.pop(loop, None)
            return
        self._loops[loop] = self._loops.get(loop, 1) - 1
        try:
            loop.call_soon_threadsafe(_resolve, future)
            if self._loops[loop] <= 0:
                self._stop_reading(loop)
        except RuntimeError:  # the program closed the loop meanwhile
            self._loops.pop(loop, None)

    def _stop_reading(self, loop: Any) -> None:
        self._loops.pop(loop, None)
        try:  # noqa: SIM105 - contextlib is not loaded for this
            loop.remove_reader(self._commands[0])
        except Exception:  # noqa: S110 - a loop that the program closed or broke
            pass


class _Held:
    """The mailbox's lock. While the main thread has it, an interrupt waits."""

    __slots__ = ("_held", "_mailbox")

    def __init__(self, mailbox: UseMailbox) -> None:
        self._mailbox = mailbox

    def __enter__(self) -> None:
        mailbox = self._mailbox
        thread = _thread_id()
        if mailbox._owner == thread:  # a signal handler or a finalizer of the program, in the middle of another use
            raise UseFailed("tool_unavailable", "a tool cannot be used here: another use is just being sent.")
        self._held = mailbox._interrupts.hold()
        mailbox._lock.acquire()
        mailbox._owner = thread

    def __exit__(self, *_: object) -> None:
        self._mailbox._owner = 0
        self._mailbox._lock.release()
        if self._held:
            self._mailbox._interrupts.release()


def _resolve(future: Any) -> None:
    if not future.done():
        future.set_result(None)
