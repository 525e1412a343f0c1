"""The tool that runs a command in the sandbox, in the workspace's folder. Nothing runs where the sandbox is too weak."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clicket.model.names import AGENT_PART
from clicket.system.folder import FileRefused
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

if TYPE_CHECKING:
    from clicket.interpreter.sandbox import Sandbox, SandboxProcess

__all__ = ["CommandTool"]

_MAX_SECONDS = 600
_HALF = 100_000
"""Bytes of the beginning, and of the end, that are kept of a long output."""
_MAX_COMMAND = 20_000


class CommandTool(ToolDefaults):
    """What a command has done cannot be found out after a crash: its outcome is unknown then. `sandbox`: one of the program's own, which it
    closes itself."""

    is_async = True
    traits = Traits(listed=False, part_of=AGENT_PART)
    description = (
        "Run a command of the shell (sh) in the workspace, in a sandbox without network: to run tests, or to move and remove files. "
        "The result has the exit code, and the output with its errors."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "maxLength": _MAX_COMMAND},
            "timeout": {
                "type": "number",
                "minimum": 1,
                "maximum": _MAX_SECONDS,
                "default": 120,
                "description": "Seconds after which it is stopped.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }
    options = Options(timeout=_MAX_SECONDS + 120.0, max_retries=0)

    def __init__(self, name: str, folder: Path, sandbox: Sandbox | None = None) -> None:
        self.name: str = name
        self._folder = folder
        self._given = sandbox
        self._own: Sandbox | None = None

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if "\0" in arguments["command"]:
            raise FileRefused("a command has no NUL characters")
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str:
        from clicket.interpreter.sandbox.frames import pack

        process = await self._sandbox().start(
            "clicket.interpreter.sandbox.command_program", {"command": bound["command"]}
        )
        try:
            process.watching = True
            os.write(process.commands, pack({"op": "go"}))
            return await _followed(process, float(bound.get("timeout", 120)))
        finally:
            await process.close()

    async def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    def _sandbox(self) -> Sandbox:
        from clicket.interpreter.sandbox import Sandbox

        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = Sandbox(folder=self._folder)
        return self._own


async def _followed(process: SandboxProcess, seconds: float) -> str:
    """The output of a command until it ends, is stopped, or uses too much."""
    output = _Output()
    reading = asyncio.ensure_future(_read(process.stdout, output))
    try:
        either: set[asyncio.Future[Any]] = {process.exited, process.breach}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if process.breach.done():
            how = f"stopped: it used more {process.breach.result()} than a command may"
        elif not process.exited.done():
            how = f"stopped after {seconds:g} s"
        else:
            ended = process.exited.result()
            how = f"exit code {ended.code}" if ended.signal is None else f"killed by signal {ended.signal}"
            await asyncio.wait({reading}, timeout=0.2)  # what it started in the background may hold the pipe open
    finally:
        reading.cancel()
        await asyncio.wait({reading})
    return f"[{how}]\n{output.text}"


async def _read(fd: int, output: _Output) -> None:
    from clicket.interpreter.sandbox.descriptors import wait_readable

    while True:
        await wait_readable(fd)
        try:
            piece = os.read(fd, 65_536)
        except BlockingIOError:
            continue
        if not piece:
            return
        output.take(piece)


class _Output:
    """The beginning and the end of an output."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._size = 0

    def take(self, piece: bytes) -> None:
        self._size += len(piece)
        room = _HALF - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        del self._last[:-_HALF]

    @property
    def text(self) -> str:
        left_out = self._size - len(self._first) - len(self._last)
        note = f"\n[{left_out:,} bytes are left out]\n".encode() if left_out else b""
        return bytes(self._first + note + self._last).decode("utf-8", "replace")
