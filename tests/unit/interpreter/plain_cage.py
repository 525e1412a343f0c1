"""Stand-ins for the sandbox: cages without walls, so that a session can be tested alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clicket.sandbox import Exit, Isolation
from clicket.sandbox.frames import pack

SOURCE = str(Path(__file__).resolve().parents[3] / "src")


class PipeCage:
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


class PlainCage(PipeCage):
    """The same in front of a real process. No walls at all: only for programs of our own."""

    def __init__(self, program: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__()
        line = (
            f"import sys; sys.path.insert(0, {SOURCE!r}); sys.path.insert(0, {str(Path(__file__).parent)!r}); sys.path.insert(0, '/tmp/toy');"
            "from clicket.sandbox.boot import main;"
            "import os; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); main(3, 4)"
        )
        inside = self.inside_commands, self.inside_answers
        os.set_blocking(self.inside_commands, True)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", line, *map(str, inside)],
            stdin=subprocess.DEVNULL,
            stdout=self.inside_stdout,
            stderr=self.inside_stderr,
            pass_fds=inside,
            cwd=home,
            start_new_session=True,
        )
        for fd in (*inside, self.inside_stdout, self.inside_stderr):
            os.close(fd)
            self._fds.remove(fd)
        order = {"op": "boot", "program": program, "home": str(home), "path": [], "settings": dict(settings)}
        os.write(self.commands, pack(order))
        self._pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        self.exit(**({"signal": -code} if code < 0 else {"code": code}))

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL, group=True)

    def freeze(self) -> None:
        self.asked.append("freeze")
        self._signal(signal.SIGSTOP, group=True)

    def thaw(self) -> None:
        self.asked.append("thaw")
        self._signal(signal.SIGCONT, group=True)

    def _signal(self, number: int, *, group: bool = False) -> None:
        if self._process.returncode is None:
            (os.killpg if group else os.kill)(self._process.pid, number)

    async def close(self) -> None:
        self.kill()
        await asyncio.shield(self.exited)
        await super().close()


class PlainSandbox:
    """Starts plain cages, or gives away one that it was given."""

    def __init__(self, home: Path, program: str | None = None) -> None:
        self._home = home
        self._program = program

    async def start(self, program: str, settings: Mapping[str, Any]) -> PlainCage:
        return PlainCage(self._program or program, settings, self._home)


class OneCage:
    def __init__(self, cage: PipeCage) -> None:
        self._cage = cage

    async def start(self, program: str, settings: Mapping[str, Any]) -> PipeCage:
        return self._cage
