"""The four pipes of a sandbox process as one connection: command frames go in; answer frames, stdout and stderr come out.

It knows nothing of requests. After a frame that violates the protocol it delivers no further frames.
"""

from __future__ import annotations

from typing import Protocol

from clicket.interpreter.sandbox import SandboxProcess
from clicket.interpreter.session import protocol
from clicket.interpreter.session.block_run import Stream
from clicket.interpreter.session.pipes import PipeReader, PipeWriter

__all__ = ["Connection", "ConnectionListener"]


class ConnectionListener(Protocol):
    """Gets what the connection reads."""

    def on_output(self, stream: Stream, data: bytes) -> None: ...
    def on_frame(self, frame: protocol.Answer) -> None:
        """May raise `Violation`."""

    def on_violation(self, why: str) -> None: ...
    def on_eof(self) -> None: ...


class Connection:
    def __init__(self, process: SandboxProcess, listener: ConnectionListener) -> None:
        self._listener = listener
        self._frames = protocol.Frames()
        self._commands = PipeWriter(process.commands)
        self._answers = PipeReader(process.answers, self._on_answers, listener.on_eof)
        self._stdout = PipeReader(process.stdout, lambda data: listener.on_output("stdout", data))
        self._stderr = PipeReader(process.stderr, lambda data: listener.on_output("stderr", data))
        self._answers_closed = False

    def send(self, frame: bytes) -> None:
        self._commands.send(frame)

    @property
    def unsent(self) -> int:
        """Bytes that the child has not taken yet."""
        return self._commands.waiting_size

    async def drain_commands(self) -> None:
        """Wait until the child has taken everything that was sent, or the connection is closed."""
        await self._commands.drain()

    def read_answers(self) -> None:
        """Read answers; output stays as it is."""
        self._answers.resume()

    def read_all(self) -> None:
        for reader in (self._answers, self._stdout, self._stderr):
            reader.resume()

    def pause_all(self) -> None:
        """Read nothing for now: the program blocks when its pipes are full."""
        for reader in (self._answers, self._stdout, self._stderr):
            reader.pause()

    def pause_output(self) -> None:
        """Leave output in the pipes: it belongs to the next block."""
        self._stdout.pause()
        self._stderr.pause()

    def drain_answers(self) -> None:
        """Deliver the answers that are in the pipe now."""
        self._answers.drain()

    def drain_output(self) -> None:
        self._stdout.drain()
        self._stderr.drain()

    def close_answers(self) -> None:
        """Deliver no further answers. Output that is in the pipes can still be drained."""
        self._answers_closed = True
        self._answers.stop()
        self._commands.stop()
        self.pause_output()

    def close(self) -> None:
        self.close_answers()
        self._stdout.stop()
        self._stderr.stop()

    def _on_answers(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._answers_closed:
                    return
                self._listener.on_frame(frame)
        except protocol.Violation as violation:
            self._listener.on_violation(str(violation))
