"""A program that uses tools, in a process that is killed in the middle of a use. Each effect is a line in a file."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, tool
from clicket.interpreter import code_interpreter

__all__ = ["CALL", "COUNT", "PROGRAM", "THREAD", "Death", "effects", "live", "tools_at"]

CALL, THREAD, COUNT = "program-1", "t", 6
PROGRAM = f"""
found = []
for n in range(1, {COUNT + 1}):
    try:
        found.append(tools.charge(n=n) if n % 2 else tools.look(n=n))
    except ToolError as error:
        found.append(error.code)
found
"""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """At the n-th use of a process (0: never): before its effect, or after it and before its result is known."""

    at: int
    when: str

    def __str__(self) -> str:
        return f"{self.when} {self.at}"


class Life(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death
    task: str = PROGRAM


def tools_at(folder: Path, death: Death | None = None) -> list[Any]:
    def act(name: str, n: int) -> str:
        if death is not None and (death.at, death.when) == (n, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        append_line(folder / "effects", [name, n])
        if death is not None and (death.at, death.when) == (n, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} {n}"

    @tool(max_retries=0)
    async def charge(n: int) -> str:
        """Has an effect, and must not be repeated."""
        return act("charge", n)

    @tool(read_only=True)
    async def look(n: int) -> str:
        return act("look", n)

    return [charge, look, code_interpreter(tools=["charge", "look"], warm=False, grace=0.3)]


def effects(folder: Path) -> list[list[Any]]:
    path = folder / "effects"
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def live(given: dict[str, Any]) -> None:
    """In a child process: start the program or resume it, and die on the way."""
    life = msgspec.convert(given, Life)
    asyncio.run(_ask(life))


async def _ask(life: Life) -> None:
    folder = Path(life.place.folder)
    async with Runtime(tools_at(folder, life.death), settings=life.place.settings()) as rt:
        say_ready()
        handle = await rt.submit("code_interpreter", {"task": life.task}, id=CALL, thread=THREAD)
        await handle.result()
