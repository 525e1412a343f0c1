"""A stand-in for a cage: only its pipes, so that a session can be tested with whatever may come out of one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from clicket.sandbox import Exit, Isolation
from clicket.sandbox.frames import pack


class FakeSandboxProcess:
    """Four pipes and nobody behind them but the test. Notes what the session asks of it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.inside_commands, self.commands = os.pipe()
        self.answers, self.inside_answers = os.pipe()
        self.stdout, self.inside_stdout = os.pipe()
        self.stderr, self.inside_stderr = os.pipe()
        for fd in (self.commands, self.answers, self.stdout, self.stderr, self.inside_commands):
            os.set_blocking(fd, False)
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self.breach: asyncio.Future[str] = loop.create_future()
        self.isolation = Isolation(level="none")
        self.watching = False
        self.asked: list[str] = []
        self.dies = True
        self._fds = [
            self.inside_commands,
            self.commands,
            self.answers,
            self.inside_answers,
            self.stdout,
            self.inside_stdout,
            self.stderr,
            self.inside_stderr,
        ]

    def say(self, **frame: Any) -> None:
        os.write(self.inside_answers, pack(frame))

    def interrupt(self) -> None:
        self.asked.append("interrupt")

    def kill(self) -> None:
        self.asked.append("kill")
        if self.dies:
            self.exit(signal=9)

    def freeze(self) -> None:
        self.asked.append("freeze")

    def thaw(self) -> None:
        self.asked.append("thaw")

    def exit(self, **how: Any) -> None:
        if not self.exited.done():
            self.exited.set_result(Exit(**how))

    async def close(self) -> None:
        self.exit(signal=9)
        await asyncio.sleep(0)
        while self._fds:
            os.close(self._fds.pop())


class FakeSandbox:
    """A sandbox that starts the cage it was given."""

    def __init__(self, process: FakeSandboxProcess) -> None:
        self._process = process

    async def start(self, program: str, settings: Mapping[str, Any]) -> FakeSandboxProcess:
        return self._process
