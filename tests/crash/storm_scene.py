"""The processes of a storm: each sends its messages to an agent whose turns call tools with costs and another agent, under budgets.

A process sends each message with an id, so that the next one can send it again, and writes down what it was told. Tools and models write
down what they did, outside the store.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from tests.crash.judge import Rule
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line

import clicket.stores.sqlite
from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import AgentBusy, ClicketError, StoreUnavailable
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

__all__ = [
    "ASKED",
    "COSTS",
    "RULES",
    "TASK",
    "Ack",
    "Asked",
    "Lengths",
    "Life",
    "expected_text",
    "live",
    "message_of",
    "script_of",
    "team_at",
    "threads_of",
]

Use = tuple[str, int]
ASKED = Usage(input_tokens=10, output_tokens=5)
"""What each request to a model costs."""
COSTS = {"pay": (1_000_000, 3), "put": (3_000_000, 2), "look": (0, 1)}
"""What a call of each tool costs, in billionths of a dollar and in tokens."""
RULES = {"pay": Rule(), "put": Rule(repeatable=True), "look": Rule(repeatable=True)}
TASK = "task of "
_LIMIT = 10_000_000
_BUDGETS: list[dict[str, Any]] = [
    {"scope": scope, "period": "total", "limit_tokens": _LIMIT} for scope in ("all", "thread", "agent")
]
_PRICES: list[dict[str, Any]] = [{"model": "scripted", "input": 1.0, "output": 2.0}]
_AGAIN = 0.02
"""Seconds until a process sends a message again that the store, or a busy thread, did not take."""
_SCRIPTS: tuple[list[list[Use]], ...] = (
    [[("pay", 1), ("put", 2), ("helper", 3)], [("pay", 4), ("look", 5)]],
    [[("pay", 1)], [("pay", 2)], [("put", 3)]],
    [[("helper", 1), ("helper", 2)], [("pay", 3)]],
)
"""The calls of each reply of the outer agent, by the kind of the message. The last reply has none."""
_HELPS: list[list[Use]] = [[("pay", 11), ("look", 12)], [("put", 13)]]


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `busy`: how long SQLite waits for a lock. `hang` and `pause`: the shortest and the longest of a storm."""

    lease: float = 0.6
    store_timeout: float = 0.4
    busy: float = 0.2
    hang: tuple[float, float] = (0.1, 1.2)
    pause: tuple[float, float] = (0.2, 1.8)


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a process. `late`: its agents are made after the runtime has opened. `limit`: it closes after so many seconds."""

    place: Place
    name: str
    names: tuple[str, ...]
    seed: str
    lengths: Lengths
    threads: int
    messages: int
    limit: float
    late: bool = False


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """What a process was told about a message: it is accepted, its result, or an error that no caller should get."""

    did: Literal["accepted", "result", "trouble"]
    thread: str = ""
    id: str = ""
    turn: int = 0
    text: str = ""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A request to a model."""

    message: str
    step: int


def threads_of(name: str, number: int) -> list[str]:
    return [f"{name}{place}" for place in range(number)]


def message_of(thread: str, number: int) -> str:
    """Also the id of its turn."""
    return f"{thread} message {number}"


def script_of(message: str) -> list[list[Use]]:
    """The calls that an agent makes for a message, by step."""
    return _HELPS if message.startswith(TASK) else _SCRIPTS[sum(map(ord, message)) % len(_SCRIPTS)]


def expected_text(message: str, number: int, tool: str) -> str:
    """The result of a call whose outcome is known."""
    return f"{TASK}{message} {number} is done." if tool == "helper" else f"{tool} {number} of {message}"


class _Model:
    """Follows the script of the last message of the user; every request is logged before its reply."""

    name = "scripted"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        messages = request.messages
        begins = max(place for place, message in enumerate(messages) if message.role == "user")
        step = sum(1 for message in messages[begins:] if message.role == "assistant")
        message = messages[begins].content
        append_line(self._folder / "asked", [message, step + 1])
        await asyncio.sleep(0)
        script = script_of(message)
        if step == len(script):
            return ChatReply(text=f"{message} is done.", usage=ASKED)
        uses = tuple(
            ToolUse(id=f"use_{step}_{number}", name=name, arguments=_arguments(name, number, message))
            for name, number in script[step]
        )
        return ChatReply(uses=uses, usage=ASKED)


def _arguments(tool: str, number: int, message: str) -> str:
    given: dict[str, Any] = {"n": number, "of": message}
    if tool == "helper":
        given = {"task": f"{TASK}{message} {number}"}
    return msgspec.json.encode(given).decode()


