"""Runs a command in a pseudo-terminal: reads its output, and types answers."""

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

from tests.kit.forks import take_terminal
from tests.scenarios.cli_kit import PATIENCE, PROGRAM, Place

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class PseudoTerminal:
    """`with PseudoTerminal(place, "chat") as terminal: terminal.wait_for("> "); terminal.type("hello\\n")`."""

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
            preexec_fn=take_terminal,  # noqa: PLW1509  # no thread of ours runs meanwhile
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
        """The whole output so far, without control sequences."""
        return _CONTROLS.sub("", self._raw.decode("utf-8", "replace")).replace("\r", "")

    def wait_for(self, text: str) -> str:
        """Wait for a text after the previous match. Returns the output before it."""
        give_up_at = time.monotonic() + PATIENCE
        while (found := self.seen.find(text, self._read_to)) < 0:
            assert self._more(), f"ended before {text!r}: {self.seen}"
            assert time.monotonic() < give_up_at, f"no {text!r} in time: {self.seen}"
        before = self.seen[self._read_to : found]
        self._read_to = found + len(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def press_ctrl_c_until(self, text: str) -> None:
        """Press Ctrl-C twice a second until the text appears: between two reads of a line, Python's line editor ignores it."""
        alive = True
        while alive and text not in self.seen[self._read_to :]:
            with suppress(OSError):
                self.press_ctrl_c()
            again_at = time.monotonic() + 0.5
            while alive and text not in self.seen[self._read_to :] and time.monotonic() < again_at:
                alive = self._more()
        self.wait_for(text)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def wait(self) -> int:
        """Wait for the exit code."""
        while self._more():
            pass
        return self.process.wait(PATIENCE)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], 0.5)
        if not ready:
            return True
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # the other end is closed
            return False
        self._raw += piece
        return bool(piece)
