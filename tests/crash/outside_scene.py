"""Processes to be killed at each commit of a reconcile, of a completion by token, and of a settlement by a person."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.failpoints import Point, arm
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line
from tests.kit.waiting import PATIENCE

from clicket import DidNotHappen, Happened, Runtime, ToolContext, tool
from clicket.tools.reconcile import CallInDoubt
from clicket.tools.rest import OutcomeUnknown

__all__ = ["CALL", "Scene", "complete", "reconcile", "resolve", "tools_of"]

CALL = "c"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Die before or after append number `nth` (0: never)."""

    place: Place
    nth: int = 0
    side: str = "before"

    def arm(self) -> None:
        if self.nth:
            point = Point(name=f"append {self.side}", target="append", side=self.side, often=1)
            arm(point, self.nth, Path(self.place.folder, "kills"))


def tools_of(folder: Path) -> list[Any]:
    def paid(key: str) -> bool:
        return key in [line[1] for line in read_lines(folder / "effects", list[str])]

    async def check(call: CallInDoubt, ctx: ToolContext) -> Any:
        return Happened("found") if paid(call.idempotency_key) else DidNotHappen()

    @tool(reconcile=check, timeout=60.0)
    async def pay(pays_first: bool, ctx: ToolContext) -> str:
        """The first attempt never returns."""
        if pays_first or ctx.attempt > 1:
            append_line(folder / "effects", ["pay", ctx.idempotency_key])
        if ctx.attempt == 1:
            await asyncio.sleep(600)
        return "paid"

    @tool(external=True, timeout=60.0)
    async def job(ctx: ToolContext) -> None:
        token = ctx.pending(token_for="the vendor").token
        append_line(folder / "effects", ["job", token])

    @tool(max_retries=0)
    async def wire(ctx: ToolContext) -> str:
        """Of the first call nobody knows what became of it."""
        if ctx.call_id == CALL:
            raise OutcomeUnknown("no answer")
        append_line(folder / "effects", ["wire", ctx.call_id])
        return "wired"

    return [pay, job, wire]


def reconcile(given: dict[str, Any]) -> None:
    """In a child: take the payment in doubt over, and bring it to its end."""
    asyncio.run(_until_ended(msgspec.convert(given, Scene)))


async def _until_ended(scene: Scene) -> None:
    scene.arm()
    async with Runtime(tools_of(Path(scene.place.folder)), settings=scene.place.settings()) as rt:
        while not (await rt.state(CALL)).is_terminal:
            await asyncio.sleep(0.002)


def complete(given: dict[str, Any]) -> None:
    """In a child: begin a job, and complete it by its token."""
    asyncio.run(_complete(msgspec.convert(given, Scene)))


async def _complete(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    scene.arm()
    async with Runtime(tools_of(folder), settings=scene.place.settings()) as rt:
        handle = await rt.submit("job", id=CALL)
        while (await rt.get(CALL)).waiting_for != "external":
            await asyncio.sleep(0.002)
        (token,) = [line[1] for line in read_lines(folder / "effects", list[str])]
        await rt.complete(token, "by the child")
        append_line(folder / "acks", "completed")
        await handle.result(timeout=PATIENCE)


def resolve(given: dict[str, Any]) -> None:
    """In a child: settle a call whose outcome is unknown, and run it again."""
    asyncio.run(_resolve(msgspec.convert(given, Scene)))


async def _resolve(scene: Scene) -> None:
    scene.arm()
    async with Runtime(tools_of(Path(scene.place.folder)), settings=scene.place.settings()) as rt:
        record = await rt.resolve(CALL, happened=False, rerun=True, by="ann")
        append_line(Path(scene.place.folder, "acks"), "resolved")
        assert record.resolution is not None
        handle = await rt.handle(record.resolution["rerun_as"])
        await handle.result(timeout=PATIENCE)
