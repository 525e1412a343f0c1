"""Processes that are killed at one commit of an approval: of a grant, of its use, of a decision, of an answer."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

import clicket.runtime.compose
from clicket import Policy, Runtime, tool
from clicket.engine.people.grants import GRANT
from clicket.errors import Conflict

__all__ = ["CALLS", "POLICY", "USES", "Kill", "act", "burst", "go_on", "ran", "tools_of"]

USES = 2
CALLS = ("two", "three", "four")
"""Calls after the one whose approval gives the grant: one more than the grant lets run."""
POLICY = Policy(ask=["pay"])
TWO_PEOPLE = Policy(ask=["pay"], approvers=2)


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """`what`: "append", "put_document" of a grant, or nothing. The process dies before or after the n-th one is durable."""

    place: Place
    story: str
    what: str = ""
    side: str = "before"
    nth: int = 0


def tools_of(place: Place) -> list[Any]:
    @tool
    async def pay(id: str) -> str:
        append_line(Path(place.folder, "paid"), id)
        return f"paid {id}"

    return [pay]


def ran(place: Place) -> list[str]:
    return read_lines(Path(place.folder, "paid"), str)


def act(given: dict[str, Any]) -> None:
    """In a child: play the story until the kill."""
    kill = msgspec.convert(given, Kill)
    if kill.what:
        _arm(kill)
    asyncio.run(_play(kill))


async def _play(kill: Kill) -> None:
    async with Runtime(tools_of(kill.place), policy=_policy(kill.story), settings=kill.place.settings()) as rt:
        await go_on(rt, kill.story)


def _policy(story: str) -> Policy:
    return TWO_PEOPLE if story == "two people" else POLICY


async def go_on(rt: Runtime, story: str) -> None:
    """Play a story from its beginning, or from where a killed process left it. Each call is made under its own id, so only once."""
    first = await rt.submit("pay", {"id": "one"}, id="one")
    if story == "grant":
        with suppress(Conflict):
            await rt.approve("one", by="Ada", grant={"uses": USES})
        await first.result()
        for id in CALLS:
            handle = await rt.submit("pay", {"id": id}, id=id)
            if (await rt.get(id)).waiting_for is None:
                await handle.result()
    elif story == "answer":
        await rt.respond("one", {"said": "no need to pay"}, by="Ada")
        await first.result()
    else:
        for name in ("Ada", "Bob"):
            with suppress(Conflict):  # this person has approved it already
                await rt.approve("one", by=name)
        await first.result()


def _arm(kill: Kill) -> None:
    passed = itertools.count(1)

    def hit() -> None:
        if next(passed) == kill.nth:
            os.kill(os.getpid(), signal.SIGKILL)

    make = clicket.runtime.compose.open_store

    def made(*given: Any, **named: Any) -> Any:
        store = make(*given, **named)
        wrap = _killed_appends if kill.what == "append" else _killed_puts
        wrap(type(store), kill.side, hit)
        return store

    clicket.runtime.compose.open_store = made


def _killed_puts(kind: Any, side: str, hit: Callable[[], None]) -> None:
    put = kind.put_document

    async def killed(self: Any, what: str, *given: Any) -> Any:
        if what == GRANT and side == "before":
            hit()
        result = await put(self, what, *given)
        if what == GRANT and side == "after":
            hit()
        return result

    kind.put_document = killed


def _killed_appends(kind: Any, side: str, hit: Callable[[], None]) -> None:
    append = kind.append

    def killed(self: Any, change: Any, done: Callable[[Any, Any], None]) -> None:
        def answered(written: Any, error: Any) -> None:
            if error is None and side == "after":
                hit()
            done(written, error)

        if side == "before":
            hit()
        append(self, change, answered)

    kind.append = killed


# Many processes that use one grant.


def burst(given: dict[str, Any]) -> None:
    """In a child: make many calls at once, and leave those that wait."""
    asyncio.run(_burst(msgspec.convert(given["place"], Place), given["name"], given["calls"]))


async def _burst(place: Place, name: str, calls: int) -> None:
    async with Runtime(tools_of(place), policy=POLICY, settings=place.settings()) as rt:

        async def one(number: int) -> None:
            id = f"{name}-{number}"
            handle = await rt.submit("pay", {"id": id}, id=id)
            if (await rt.get(id)).waiting_for is None:
                await handle.result()

        await asyncio.gather(*map(one, range(calls)))
