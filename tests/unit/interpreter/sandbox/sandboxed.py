"""Shared by the tests of the sandbox: a sandbox that is closed at the end, and a program in it that runs given code."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE

from clicket.interpreter.sandbox import Sandbox, SandboxProcess, frames
from clicket.interpreter.sandbox.descriptors import send, wait_readable

PROGRAM = "sandboxed_program"
IS_ROOT = os.geteuid() == 0
SYSTEM_PYTHON = "/usr/bin/python3"


class SandboxedProgram:
    """A program in the sandbox that runs the code that it receives."""

    def __init__(self, process: SandboxProcess) -> None:
        self.process = process
        self._read = b""

    async def run(self, code: str) -> Any:
        await self.begin(code)
        return await self.answer()

    async def begin(self, code: str) -> None:
        await send(self.process.commands, frames.pack({"code": textwrap.dedent(code)}))

    async def answer(self) -> Any:
        found = await self.frame()
        if found["error"] is not None:
            raise RuntimeError(found["error"])
        return found["value"]

    async def frame(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while len(self._read) < 4 or len(self._read) < 4 + int.from_bytes(self._read[:4], "big"):
                await wait_readable(self.process.answers)
                piece = os.read(self.process.answers, 65536)
                if not piece:
                    raise EOFError(os.read(self.process.stderr, 4096).decode())
                self._read += piece
        size = int.from_bytes(self._read[:4], "big")
        found, self._read = self._read[4 : 4 + size], self._read[4 + size :]
        answer: dict[str, Any] = json.loads(found)
        return answer


@contextmanager
def programs() -> Iterator[Path]:
    """A folder that every user may read, with the program in it."""
    with tempfile.TemporaryDirectory(prefix="clicket-programs-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        shutil.copy(Path(__file__).with_name(f"{PROGRAM}.py"), path)
        (path / f"{PROGRAM}.py").chmod(0o644)
        yield path


@asynccontextmanager
async def sandbox(**options: Any) -> AsyncIterator[Sandbox]:
    with programs() as folder:
        made = Sandbox(path=[folder], **options)
        try:
            yield made
        finally:
            await made.close()


@asynccontextmanager
async def sandboxed(**options: Any) -> AsyncIterator[SandboxedProgram]:
    """One program; `settings` are the program's, all other arguments the sandbox's."""
    settings = options.pop("settings", {})
    async with sandbox(**options) as made:
        yield await start(made, settings)


async def start(made: Sandbox, settings: dict[str, Any] | None = None) -> SandboxedProgram:
    found = SandboxedProgram(await made.start(PROGRAM, settings or {}))
    ready = await found.frame()
    assert ready["type"] == "ready", ready
    return found


def groups(name: str) -> list[str]:
    """The cgroups named after a home."""
    found = []
    for folder, inner, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(folder, one) for one in inner if one.startswith(name)]
    return found
