"""Runtimes in their own processes, controlled by a test with JSON lines on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.fleet_tools import traces

CHILD = "tests.scenarios.fleet_child"


class Member:
    """One process of the fleet."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            answer = json.loads(line)
            waiting = self._answers.pop(answer["number"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the process is gone"))

    def begin(self, what: str, *args: Any, **given: Any) -> asyncio.Future[Any]:
        """Send a request without waiting for the answer."""
        assert self.process.stdin is not None
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        order = {"number": self._number, "do": what, "args": args, "given": given}
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        return answer

    async def do(self, what: str, *args: Any, **given: Any) -> Any:
        """Call a method of its runtime; the answer is plain JSON."""
        answer = await asyncio.wait_for(self.begin(what, *args, **given), PATIENCE)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def leave(self) -> None:
        """Ask it to close its runtime and exit."""
        await self.do("close")
        assert await asyncio.wait_for(self.process.wait(), PATIENCE) == 0

    async def gone(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reader
        assert self.process.stdin is not None
        with suppress(
            OSError
        ):  # the pipe is closed before the loop: asyncio would close it later, on a loop that has ended
            self.process.stdin.close()
            await self.process.stdin.wait_closed()
        for answer in self._answers.values():
            if answer.done() and not answer.cancelled():
                answer.exception()


@asynccontextmanager
async def member(store: str, *tools: str, **settings: Any) -> AsyncIterator[Member]:
    """A process with an open runtime that has these tools of the fleet, or all."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *forked(CHILD), "-m", CHILD, store, json.dumps(tools), json.dumps(settings),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24, cwd=ROOT,
        env=environment(),
    )  # fmt: skip
    one = Member(process)
    try:
        await one.do("open")
        yield one
    finally:
        await one.gone()


async def until_traced(folder: Path, count: int, kind: str | None = None, timeout: float = PATIENCE) -> list[list[str]]:
    """The lines that tools have written, once there are that many (of a kind)."""

    def look() -> Any:
        found = [line for line in traces(folder) if kind is None or line[0] == kind]
        return found if len(found) >= count else None

    found: list[list[str]] = await eventually(look, timeout=timeout)
    return found
