"""Servers of other makers, as processes, for the tests of our client."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
from tests.kit.children import PYTHONPATH, ROOT, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE, eventually
from tests.redis_server import free_port

from clicket import Runtime
from clicket.mcp import McpServer
from clicket.model import Record

SDK_SERVER = "tests.mcp.sdk_server"


class FarServer:
    """`tests/mcp/sdk_server.py` at a port. Its tasks are in the folder, so it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp/"

    async def start(self) -> None:
        command = [sys.executable, *forked(SDK_SERVER, "uvicorn"), "-m", SDK_SERVER, str(self.port), str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def answers() -> bool:
            with suppress(httpx2.TransportError):
                httpx2.get(self.url)
                return True
            return False

        await eventually(answers)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def joined(self, **options: Any) -> McpServer:
        return McpServer("far", url=self.url, **options)

    def release(self) -> None:
        (self.folder / "release").touch()

    def count(self, name: str) -> int:
        return count(self.folder, name)


def count(folder: Path, name: str) -> int:
    """How often the server did something."""
    file = folder / name
    return file.stat().st_size if file.exists() else 0


def over_stdio(folder: Path, **options: Any) -> McpServer:
    command = [sys.executable, *forked(SDK_SERVER), "-m", SDK_SERVER, "stdio", str(folder)]
    return McpServer("far", command=command, env={"PYTHONPATH": PYTHONPATH}, cwd=str(ROOT), **options)


async def asked(rt: Runtime, id: str, **more: Any) -> Record:
    """The call, once its tool asks a person."""

    async def look() -> Record | None:
        record = await rt.get(id, **more)
        assert not record.state.is_terminal, record.error or record.output
        return record if record.waiting_for == "approval" else None

    found: Record = await eventually(look)
    return found
