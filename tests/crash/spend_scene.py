"""Agents that spend, in a process that is killed at a commit of the ledger or of a budget; and in many processes at once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import eventually

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

__all__ = [
    "ASKED",
    "COST",
    "LIMIT",
    "ROOM",
    "SCENE",
    "agent_at",
    "books",
    "crowd",
    "finish",
    "pay",
    "run_until_killed",
    "sleeper",
    "storm",
    "thread_of",
]

ASKED = 15
"""Tokens of each reply."""
COST = 3
"""Tokens that each call of the tool costs."""
LIMIT = 100_000
SCENE: list[dict[str, Any]] = [
    {"scope": "all", "period": "total", "limit_tokens": LIMIT},
    {"scope": "thread", "period": "total", "limit_tokens": LIMIT},
]
ROOM = 20 * ASKED
"""The budget of a crowd."""


class Model:
    """Calls the tool twice, then answers; writes down that it was asked before it answers."""

    name = "scripted"

    def __init__(self, folder: Path, calls: int = 2) -> None:
        self._folder = folder
        self._calls = calls

    async def chat(self, request: ChatRequest) -> ChatReply:
        append_line(self._folder / "asked", ASKED)
        done = sum(message.role == "tool" for message in request.messages)
        usage = Usage(input_tokens=ASKED - 5, output_tokens=5)
        await asyncio.sleep(0)
        if done >= self._calls:
            return ChatReply(text="done", usage=usage)
        return ChatReply(uses=(ToolUse(id=f"use_{done}", name="pay", arguments="{}"),), usage=usage)


@tool(idempotent=True)
async def pay(ctx: ToolContext) -> str:
    """Report a cost."""
    ctx.spend(tokens=COST)
    return "paid"


def agent_at(rt: Runtime, folder: Path) -> ReActAgent:
    return ReActAgent(rt, Model(folder), name="a", max_answer_tokens=5)


def run_until_killed(given: dict[str, Any]) -> None:
    """In a child: run one turn, and die at the n-th commit of the ledger or of a budget, before or after it."""
    place, number, after = msgspec.convert(given["place"], Place), given["number"], given["after"]
    asyncio.run(_run(place, number, after))


async def _run(place: Place, number: int, after: bool) -> None:
    async with Runtime([pay], settings=place.settings(budgets=SCENE)) as rt:
        put, left = rt.store.put_documents, number

        async def counted(writes: Any) -> bool:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            done = await put(writes)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        rt.store.put_documents = counted  # type: ignore[method-assign]
        await agent_at(rt, Path(place.folder)).run("go", thread="t")


async def finish(place: Place) -> tuple[int, int, list[tuple[int, int]]]:
    """Bring the turn to its end. Returns the ledger's tokens, those that are assumed, and of each account what is used and reserved."""
    rt = Runtime([pay], settings=place.settings(budgets=SCENE))
    agent = agent_at(rt, Path(place.folder))  # before it opens: it continues the turn
    async with rt:
        if await agent.wait("t") is None and not (await agent.look("t")).turns:
            await agent.run("go", thread="t")
        book = rt.engine.book
        await book.sweep(1e9)
        assumed = sum(
            [entry.all_tokens async for page in book.ledger.pages() for entry in page.entries.values() if entry.assumed]
        )
        used = [
            (account.used()[1], sum(hold.tokens for hold in account.holds.values()))
            async for _, account, _ in book.accounts.listed()
        ]
        return (await rt.spend.report()).total.tokens, assumed, used


def crowd(given: dict[str, Any]) -> None:
    """In a child: many runs at once, under a budget that has room for few."""
    asyncio.run(_crowd(msgspec.convert(given["place"], Place), given["name"], given["runs"]))


async def _crowd(place: Place, name: str, runs: int) -> None:
    budgets = [{"scope": "all", "period": "total", "limit_tokens": ROOM}]
    folder = Path(place.folder)
    async with Runtime([pay], settings=place.settings(budgets=budgets)) as rt:
        agent = ReActAgent(rt, Model(folder, calls=0), name="a", max_answer_tokens=5)
        say_ready()
        results = await asyncio.gather(*(agent.run("go", thread=f"{name}-{number}") for number in range(runs)))
        append_line(folder / "ended", [result.stopped for result in results])


def sleeper(given: dict[str, Any]) -> None:
    """In a child that is stopped: calls whose tool reports its cost after the child woke up."""
    asyncio.run(_sleep(msgspec.convert(given["place"], Place), given["calls"]))


async def _sleep(place: Place, calls: int) -> None:
    folder, begun = Path(place.folder), 0

    @tool(idempotent=True, max_retries=0)
    async def pay(ctx: ToolContext) -> str:
        """Report a cost, once the file `go` exists."""
        nonlocal begun
        begun += 1
        if begun == calls:
            (folder / "pid").write_text(str(os.getpid()))
            say_ready()
        await eventually((folder / "go").exists, timeout=60)
        ctx.spend(tokens=COST)
        return "paid late"

    async with Runtime([pay], settings=place.settings(budgets=SCENE)) as rt:
        handles = [await rt.submit("pay", thread="t", id=f"c{number}") for number in range(calls)]
        await asyncio.gather(*(handle.result() for handle in handles))
        (folder / "woke").touch()


async def books(place: Place) -> tuple[int, list[tuple[int, int]]]:
    """The ledger's tokens, and of each account what is used and how many holds it has."""
    async with Runtime([], settings=place.settings(budgets=SCENE)) as rt:
        book = rt.engine.book
        used = [(account.used()[1], len(account.holds)) async for _, account, _ in book.accounts.listed()]
        return (await rt.spend.report()).total.tokens, used


def thread_of(name: str, turn: int) -> str:
    return f"{name}-{turn}"


def storm(given: dict[str, Any]) -> None:
    """In a child: some turns, one after the other, while the store refuses commits of the ledger and of budgets, or loses the answers to
    them, at moments that the seed chooses."""
    asyncio.run(_storm(msgspec.convert(given["place"], Place), given["name"], given["seed"], given["turns"]))


async def _storm(place: Place, name: str, seed: str, turns: int) -> None:
    chance = random.Random(seed)
    rt = Runtime([pay], settings=place.settings(budgets=SCENE))
    agent = agent_at(rt, Path(place.folder))  # before it opens: it continues what another process left
    async with rt:
        put = rt.store.put_documents

        async def unsure(writes: Any) -> bool:
            fault = chance.random()
            if fault < 0.15:
                raise StoreUnavailable("the server cannot be reached", transient=True)
            done = await put(writes)
            if fault < 0.3:
                raise StoreUnavailable("the answer was lost", transient=True)
            return done

        rt.store.put_documents = unsure  # type: ignore[method-assign]
        say_ready()
        for turn in range(turns):
            with suppress(ClicketError):  # an outage may end a turn
                await agent.run("go", thread=thread_of(name, turn))
            with suppress(ClicketError):
                await agent.wait(thread_of(name, turn))
