"""Processes that fire schedules and calls with `not_before`, and die at an armed point of the store."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.failpoints import Point, arm
from tests.crash.nest import say_ready
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.runtime.schedules.schedule import KIND, StoredSchedule, document_key
from clicket.runtime.schedules.scheduler import stored_in

__all__ = ["BEHIND", "NAME", "Scene", "act", "backdate", "effects", "make_tool", "stored_schedule"]

NAME = "minutely"
BEHIND = 4
"""Minutes that the schedule is behind when the first process begins."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    point: str = ""
    """A method of the store; empty: it is not armed, and runs until it is killed."""
    side: str = "before"
    nth: int = 1
    later: tuple[str, ...] = ()
    """Ids of calls to submit that are due soon."""
    seconds: float = 3.0


def make_tool(folder: Path) -> Any:
    @tool(max_retries=0)
    async def once(ctx: ToolContext) -> str:
        append_line(folder / "effects", ctx.call_id)
        return ctx.call_id

    return once


def effects(place: Place) -> list[str]:
    return read_lines(Path(place.folder, "effects"), str)


async def stored_schedule(rt: Runtime) -> StoredSchedule:
    document = await rt.store.document(KIND, document_key(NAME, ""))
    assert document is not None
    stored = stored_in(document)
    assert stored is not None
    return stored


async def backdate(place: Place, **options: Any) -> float:
    """Make the schedule, and let it be some minutes behind; returns the time up to which it is decided."""
    async with Runtime([make_tool(Path(place.folder))], settings=place.settings()) as rt:
        rt.stop_claiming()  # so that it fires nothing
        await rt.schedule(NAME, "* * * * *", "once", catch_up="all", **options)
        stored = await stored_schedule(rt)
        since = time.time() // 60 * 60 - BEHIND * 60
        behind = msgspec.structs.replace(stored, schedule=msgspec.structs.replace(stored.schedule, last_due=since))
        await rt.store.put_document(KIND, document_key(NAME, ""), msgspec.json.encode(behind), None)
    return since


def act(given: dict[str, Any]) -> None:
    asyncio.run(_act(msgspec.convert(given, Scene)))


async def _act(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    if scene.point:
        point = Point(name=f"{scene.point} {scene.side}", target=scene.point, side=scene.side, often=1)
        arm(point, scene.nth, folder / "kills")
    async with Runtime([make_tool(folder)], settings=scene.place.settings()) as rt:
        say_ready()
        for id in scene.later:
            await rt.submit("once", id=id, not_before=time.time() + 0.1)
            append_line(folder / "accepted", id)
        async with asyncio.timeout(scene.seconds + 60):
            await asyncio.sleep(scene.seconds)
    os.kill(os.getpid(), signal.SIGKILL)
