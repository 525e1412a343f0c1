"""Processes to be killed with many calls in flight, and agents that repeat calls with unknown outcomes. The breaker
must not count a kill as a failure of the tool."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.nest import say_ready
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

from clicket import Runtime, State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["BOOKINGS", "IN_FLIGHT", "NAMES", "THREADS", "booked", "carry_out", "fly", "refused", "tend"]

NAMES = ("pay", "mail", "move")
THREADS = ("one", "two", "default")
IN_FLIGHT = 20
BOOKINGS = 8
"""Bookings that each agent makes, one a step."""


def _hanging(name: str) -> Any:
    @tool(name=name, max_retries=0, timeout=600)
    async def body(hang: bool) -> str:
        await asyncio.sleep(600 if hang else 0)
        return name

    return body


def fly(given: dict[str, Any]) -> None:
    """In a child: call every tool in every thread, then have 20 calls in flight until the kill."""
    asyncio.run(_fly(msgspec.convert(given, Place)))


async def _fly(place: Place) -> None:
    settings = place.settings(max_concurrency=IN_FLIGHT)
    async with Runtime([_hanging(name) for name in NAMES], settings=settings) as rt:
        for name in NAMES:
            for thread in THREADS:
                result = await rt.call(name, {"hang": False}, thread=thread)
                append_line(Path(place.folder, "calls"), result.error.code if result.error else "")
        for number in range(IN_FLIGHT):
            await rt.submit(NAMES[number % 3], {"hang": True}, thread=THREADS[number % 7 % 3])
        while any(record.state is not State.RUNNING for record in (await rt.history(active=True)).items):
            await asyncio.sleep(0.001)
        say_ready()
        await asyncio.sleep(600)


# Agents.


class Insistent:
    """Books 1, 2, 3 …, one a step, and repeats a booking until its answer is a success."""

    name = "insistent"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        answers = [message for message in request.messages if message.role == "tool"]
        for answer in answers[-1:]:
            if answer.failed and "outcome" not in answer.content and "may have" not in answer.content:
                append_line(self._folder / "refused", answer.content)
        done = sum(1 for answer in answers if not answer.failed)
        if done == BOOKINGS:
            return ChatReply(text="Booked.")
        step = len(answers) + 1
        return ChatReply(text="", uses=(ToolUse(id=f"use_{step}", name="book", arguments=f'{{"number": {done + 1}}}'),))


def _book(folder: Path) -> Any:
    @tool(max_retries=0)
    async def book(number: int, ctx: ToolContext) -> str:
        """Book something once; a number that is booked stays as it is."""
        await asyncio.sleep(0.005)
        if (ctx.thread, number) not in booked(folder):
            append_line(folder / "ledger", [ctx.thread, number])
        await asyncio.sleep(0.01)
        return f"{number} is booked"

    return book


def booked(folder: Path) -> list[tuple[str, int]]:
    return read_lines(folder / "ledger", tuple[str, int])


def refused(folder: Path) -> list[str]:
    return read_lines(folder / "refused", str)


def tend(given: dict[str, Any]) -> None:
    """In a child process: run all tasks, or resume them."""
    asyncio.run(carry_out(msgspec.convert(given["place"], Place), given["tasks"]))


async def carry_out(place: Place, tasks: int) -> list[str]:
    folder = Path(place.folder)
    # On a slow machine a process may be killed before any turn has made a step, so no number of kills ends a turn.
    rt = Runtime([_book(folder)], settings=place.settings(max_claims=1_000))
    agents = [
        ReActAgent(rt, Insistent(folder), name=f"agent{n}", max_steps=200, max_repeats=None) for n in range(tasks)
    ]
    async with rt:
        say_ready_once()

        async def one(number: int) -> str:
            thread, agent = f"task{number}", agents[number]
            result = await agent.wait(thread)
            if result is None and (await agent.look(thread)).turns:
                return "over"
            if result is None:
                result = await agent.run("Book everything.", thread=thread)
            return result.stopped

        return list(await asyncio.gather(*map(one, range(tasks))))


def say_ready_once() -> None:
    with suppress(KeyError):  # not in a child: the parent finishes the tasks
        say_ready()
