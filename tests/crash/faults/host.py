"""Starts `program` in a child process, sends it requests, and ends it after the test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.faults.shim import ROOT, Control, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE

__all__ = ["Child", "Refused", "child"]

PROGRAM = "tests.crash.faults.program"


class Refused(Exception):
    """The child raised. `type`, `code` and `message` are those of its error."""

    def __init__(self, type: str, code: str | None, message: str) -> None:
        super().__init__(f"{type}: {message}")
        self.type, self.code, self.message = type, code, message


class Child:
    """`ask` waits for the answer; `begin` returns a task, for requests that take long."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self.process = process
        self._errors = errors
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._begun: list[asyncio.Future[Any]] = []
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        opened = self._expect(0)
        self._closed = self._expect(-1)
        self._reader = asyncio.create_task(self._read())
        try:
            await asyncio.wait_for(opened, PATIENCE)
        except BaseException:
            await self.end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.end()

    def _expect(self, n: int) -> asyncio.Future[Any]:
        self._waiting[n] = asyncio.get_running_loop().create_future()
        return self._waiting[n]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            response = json.loads(line)
            waiting = self._waiting.pop(response["n"], None)
            if waiting is None or waiting.done():
                continue
            if "error" in response:
                waiting.set_exception(Refused(**response["error"]))
            else:
                waiting.set_result(response["value"])
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EOFError(f"the child ended: {self.errors[-2000:]}"))

    @property
    def errors(self) -> str:
        """What the child wrote to stderr."""
        return self._errors.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    def begin(self, what: str, **given: Any) -> asyncio.Future[Any]:
        n = next(self._numbers)
        answer = self._expect(n)
        self._begun.append(answer)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"n": n, "do": what, **given}).encode() + b"\n")
        return answer

    async def ask(self, what: str, **given: Any) -> Any:
        return await asyncio.wait_for(self.begin(what, **given), PATIENCE)

    async def close(self) -> None:
        """Ask the child to close its runtime and exit."""
        self.begin("close")
        await asyncio.wait_for(self._closed, PATIENCE)
        await asyncio.wait_for(self.process.wait(), PATIENCE)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def end(self) -> None:
        """Kill the child in any state."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        await self.process.wait()
        if self._reader is not None:
            await self._reader
        for answer in [*self._waiting.values(), *self._begun]:
            if answer.done() and not answer.cancelled():
                answer.exception()  # mark the error as retrieved
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await self.process.stdin.wait_closed()


@asynccontextmanager
async def child(
    folder: Path, *, control: Control | None = None, root: Path | None = None, log: Path | None = None, **settings: Any
) -> AsyncIterator[Child]:
    """A child with an open runtime; `settings` are those of `Settings`. Raises `Refused` if it could not be opened."""
    errors = folder / "stderr.txt"
    given = {"cancel_grace": 0.2, "close_timeout": 5.0, **settings}
    with errors.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *forked(PROGRAM), "-m", PROGRAM, json.dumps(given),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=stderr, limit=2**24,
            cwd=ROOT, env=environment(control, root=root, log=log),
        )  # fmt: skip
    async with Child(process, errors) as started:
        yield started
