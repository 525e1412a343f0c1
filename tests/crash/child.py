"""A process that works over a store until it is killed. It appends every answer that it gets to a file before it
continues.

Its work is drawn from its seed: `submit`, `call` and `call_many`, with and without ids, with ids of earlier processes,
cancellations, approvals and denials, readers of a call's events. It dies at an armed failpoint, or when its parent
kills it, or, when all is done, by its own signal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import traceback
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.failpoints import Point, arm
from tests.crash.judge import Ack
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import APART, POLICY, TOOLS, append_line, arguments, tools

from clicket import ClicketError, Conflict, Runtime, ToolCall, ToolResult
from clicket.engine import CallHandle

_NO_OUTCOME = ("queue_full", "conflict", "store_unavailable", "closed", "fenced", "usage")
"""Codes of `call_many` for: there is no call, or its outcome is not known here."""

__all__ = ["Life", "acknowledge", "live", "own_id"]


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What one child does. `seed` is the run's, `name` is unique within the run."""

    seed: str
    name: str
    place: Place
    apart: bool = False
    engine: str = "local"
    """"workers": other processes run its calls."""
    calls: int = 12
    span: float = 0.15
    """Seconds over which its calls are spread."""
    limit: float = 1.0
    """Seconds after which it stops waiting for its calls."""
    point: Point | None = None
    nth: int = 1
    ending: str = "kill"
    """When all is done: "kill", or "close" to close the runtime."""
    earlier: tuple[str, ...] = ()
    """Ids that other processes of the run may have submitted."""


def names(*, apart: bool) -> list[str]:
    return [tool.name for tool in (*TOOLS, *(APART * 2 if apart else ()))]


def own_id(life: Life, number: int) -> str:
    """The id of a child's n-th call, which begins with its tool's name."""
    chance = random.Random(f"{life.seed} {life.name} tool {number}")
    tool = chance.choice(names(apart=life.apart))
    if life.point is not None and life.point.tool is not None and number % 2:
        tool = life.point.tool
    return f"{tool}-{life.name}-{number}"


def live(given: dict[str, Any]) -> None:
    """Runs one child as its `Life` describes."""
    life = msgspec.convert(given, Life)
    folder = Path(life.place.folder)
    if life.point is not None:
        arm(life.point, life.nth, folder / "kills")
    logging.getLogger("clicket").addHandler(_Log(folder))
    logging.getLogger("asyncio").addHandler(_Log(folder))
    try:
        asyncio.run(_Child(life).main())
    except BaseException:
        acknowledge(folder, Ack(did="trouble", text=f"{life.name}: {traceback.format_exc(limit=-4)}"))


def acknowledge(folder: Path, ack: Ack) -> None:
    append_line(folder / "acks", msgspec.to_builtins(ack))


class _Log(logging.Handler):
    """Errors in the library's log count as trouble."""

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.ERROR)
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)[-3:])
        acknowledge(self._folder, Ack(did="trouble", text=f"log: {text}"))


