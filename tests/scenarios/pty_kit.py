"""A command at a terminal of its own: what it draws is read as a person would see it, and answered when it asks."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Self

from tests.scenarios.cli_kit import PATIENCE, PROGRAM, Place

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Seat:
    """`with Seat(place, "chat") as seat: seat.sees("> "); seat.types("hello\\n")`."""

    def __init__(self, place: Place, *arguments: str, **environment: str) -> None:
        ours, theirs = pty.openpty()
        self._fd = ours
        self._raw = b""
        self._read_to = 0
        names = {"TERM": "xterm", "COLUMNS": "160", "LINES": "50", **environment}
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=place.folder,
            env={**place.environment, **names},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  # no thread of ours runs meanwhile
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._fd)

    @property
    def seen(self) -> str:
        """Everything so far, without what moves the cursor or colours."""
        return _CONTROLS.sub("", self._raw.decode("utf-8", "replace")).replace("\r", "")

    def sees(self, text: str) -> str:
        """Wait until the text is there, after what was waited for before; what came up to it."""
        give_up_at = time.monotonic() + PATIENCE
        while (found := self.seen.find(text, self._read_to)) < 0:
            assert self._more(), f"ended before {text!r}: {self.seen}"
            assert time.monotonic() < give_up_at, f"no {text!r} in time: {self.seen}"
        before = self.seen[self._read_to : found]
        self._read_to = found + len(text)
        return before

    def types(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def presses_ctrl_c(self) -> None:
        self.types("\x03")

    def insists(self, text: str) -> None:
        """Ctrl-C until the text is there: between two reads of a line Python's line editor does not hear it. As a person would,
        a few times a second: a terminal that echoes each would drown the program otherwise."""
        alive = True
        while alive and text not in self.seen[self._read_to :]:
            with suppress(OSError):
                self.presses_ctrl_c()
            again_at = time.monotonic() + 0.5
            while alive and text not in self.seen[self._read_to :] and time.monotonic() < again_at:
                alive = self._more()
        self.sees(text)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def ended(self) -> int:
        """Its exit code, once it has one."""
        while self._more():
            pass
        return self.process.wait(PATIENCE)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], 0.5)
        if not ready:
            return True
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # nobody is at the other end any more
            return False
        self._raw += piece
        return bool(piece)


def _take_terminal() -> None:
    """Ctrl-C reaches whom the terminal belongs to."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
