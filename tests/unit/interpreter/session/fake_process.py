"""A fake sandbox process: only its pipes, so that a session can be tested with any bytes and any exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.kit.waiting import PATIENCE

from clicket.interpreter.sandbox.frames import pack
from clicket.interpreter.session.session import BlockEnd, Session
from clicket.sandbox import Exit, Isolation


class FakeSandboxProcess:
    """Four pipes whose other end the test holds. Records what the session requests."""

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

    def cpu_time(self) -> float:
        return 0.0

    def freeze(self) -> None:
        self.asked.append("freeze")

    def thaw(self) -> None:
        self.asked.append("thaw")

    def close_inside(self, fd: int) -> None:
        """The program closes one of its own pipes."""
        self._fds.remove(fd)
        os.close(fd)

    def exit(self, **how: Any) -> None:
        if not self.exited.done():
            self.exited.set_result(Exit(**how))

    async def close(self) -> None:
        self.exit(signal=9)
        await asyncio.sleep(0)
        while self._fds:
            os.close(self._fds.pop())


class FakeSandbox:
    """A sandbox that starts the given process."""

    def __init__(self, process: FakeSandboxProcess) -> None:
        self._process = process

    async def start(self, program: str, settings: Mapping[str, Any]) -> FakeSandboxProcess:
        return self._process


READY = {"type": "ready", "layers": ["seccomp"], "python": "3.11.7"}


def done(id: int = 1, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "done", "id": id, "status": status, **more}


@contextlib.asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[Session, FakeSandboxProcess]]:
    """A session that is ready. Fails if an exception gets lost in the event loop."""
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    process = FakeSandboxProcess()
    process.say(**READY)
    session = await Session.start(FakeSandbox(process), **options)
    try:
        yield session, process
    finally:
        await session.close()
        asyncio.get_running_loop().set_exception_handler(None)
    assert lost == []


async def follow(session: Session) -> tuple[list[Any], BlockEnd]:
    async with asyncio.timeout(PATIENCE):
        *items, ended = [item async for item in session.watch()]
    assert isinstance(ended, BlockEnd)
    return items, ended


async def outcome(session: Session) -> tuple[str, str | None]:
    _, ended = await follow(session)
    return ended.status, ended.reason


async def pour(process: FakeSandboxProcess, size: int) -> int:
    """Write until all is written, or the pipe stays full for a while."""
    os.set_blocking(process.inside_stdout, False)
    poured = refused = 0
    while poured < size and refused < 200:
        try:
            poured += os.write(process.inside_stdout, b"x" * min(65_536, size - poured))
            refused = 0
        except BlockingIOError:
            refused += 1
        await asyncio.sleep(0)
    return poured


async def read_pipe(fd: int) -> bytes:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(BlockingIOError):
                return os.read(fd, 1000)
            await asyncio.sleep(0.001)
