"""Callers cannot read each other's threads, and no secret is stored in plain text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from tests.kit.tools import echo
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make

from clicket import tool
from clicket.agents import (
    Actor,
    Agent,
    AgentEvent,
    AgentState,
    Limits,
    Loop,
    PlanExecuteAgent,
    ReActAgent,
    Stopped,
    Thinker,
    Turn,
)
from clicket.errors import ClicketError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta
from clicket.testing import ScriptedModel

SECRET = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3


async def test_callers_do_not_see_each_others_threads(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda request: f"{len(request.messages)} messages"))
        ann, bob = agent.acting_for(rt.acting_for("ann")), agent.acting_for(rt.acting_for("bob"))
        assert (await ann.run("mine", thread="t")).text == "1 messages"
        assert (await bob.run("mine too", thread="t")).text == "1 messages"
        assert (await agent.run("the program's", thread="t")).text == "1 messages"
        assert (await ann.run("again", thread="t")).text == "3 messages"
        assert [message.content for message in await bob.messages("t")] == ["mine too", "1 messages"]
        assert ((await ann.look("t")).turns, (await bob.look("t")).turns, (await agent.look("t")).turns) == (2, 1, 1)
        assert [event.turn async for event in bob.events("t", after="2-0.0")] == []
        assert await bob.forget("t") == 1
        assert len(await ann.messages("t")) == 4


async def test_only_its_caller_stops_and_reads_a_turn(store: str) -> None:
    gate = Gate()

    async def answer(_: ChatRequest) -> str:
        await gate()
        return "done"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        ann, bob = agent.acting_for(rt.acting_for("ann")), agent.acting_for(rt.acting_for("bob"))
        run = asyncio.create_task(ann.run("mine", thread="t"))
        await gate.reached.wait()
        assert not await bob.stop("t")
        assert bob.state("t") is AgentState.IDLE
        assert (await bob.look("t")).state is AgentState.IDLE
        assert [event async for event in bob.events("t")] == []
        assert ann.state("t") is AgentState.RUNNING
        assert await ann.stop("t")
        assert (await run).stopped == "cancelled"


# Secrets.


@pytest.mark.parametrize("key", ["", "k" * 40], ids=["masked", "sealed"])
async def test_secrets_are_never_at_rest_in_plain(sqlite: str, tmp_path: Path, key: str) -> None:
    @tool
    async def login(token: str) -> str:
        return f"logged in with {token}"

    def answer(request: ChatRequest) -> ChatReply:
        turns = sum(message.role == "assistant" for message in request.messages)
        if turns == 0:
            reply = asks(("login", f'{{"token": "{SECRET}"}}'), text=f"I use {SECRET}.")
            return ChatReply(text=reply.text, uses=reply.uses, thought=f"hm, {SECRET}", vendor={"x": {"y": SECRET}})
        if turns == 1:
            return ChatReply(text=f"It was {SECRET}.", vendor={"x": [SECRET]})
        raise ValueError(f"no more of {SECRET}")

    async with make([login], sqlite, secret_key=key) as rt:
        agent = ReActAgent(rt, Says(answer))
        events = [event async for event in agent.stream(f"use {SECRET}", thread="t")]
        assert events[-1].type == "final"
        with pytest.raises(ValueError, match="no more"):
            await agent.run("again", thread="t")
        messages = await agent.messages("t")
        check_pairs(messages)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    async with make([login], sqlite, secret_key=key) as rt:
        agent = ReActAgent(rt, ScriptedModel(["ok"]))
        messages = await agent.messages("t")
        assert (SECRET in messages[0].content) == bool(key)
        assert (SECRET in messages[1].uses[0].arguments) == bool(key)
        assert (await agent.run("go on", thread="t")).text == "ok"
        for event in [event async for event in agent.events("t", after="1-0.0")]:
            assert key or SECRET not in repr(event)


async def test_a_thread_whose_key_is_lost_can_be_forgotten(sqlite: str) -> None:
    async with make([echo], sqlite, secret_key="k" * 40) as rt:
        await ReActAgent(rt, ScriptedModel([f"It is {SECRET}."])).run("what?", thread="t")
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["fine"]))
        with pytest.raises(ClicketError, match="cannot be read"):
            await agent.run("again", thread="t")
        assert await agent.forget("t") == 1
        assert (await agent.run("again", thread="t")).turn == 2


async def test_a_turn_whose_message_is_lost_with_its_process_fails_and_the_same_message_begins_another(
    sqlite: str,
) -> None:
    """Without a key only the masked message is stored: the turn cannot continue, and does not block the thread."""
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    message = f"the key is {SECRET}"
    async with make([echo], sqlite, close_timeout=0.0) as rt:
        await ReActAgent(rt, Says(stuck)).begin(message, thread="t")
        await gate.reached.wait()
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["fine"]))
        result = await agent.run(message, thread="t")
        assert (result.text, result.turn) == ("fine", 2)
        first = (await agent.history("t")).turns[0]
        assert first.state is AgentState.ERROR
        assert SECRET not in first.messages[0].content


# Values of declared fields.

PASSWORD = "correct-horse-7"
PIN = "x7q"


@tool(sensitive=["password", "/card/pin"])
async def log_in(user: str, password: str, card: dict[str, str] | None = None) -> str:
    """Log in."""
    return f"{user} came in with {password}"


def logs_in(request: ChatRequest) -> ChatReply:
    if request.messages[-1].role == "user":
        arguments = f'{{"user": "ann", "password": "{PASSWORD}", "card": {{"pin": "{PIN}"}}}}'
        reply = asks(("log_in", arguments), text=f"I try {PASSWORD}.")
        raw = {"item": {"arguments": arguments}}
        return ChatReply(text=reply.text, uses=reply.uses, thought=f"perhaps {PASSWORD}", vendor=raw)
    assert PASSWORD in request.messages[-2].uses[0].arguments  # the model sees its own arguments
    return ChatReply(text=f"It was {PASSWORD}.", thought=f"so {PASSWORD}", vendor={"raw": f"so {PASSWORD}"})


class Streams:
    """A model that streams its answer in small pieces."""

    name = "streams"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return logs_in(request)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        reply = logs_in(request)
        for number, use in enumerate(reply.uses):
            tell(Delta("name", use.name, number))
        # Text before the first call is not masked: the agent does not know yet that it is a secret.
        pieces = ("", "", reply.uses[0].arguments) if reply.uses else (reply.thought, reply.text, "")
        for kind, text in zip(("thought", "text", "arguments"), pieces, strict=True):
            for at in range(0, len(text), 4):
                tell(Delta(kind, text[at : at + 4]))  # type: ignore[arg-type]
        return reply


def as_text(events: Iterable[AgentEvent]) -> str:
    """Everything that a reader gets: the joined pieces of an answer, and every event."""
    events = list(events)
    pieces = "".join(str(event.data["text"]) for event in events if event.type == "delta")
    return pieces + repr([event for event in events if event.type != "delta"])


@pytest.mark.parametrize("key", ["", "k" * 40], ids=["masked", "sealed"])
async def test_declared_values_are_the_models_and_the_tools_alone(sqlite: str, tmp_path: Path, key: str) -> None:
    async with make([log_in], sqlite, secret_key=key) as rt:
        agent = ReActAgent(rt, Streams())
        live = [event async for event in agent.stream("go", thread="t")]
        replayed = [event async for event in agent.events("t", after="1-0.0")]
        messages, view = await agent.messages("t"), await agent.look("t")
        turn = await rt.get("turn-1", thread=f"agent:{agent.name}/t")
        for shown in (as_text(live), as_text(replayed), repr(messages), repr(view), repr(turn)):
            assert PASSWORD not in shown
            assert PIN not in shown
        uses = [use for message in messages for use in message.uses]
        assert msgspec.json.decode(uses[0].arguments) == {
            "user": "ann", "password": "[secret]", "card": {"pin": "[secret]"}
        }  # fmt: skip
        assert messages[-1].content == "It was [secret]."
        started = next(event for event in live if event.type == "tool_started")
        assert started.data["arguments"] == uses[0].arguments
        result = await agent.run("again", thread="t")
        assert PASSWORD not in repr(result)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path
            assert f'"{PIN}"'.encode() not in path.read_bytes(), path


async def test_declared_values_of_executors_and_plans_are_masked_too(sqlite: str, tmp_path: Path) -> None:
    plan = {"command": "create", "title": "t", "steps": ["log in", f"say {PASSWORD[:4]}"]}
    update = {"command": "finish", "summary": f"used {PASSWORD}"}
    answers = [[("plan", plan)], [("log_in", {"user": "ann", "password": PASSWORD})], f"done with {PASSWORD}", "said",
               [("plan", update)]]  # fmt: skip
    async with make([log_in], sqlite) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(answers))
        result = await agent.run("go", thread="t")
        assert (result.stopped, result.text) == ("finished", "used [secret]")
        assert PASSWORD not in repr(result)
        assert PASSWORD not in repr(await agent.look("t"))
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


async def test_a_tool_does_not_run_with_a_mask_that_a_model_copied() -> None:
    ran: list[str] = []

    @tool(sensitive=["password"])
    async def enter(password: str) -> str:
        ran.append(password)
        return "in"

    masked = [("enter", {"password": "[secret]"})]
    async with make([enter, echo]) as rt:
        model = ScriptedModel([masked, [("echo", {"text": "[secret]"})], "done"])
        result = await ReActAgent(rt, model).run("go")
        assert ran == []
        assert "ask the user for it" in result.messages[2].content
        assert result.messages[4].content == "[secret]"  # the output of a tool that declares nothing is any text


@pytest.mark.parametrize("key", ["", "k" * 40], ids=["masked", "sealed"])
@pytest.mark.parametrize("secret", [PASSWORD, SECRET], ids=["declared", "token"])
async def test_a_turn_that_another_process_continues_runs_no_tool_with_a_mask(
    sqlite: str, key: str, secret: str
) -> None:
    ran: list[str] = []
    gate = Gate()

    @tool(sensitive=["password"])
    async def enter(password: str) -> str:
        ran.append(password)
        return "in"

    async def first(request: ChatRequest) -> ChatReply:
        return asks(("enter", f'{{"password": "{secret}"}}'))

    class Stuck(Actor):
        async def act(self, turn: Turn, message: ChatMessage) -> tuple[Stopped, str] | None:
            await turn.flush()
            await gate()
            return await super().act(turn, message)

    async with make([enter, echo], sqlite, secret_key=key, close_timeout=0.0) as rt:
        agent = Agent(rt, Loop(Thinker(Says(first)), Stuck()), name="react", limits=Limits())
        await agent.begin("go", thread="t")
        await gate.reached.wait()
    async with make([enter, echo], sqlite, secret_key=key) as rt:
        result = await ReActAgent(rt, ScriptedModel(["done"])).resume("t")
        assert result is not None
        assert result.text == "done"
    assert ran == ([secret] if key else [])