class _Child:
    def __init__(self, life: Life) -> None:
        self.life = life
        self.folder = Path(life.place.folder)
        self.chance = random.Random(f"{life.seed} {life.name}")
        self.names = names(apart=life.apart)
        self.closing = False
        self.rt: Runtime

    async def main(self) -> None:
        life = self.life
        patience = 0.01 if life.limit < 0.5 else 1.0  # close() hands unfinished calls back
        settings = life.place.settings(max_concurrency=4, engine=life.engine, close_timeout=patience)
        self.rt = Runtime(tools(apart=life.apart), policy=POLICY, settings=settings)
        await self.rt.open()
        say_ready()
        working = [asyncio.create_task(self._guarded(self._one(n))) for n in range(life.calls)]
        working.append(asyncio.create_task(self._guarded(self._many())))
        deciding = asyncio.create_task(self._guarded(self._decide()))
        await asyncio.wait(working, timeout=life.limit)
        if life.ending == "kill":
            append_line(self.folder / "kills", "end of work")
            os.kill(os.getpid(), signal.SIGKILL)
        self.closing = True
        await self.rt.close()
        for task in (*working, deciding):
            task.cancel()
        await asyncio.gather(*working, deciding, return_exceptions=True)

    def _acknowledge(self, did: str, id: str = "", **fields: Any) -> None:
        acknowledge(self.folder, Ack(did=did, id=id, **fields))

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if not (self.closing and isinstance(error, ClicketError)):  # an error during close is not a problem
                self._acknowledge("trouble", text=f"{self.life.name}: {traceback.format_exc(limit=-3)}")

    # Calls.

    async def _one(self, number: int) -> None:
        chance = random.Random(f"{self.life.seed} {self.life.name} {number}")
        id: str | None = own_id(self.life, number)
        name = own_id(self.life, number).split("-")[0]
        if chance.random() < 0.2:
            id = None
        elif self.life.earlier and chance.random() < 0.2:
            id = chance.choice(self.life.earlier)
            name = id.split("-")[0]
        given = self._given(name, id or f"{name}-{number}")
        await asyncio.sleep(chance.uniform(0, self.life.span))
        if chance.random() < 0.4:
            self._result(await self.rt.call(name, given, id=id))
            return
        handle = await self.rt.submit(name, given, id=id)
        self._acknowledge("submit", handle.id)
        what = chance.random()
        if what < 0.2:
            await asyncio.sleep(chance.choice((0, 0.002, 0.02)))
            self._acknowledge("cancel", handle.id, took=await handle.cancel("enough"))
        elif what < 0.3:
            await self._conflict(name, handle, given)
        if what < 0.5:
            await self._follow(handle)
        self._result(await handle.result())

    def _given(self, name: str, id: str) -> dict[str, Any]:
        return arguments(self.life.seed, id, name, self.life.place.folder)

    async def _many(self) -> None:
        calls = []
        for number in range(self.chance.randint(0, 4)):
            name = self.chance.choice(self.names)
            id = f"{name}-{self.life.name}-many{number}"
            calls.append(ToolCall(name, self._given(name, id), id=id if self.chance.random() < 0.5 else None))
        await asyncio.sleep(self.chance.uniform(0, self.life.span))
        for result in await self.rt.call_many(calls, max_concurrency=3):
            self._result(result)

    def _result(self, result: ToolResult) -> None:
        code = result.error.code if result.error is not None else None
        if not result.call_id or code in _NO_OUTCOME:
            if not self.closing:
                self._acknowledge("trouble", text=f"{self.life.name}: a call was answered with {result.error}")
        else:
            output = None if result.artifact is not None else result.output
            self._acknowledge(
                "result", result.call_id, state=result.state.value, code=code, output=output, artifact=result.artifact
            )

    async def _conflict(self, name: str, handle: CallHandle, given: dict[str, Any]) -> None:
        try:
            await self.rt.submit(name, {**given, "before": 0.5}, id=handle.id)
        except Conflict:
            return
        self._acknowledge("trouble", handle.id, text="other arguments under its id were taken")

    async def _follow(self, handle: CallHandle) -> None:
        async for event in handle.events():
            self._acknowledge("saw", handle.id, seq=event.seq, type=event.type, state=event.state.value)

    # Decisions.

    async def _decide(self) -> None:
        """Now and then, decides each call that waits for an approval."""
        while True:
            await asyncio.sleep(self.chance.uniform(0, self.life.span))
            for record in (await self.rt.history(active=True)).items:
                if record.waiting_for == "approval":
                    by = f"{self.life.name} {self.chance.random()}"
                    decide = self.rt.approve if self.chance.random() < 0.7 else self.rt.deny
                    took = await decide(record.id, thread=record.thread, by=by)
                    self._acknowledge("decide", record.id, took=took, text=by)
