"""Tools and processes of the peers' bugs. Each process ends itself with SIGKILL at the point that its scenario names."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE, file_exists
from tests.scenarios.agent_kit import Says, asks
from tests.scenarios.kit import sqlite_url

from clicket import Policy, Runtime, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest
from clicket.subscription import CallEvent

ASK = Policy(ask=["pay"])
FIRST = {"n": 1}


def die() -> None:
    """No handler and no `finally` runs after this."""
    os.kill(os.getpid(), signal.SIGKILL)


class Effects:
    """What tools did outside: a line for each run of a body, in a file that every process appends to."""

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder, "effects")

    def add(self, *words: object) -> None:
        with self._path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    @property
    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


def tools_at(folder: str | Path) -> list[Any]:
    """Tools with an effect in `folder`. `pay` must not be repeated, `put` may be."""
    effects = Effects(folder)

    @tool(timeout=None)
    async def pay(n: int) -> str:
        effects.add("pay", n)
        return f"paid {n}"

    @tool(idempotent=True, timeout=None)
    async def put(n: int) -> str:
        effects.add("put", n)
        return f"put {n}"

    @tool(idempotent=True, timeout=None, max_concurrency=1)
    async def alone(n: int) -> str:
        effects.add("alone", n)
        return f"alone {n}"

    return [pay, put, alone]


def deadly_tools_at(folder: str | Path, name: str, accepted: asyncio.Event) -> list[Any]:
    """The same; the tool called `name` does its work and kills its process, once the other calls are accepted."""
    effects = Effects(folder)

    @tool(name=name, idempotent=name != "pay", timeout=None, max_concurrency=1 if name == "alone" else None)
    async def deadly(n: int) -> None:
        effects.add(name, n)
        await accepted.wait()
        die()

    return [deadly if each.name == name else each for each in tools_at(folder)]


# Processes, each a function of the folder that it shares with its test.


def leaves_calls(given: dict[str, Any]) -> None:
    """Dies in the body of a call of the tool `given["tool"]`, with more calls of it accepted."""

    async def main() -> None:
        accepted = asyncio.Event()
        tools = deadly_tools_at(given["folder"], given["tool"], accepted)
        store = given.get("store") or sqlite_url(Path(given["folder"]))
        async with Runtime(tools, store=store, max_concurrency=1) as rt:
            handles = [await rt.submit(given["tool"], {"n": n}, id=f"c{n}") for n in range(given["calls"])]
            accepted.set()
            await handles[0].result()

    asyncio.run(main())


def works(given: dict[str, Any]) -> None:
    """A worker. It ends when the file `done` exists."""

    async def main() -> None:
        async with Runtime(tools_at(given["folder"]), store=sqlite_url(Path(given["folder"]))):
            Path(given["folder"], "ready").touch()
            await file_exists(Path(given["folder"], "done"))

    asyncio.run(main())


def asks_and_dies(given: dict[str, Any]) -> None:
    """Dies while a call waits for an approval."""

    async def main() -> None:
        async with Runtime(tools_at(given["folder"]), store=sqlite_url(Path(given["folder"])), policy=ASK) as rt:
            await rt.submit("pay", FIRST, id="c")
            die()

    asyncio.run(main())


def completes_and_dies(given: dict[str, Any]) -> None:
    """Brings the result of an external call, and dies as soon as it is acknowledged."""

    async def main() -> None:
        async with Runtime([], store=sqlite_url(Path(given["folder"]))) as rt:
            await rt.complete(given["token"], "signed")
            die()

    asyncio.run(main())


def sweeps_and_dies(given: dict[str, Any]) -> None:
    """Dies at the `given["at"]`-th statement that deletes something while it removes old calls."""

    async def main() -> None:
        async with Runtime([], store=sqlite_url(Path(given["folder"])), retention_calls=1) as rt:
            count = 0

            def count_deletes(cursor: Any, sql: str, _: Any) -> bool:
                nonlocal count
                count += sql.lstrip().upper().startswith("DELETE")
                if count == given["at"]:
                    die()
                return True

            store: Any = rt.store
            store._writer.connection.exec_trace = count_deletes
            await rt.sweep()

    asyncio.run(main())


# Agents.

PARALLEL = [("pay", '{"n": 1}'), ("put", '{"n": 2}'), ("hold", '{"n": 3}')]


def parallel_answers(request: ChatRequest) -> ChatReply | str:
    """Three calls at once, then an answer that repeats what they returned."""
    results = [message.content for message in request.messages if message.role == "tool"]
    return " | ".join(results) if results else asks(*PARALLEL)


def dies_in_a_step(given: dict[str, Any]) -> None:
    """Dies while the last of three parallel calls runs. The other two have ended, in the order that `given` says."""
    folder = Path(given["folder"])
    effects = Effects(folder)
    order: list[str] = given["order"]

    async def main() -> None:
        ended = {name: asyncio.Event() for name in order}

        async def in_turn(name: str) -> None:
            before = order[: order.index(name)]
            for each in before:
                await asyncio.wait_for(ended[each].wait(), PATIENCE)
            effects.add(name)

        @tool(timeout=None)
        async def pay(n: int) -> str:
            await in_turn("pay")
            return f"paid {n}"

        @tool(timeout=None)
        async def put(n: int) -> str:
            await in_turn("put")
            return f"put {n}"

        @tool(idempotent=True, timeout=None)
        async def hold(n: int) -> None:
            await in_turn("hold")
            die()

        async with Runtime([pay, put, hold], store=sqlite_url(folder)) as rt:
            async with rt.subscribe() as events:
                turn = asyncio.create_task(ReActAgent(rt, Says(parallel_answers)).run("Go.", thread="t", id="m"))
                async for event in events:
                    if isinstance(event, CallEvent) and event.state.is_terminal and event.tool in ended:
                        ended[event.tool].set()
            await turn

    asyncio.run(main())
