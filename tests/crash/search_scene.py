"""A deep search that is killed at a checkpoint. Its engine records each query that begins."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext
from clicket.search import Document, Index, deep_search

__all__ = ["CALL", "LONG", "QUESTION", "Death", "live", "searches", "tool_at"]

CALL = "search-1"
QUESTION = "In which borough was the man born with whom Ada Lovelace worked on the Analytical Engine?"
LONG = "The engine had a mill and a store. " * 300
DOCUMENTS = [
    (
        "ada",
        "Ada Lovelace",
        "Ada Lovelace was a mathematician. She worked with Charles Babbage on the Analytical Engine.",
    ),
    ("engine", "Analytical Engine", f"The Analytical Engine was designed by Charles Babbage. {LONG}"),
    ("charles", "Charles Babbage", "Charles Babbage was a professor at Cambridge. He was born in Walworth in 1791."),
    ("walworth", "Walworth", "Walworth is a district of South London, in the Borough of Southwark."),
    ("southwark", "Southwark", "The London Borough of Southwark lies on the south bank of the Thames."),
    ("cambridge", "Cambridge", "Cambridge is a city on the River Cam, known for its university."),
]


class Engine:
    """Each search takes a while: the last ones to start end first, one after the other."""

    name = "slow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = Index.open()
        self.index.add({"id": id, "title": title, "text": text} for id, title, text in DOCUMENTS)
        self._began = 0

    async def search(self, query: str, *, k: int = 10) -> Sequence[Document]:
        append_line(self.folder / "searches", query)
        self._began += 1
        await asyncio.sleep(0.002 * (5 - self._began % 5))
        return await self.index.search(query, k=4)


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """At the n-th checkpoint of a process (0: never): before it is stored, when its bytes are stored but its event is
    not, or after."""

    at: int
    when: str

    def __str__(self) -> str:
        return f"{self.when} {self.at}"


class Life(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death


def tool_at(folder: Path) -> Any:
    return deep_search.tool(engine=Engine(folder))


def searches(folder: Path) -> list[str]:
    path = folder / "searches"
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def live(given: dict[str, Any]) -> None:
    """In a child process: start the search or resume it, and die on the way."""
    life = msgspec.convert(given, Life)
    _doom(life.death)
    asyncio.run(_ask(life.place))


async def _ask(place: Place) -> None:
    async with Runtime([tool_at(Path(place.folder))], settings=place.settings()) as rt:
        say_ready()
        handle = await rt.submit("deep_search", {"query": QUESTION}, id=CALL)  # the same call, if it exists
        await handle.result()


def _doom(death: Death) -> None:
    kept, count = ToolContext.checkpoint, 0

    async def checkpoint(self: ToolContext, key: str, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == death.at and death.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == death.at and death.when == "half":
            self._sink._journal.record = _die  # type: ignore[attr-defined]
        await kept(self, key, data)
        if count == death.at:
            os.kill(os.getpid(), signal.SIGKILL)

    ToolContext.checkpoint = checkpoint  # type: ignore[method-assign]


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
