"""An agent's turn of ten steps. The process counts its writes to the store and can kill itself at any of them."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tests.crash.nest import say_ready
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

__all__ = [
    "LAST",
    "MESSAGE",
    "SCRIPT",
    "STEPS",
    "TURN",
    "Death",
    "Effect",
    "Life",
    "Model",
    "Script",
    "agent_of",
    "asked",
    "asked_for",
    "doom",
    "effects",
    "live",
    "note",
    "runtime_of",
    "thread_of",
    "tools_at",
    "turn_thread",
]

T = TypeVar("T")
MESSAGE = "Settle the bills."
TURN = "turn-1"
"""The id of the turn's own call."""

Script = list[list[tuple[str, dict[str, Any]]]]
SCRIPT: Script = [
    [("look", {"n": 1})],
    [("put", {"n": 2})],
    [("look", {"n": 3}), ("pay", {"n": 4}), ("put", {"n": 5})],
    [("fail", {"n": 6})],
    [("nowhere", {"n": 7})],
    [("slow", {"n": 8})],
    [("pay", {"n": 9})],
    [
        ("slow", {"n": 10}),
        ("fail", {"n": 11}),
        ("nowhere", {"n": 12}),
        ("put", {"n": 13}),
        ("look", {"n": "no number"}),
    ],
    [("pay", {"n": 14}), ("charge", {"n": 15})],
    [],
]
"""The tool calls in each reply of the model. The last reply has none."""
STEPS = len(SCRIPT)


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """The start or the end of one run of a tool's body."""

    call: str
    tool: str
    attempt: int
    key: str
    side: str


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """Kill the process before or after its n-th store write is durable; 0: never. `of`: count only writes whose
    description starts with this.

    How many writes a turn needs depends on how long it takes, so a test that kills at each of them goes on until a
    process is not killed any more. With the side `any`, `at` counts distinct instants: after each write, and before a
    write if a tool had an effect or the model was called since the last instant. Else a kill would leave what the one
    before left. `close`: close the runtime there instead."""

    at: int = 0
    side: str = "before"
    of: str = ""

    def __str__(self) -> str:
        return f"{self.side} {self.of or 'write'} {self.at}"


LAST = [
    Death(at=1, of="document agent.turn", side="before"),
    Death(at=1, of="document agent.turn", side="after"),
    Death(at=1, of="document agent.thread", side="after"),
    Death(at=1, of=f"{TURN} stage_ended", side="after"),
]
"""The distinct instants around the last three writes of a turn."""


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """`fickle`: the model replies differently in each process. `way`: how the turn starts or resumes: by `run`, or
    when the runtime opens."""

    place: Place
    death: Death = Death()
    fickle: bool = False
    way: str = "run"


def thread_of(place: Place) -> str:
    """Each place has its own thread, so many places can share a store."""
    return Path(place.folder).name


def turn_thread(place: Place) -> str:
    """The thread of the turn's own call."""
    return f"agent:react/{thread_of(place)}"


# Tools.


def note(ctx: ToolContext, side: str, folder: Path) -> None:
    append_line(folder / "effects", [ctx.call_id, ctx.tool, ctx.attempt, ctx.idempotency_key, side])


def tools_at(folder: Path) -> list[Any]:
    """Tools that append a line to a file before and after their effect."""

    def squared(n: int, nonce: str) -> str:
        return f"{n} squared is {n * n}{nonce}"

    async def work(n: int, nonce: str, ctx: ToolContext, pause: float = 0.0) -> str:
        note(ctx, "begin", folder)
        await asyncio.sleep(pause)
        note(ctx, "end", folder)
        return squared(n, nonce)

    @tool(read_only=True)
    async def look(n: int, ctx: ToolContext, nonce: str = "") -> str:
        return await work(n, nonce, ctx)

    @tool(idempotent=True)
    async def put(n: int, ctx: ToolContext, nonce: str = "") -> str:
        return await work(n, nonce, ctx)

    @tool(idempotent=True)
    async def slow(n: int, ctx: ToolContext, nonce: str = "") -> str:
        ctx.progress(1, 2, "half")
        ctx.emit("first ")
        return await work(n, nonce, ctx, 0.01)

    @tool(idempotent=True)
    async def fail(n: int, ctx: ToolContext, nonce: str = "") -> None:
        await work(n, nonce, ctx)
        raise ValueError(f"no bill {n}{nonce}")

    @tool
    async def pay(n: int, ctx: ToolContext, nonce: str = "") -> str:
        return await work(n, nonce, ctx, 0.002)

    @tool(isolation="thread")
    def charge(n: int, ctx: ToolContext, nonce: str = "") -> str:
        note(ctx, "begin", folder)
        note(ctx, "end", folder)
        return squared(n, nonce)

    return [look, put, slow, fail, pay, charge]


def effects(folder: Path) -> list[Effect]:
    return read_lines(folder / "effects", Effect)


# The model.


