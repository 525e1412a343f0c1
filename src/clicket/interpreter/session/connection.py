"""The four pipes of a cage as one line: commands go in, answers and output come out. It keeps no state of its own about what was
asked; what it cannot understand it reports, and is silent from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from clicket.interpreter.session import protocol
from clicket.interpreter.session.block_run import Stream
from clicket.interpreter.session.pipes import PipeReader, PipeWriter
from clicket.sandbox import SandboxProcess

__all__ = ["Connection", "ConnectionListener", "Timers"]


class ConnectionListener(Protocol):
    """Who is at our end."""

    def wrote(self, stream: Stream, data: bytes) -> None: ...
    def heard(self, frame: protocol.Answer) -> None:
        """May raise `Violation`."""

    def broke(self, why: str) -> None: ...
    def fell_silent(self) -> None: ...


class Connection:
    def __init__(self, process: SandboxProcess, listener: ConnectionListener) -> None:
        self._listener = listener
        self._frames = protocol.Frames()
        self._commands = PipeWriter(process.commands)
        self._answers = PipeReader(process.answers, self._on_answers, listener.fell_silent)
        self._stdout = PipeReader(process.stdout, lambda data: listener.wrote("stdout", data))
        self._stderr = PipeReader(process.stderr, lambda data: listener.wrote("stderr", data))
        self._hung_up = False

    def send(self, frame: bytes) -> None:
        self._commands.send(frame)

    def listen(self) -> None:
        """To answers, whatever comes of output."""
        self._answers.open()

    def flow(self) -> None:
        """Take all that comes."""
        for inlet in (self._answers, self._stdout, self._stderr):
            inlet.open()

    def hold(self) -> None:
        """Take nothing for now: the program waits when its pipes are full."""
        for inlet in (self._answers, self._stdout, self._stderr):
            inlet.shut()

    def rest(self) -> None:
        """Leave output where it is: it belongs to the next block."""
        self._stdout.shut()
        self._stderr.shut()

    def take_answers(self) -> None:
        """Those that are there already."""
        self._answers.drain()

    def take_output(self) -> None:
        self._stdout.drain()
        self._stderr.drain()

    def hang_up(self) -> None:
        """Take no more answers. Output that is in the pipes can still be taken."""
        self._hung_up = True
        self._answers.end()
        self._commands.end()
        self.rest()

    def close(self) -> None:
        self.hang_up()
        self._stdout.end()
        self._stderr.end()

    def _on_answers(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._hung_up:
                    return
                self._listener.heard(frame)
        except protocol.Violation as violation:
            self._listener.broke(str(violation))


class Timers:
    """Named clocks, at most one of each name."""

    def __init__(self) -> None:
        self._clocks: dict[str, _Clock] = {}

    def start(self, name: str, delay: float, action: Callable[..., object], *arguments: object) -> None:
        clock = self._clocks.get(name)
        if clock is None:
            clock = self._clocks[name] = _Clock()
        clock.start(delay, action, arguments)

    def stop(self, name: str) -> None:
        if (clock := self._clocks.get(name)) is not None:
            clock.action = None

    def stop_all(self) -> None:
        """For good, so that the loop does not keep what they would have called."""
        for clock in self._clocks.values():
            clock.cancel()


class _Clock:
    """Most deadlines are never reached, and every block has some: the loop's own timer is left where it is, and looks at the
    true time when it goes off."""

    __slots__ = ("_loop", "_timer", "action", "arguments", "due_at")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.action: Callable[..., object] | None = None
        self.arguments: tuple[object, ...] = ()
        self.due_at = 0.0

    def start(self, delay: float, action: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self.due_at = self._loop.time() + delay
        self.action, self.arguments = action, arguments
        if self._timer is not None and self._timer.when() > self.due_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self.due_at, self._off)

    def cancel(self) -> None:
        self.action, self.arguments = None, ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _off(self) -> None:
        timer, self._timer = self._timer, None
        if self.action is None or timer is None:
            self.arguments = ()
        elif timer.when() < self.due_at:
            self._timer = self._loop.call_at(self.due_at, self._off)
        else:
            action, self.action = self.action, None
            action(*self.arguments)