def _tools_at(folder: Path) -> list[Any]:
    async def work(n: int, of: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.call_id, ctx.attempt, ctx.idempotency_key, ctx.tool])
        await asyncio.sleep(0.001 * (n % 3))
        return f"{ctx.tool} {n} of {of}"

    @tool(max_retries=0)
    async def pay(n: int, of: str, ctx: ToolContext) -> str:
        ctx.spend(usd=0.001, tokens=3)
        return await work(n, of, ctx)

    @tool(idempotent=True)
    async def put(n: int, of: str, ctx: ToolContext) -> str:
        ctx.spend(usd=0.001, tokens=1)
        text = await work(n, of, ctx)
        ctx.spend(usd=0.002, tokens=1)
        return text

    @tool(read_only=True)
    async def look(n: int, of: str, ctx: ToolContext) -> str:
        text = await work(n, of, ctx)
        ctx.spend(tokens=1)
        return text

    return [pay, put, look]


def runtime_at(place: Place, lengths: Lengths) -> Runtime:
    settings = place.settings(
        budgets=_BUDGETS, prices=_PRICES, store_timeout=lengths.store_timeout,
        max_claims=1_000_000,  # a storm kills the processes of a turn more often than its tools could
    )  # fmt: skip
    return Runtime(_tools_at(Path(place.folder)), settings=settings)


def team_at(rt: Runtime, place: Place) -> tuple[ReActAgent, ReActAgent]:
    """The agent that gets the messages, and the one that it calls."""
    folder, names = Path(place.folder), list(RULES)
    helper = ReActAgent(rt, _Model(folder), name="helper", tools=names, max_answer_tokens=ASKED.output_tokens)
    rt.add(helper.as_tool("helper"))
    boss = ReActAgent(rt, _Model(folder), name="boss", tools=[*names, "helper"], max_answer_tokens=ASKED.output_tokens)
    return boss, helper


def live(given: dict[str, Any]) -> None:
    """In a child process."""
    life = msgspec.convert(given, Life)
    clicket.stores.sqlite.SqliteStore = partial(  # type: ignore[misc,assignment]
        clicket.stores.sqlite.SqliteStore, busy=life.lengths.busy
    )
    asyncio.run(_Process(life).main())


class _Process:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._folder = Path(life.place.folder)
        self._chance = random.Random(life.seed)
        self._closing = False

    async def main(self) -> None:
        while not self._closing:
            try:
                await self._run()
            except StoreUnavailable:  # the store could not be opened: the process starts again
                await asyncio.sleep(_AGAIN)

    async def _run(self) -> None:
        life = self._life
        rt = runtime_at(life.place, life.lengths)
        agent = None if life.late else team_at(rt, life.place)[0]
        lanes: list[asyncio.Future[None]] = []
        async with rt:
            agent = agent or team_at(rt, life.place)[0]
            say_ready()
            names = [life.name, *(name for name in life.names if name != life.name and self._chance.random() < 0.3)]
            lanes += [
                asyncio.ensure_future(self._send(agent, thread))
                for name in names
                for thread in threads_of(name, life.threads)
            ]
            await asyncio.wait(lanes, timeout=life.limit)
            self._closing = True
        for lane in lanes:  # only now: to cancel a run while its runtime is open is to stop its turn
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    async def _send(self, agent: ReActAgent, thread: str) -> None:
        """The messages of a thread, each until its result is known."""
        for number in range(self._life.messages):
            message = message_of(thread, number)
            while not await self._is_over(agent, thread, message):
                await asyncio.sleep(_AGAIN)

    async def _is_over(self, agent: ReActAgent, thread: str, message: str) -> bool:
        try:
            turn, text = await self._result(agent, thread, message, self._chance.choice(("run", "begin", "stream")))
        except (StoreUnavailable, AgentBusy):
            return False
        except ClicketError:
            if self._closing:
                return False
            self._acknowledge("trouble", thread, message, text=traceback.format_exc(limit=-4))
            return True
        self._acknowledge("result", thread, message, turn, text)
        return True

    async def _result(self, agent: ReActAgent, thread: str, message: str, way: str) -> tuple[int, str]:
        if way == "run":
            result = await agent.run(message, thread=thread, id=message)
            return result.turn, result.text
        if way == "stream":
            last = None
            async for event in agent.stream(message, thread=thread, id=message):
                if last is None:
                    self._acknowledge("accepted", thread, message, event.turn)
                last = event
            if last is None or last.type != "final":  # the store failed, or the turn: sent again, it is known which
                raise StoreUnavailable("the stream has ended without a result")
            return last.turn, str(last.data["text"])
        number = await agent.begin(message, thread=thread, id=message)
        self._acknowledge("accepted", thread, message, number)
        ended = await agent.wait(thread, number)
        assert ended is not None
        return number, ended.text

    def _acknowledge(self, did: Any, thread: str, message: str, turn: int = 0, text: str = "") -> None:
        ack = Ack(did=did, thread=thread, id=message, turn=turn, text=text)
        append_line(self._folder / "acks", msgspec.to_builtins(ack))