class Model:
    """Replies according to the number of assistant messages, so each process that resumes the turn gets the right
    reply. Every request is logged before its reply, because each request costs money."""

    name = "scripted"

    def __init__(self, folder: Path, nonce: str = "", script: Script = SCRIPT) -> None:
        self._folder = folder
        self._nonce = nonce
        self._script = script

    async def chat(self, request: ChatRequest) -> ChatReply:
        step = sum(1 for message in request.messages if message.role == "assistant") + 1
        append_line(self._folder / "asked", step)
        usage = Usage(input_tokens=100 * step, output_tokens=step)
        more = {"nonce": self._nonce} if self._nonce else {}
        uses = tuple(
            ToolUse(id=f"use_{step}_{place}", name=name, arguments=msgspec.json.encode({**given, **more}).decode())
            for place, (name, given) in enumerate(self._script[step - 1])
        )
        if uses:
            return ChatReply(text=f"Step {step}.", thought=f"Thinking of {step}.", uses=uses, usage=usage)
        answers = [message for message in request.messages if message.role == "tool"]
        good = sum(1 for message in answers if not message.failed)
        return ChatReply(text=f"{good} of {len(answers)} went well.", usage=usage)


def asked(folder: Path) -> list[int]:
    """The steps for which the model was called, in order."""
    return asked_for(folder, int)


def asked_for(folder: Path, kind: type[T]) -> list[T]:
    return read_lines(folder / "asked", kind)


# A life.


def runtime_of(place: Place) -> Runtime:
    return Runtime(tools_at(Path(place.folder)), settings=place.settings())


def agent_of(rt: Runtime, place: Place, *, nonce: str = "") -> ReActAgent:
    """The script's last step is also the last that `max_steps` allows."""
    return ReActAgent(rt, Model(Path(place.folder), nonce), max_steps=STEPS)


_leaving = asyncio.Event()


def live(given: dict[str, Any]) -> None:
    """In a child process: start or resume the turn, and die or close on the way."""
    life = msgspec.convert(given, Life)
    doom(life.death, Path(life.place.folder))
    asyncio.run(_take(life))


async def _take(life: Life) -> None:
    nonce = f" ({os.getpid()})" if life.fickle else ""
    rt = runtime_of(life.place)
    if life.death.side == "close":
        await _leave(rt, life)
        return
    if life.way == "open":
        agent = agent_of(rt, life.place, nonce=nonce)
    async with rt:
        say_ready()
        if life.way == "open":
            if await agent.wait(thread_of(life.place)) is not None:
                return
        else:
            agent = agent_of(rt, life.place, nonce=nonce)
        if not (await agent.look(thread_of(life.place))).turns:  # else the turn had ended before the kill
            await agent.run(MESSAGE, thread=thread_of(life.place))


async def _leave(rt: Runtime, life: Life) -> None:
    await rt.open()
    agent = agent_of(rt, life.place)
    say_ready()
    number = await agent.begin(MESSAGE, thread=thread_of(life.place))
    ended = asyncio.create_task(agent.wait(thread_of(life.place), number))  # with fewer writes than that
    left = asyncio.create_task(_leaving.wait())
    await asyncio.wait((ended, left), return_when=asyncio.FIRST_COMPLETED)
    await rt.close(patience=0.0)
    ended.cancel()
    left.cancel()
    await asyncio.gather(ended, left, return_exceptions=True)


def doom(death: Death, folder: Path) -> None:
    """Count the writes to the store, appends and documents alike, and die at one of them. The folder has the logs of
    the tools and of the model."""
    compose: Any = importlib.import_module("clicket.runtime.compose")
    make, count, instants, outside = compose.open_store, 0, 0, 0

    def is_new(side: str) -> bool:
        nonlocal outside
        before, outside = outside, sum(path.stat().st_size for path in logs if path.exists())
        return side == "after" or outside != before

    logs = (folder / "effects", folder / "asked")

    def write(what: str) -> Callable[[str], None]:
        nonlocal count
        count += what.startswith(death.of)
        number = count if what.startswith(death.of) else 0

        def hit(side: str) -> None:
            nonlocal instants
            if death.side == "any":
                instants += is_new(side)
                fatal = instants == death.at
            else:
                fatal = number == death.at and side == death.side
            if fatal and death.at:
                os.kill(os.getpid(), signal.SIGKILL)
            if number == death.at and death.side == "close":
                _leaving.set()

        return hit

    def made(*given: Any, **named: Any) -> Any:
        store = make(*given, **named)
        kind = type(store)
        append, put_document = kind.append, kind.put_document

        def appended(self: Any, change: Any, done: Callable[[Any, Any], None]) -> None:
            hit = write(f"{change.id} {' '.join(event.type for event in change.events)}")

            def answered(written: Any, error: Any) -> None:
                if error is None:
                    hit("after")  # the write is durable, but the caller has no answer yet
                done(written, error)

            hit("before")
            append(self, change, answered)

        async def put(self: Any, kind: str, key: str, body: bytes, expect: int | None) -> bool:
            hit = write(f"document {kind}")
            hit("before")
            result: bool = await put_document(self, kind, key, body, expect)
            hit("after")
            return result

        kind.append, kind.put_document = appended, put
        return store

    compose.open_store = made
