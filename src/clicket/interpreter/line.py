"""The four pipes of a cage as one line: commands go in, answers and output come out. It keeps no state of its own about what was
asked; what it cannot understand it reports, and is silent from then on."""

from __future__ import annotations

import asyncio
from typing import Protocol

from clicket.interpreter import wire
from clicket.interpreter.pipes import Inlet, Outlet
from clicket.interpreter.watched import Stream
from clicket.sandbox import Cage

__all__ = ["Line", "Listener", "Timers"]


class Listener(Protocol):
    """Who is at our end."""

    def wrote(self, stream: Stream, data: bytes) -> None: ...
    def heard(self, frame: wire.Answer) -> None:
        """May raise `Violation`."""

    def broke(self, why: str) -> None: ...
    def fell_silent(self) -> None: ...


class Line:
    def __init__(self, cage: Cage, listener: Listener) -> None:
        self._listener = listener
        self._frames = wire.Frames()
        self._commands = Outlet(cage.commands)
        self._answers = Inlet(cage.answers, self._hear, listener.fell_silent)
        self._stdout = Inlet(cage.stdout, lambda data: listener.wrote("stdout", data))
        self._stderr = Inlet(cage.stderr, lambda data: listener.wrote("stderr", data))
        self._deaf = False

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
        """Hear no more answers. Output that is in the pipes can still be taken."""
        self._deaf = True
        self._answers.end()
        self._commands.end()
        self.rest()

    def close(self) -> None:
        self.hang_up()
        self._stdout.end()
        self._stderr.end()

    def _hear(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._deaf:
                    return
                self._listener.heard(frame)
        except wire.Violation as violation:
            self._listener.broke(str(violation))


class Timers:
    """Named clocks, at most one of each name."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def start(self, name: str, delay: float, action: object, *arguments: object) -> None:
        self.stop(name)
        self._handles[name] = self._loop.call_later(delay, action, *arguments)  # type: ignore[arg-type]

    def stop(self, *names: str) -> None:
        for name in names:
            if (handle := self._handles.pop(name, None)) is not None:
                handle.cancel()

    def stop_all(self) -> None:
        self.stop(*list(self._handles))
