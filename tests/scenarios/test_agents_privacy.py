"""Whose a thread is, and what of it may be read: callers do not see each other's, and no secret is at rest in plain."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.tools import echo
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make

from clicket import tool
from clicket.agents import AgentState, ReActAgent
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest
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


async def test_a_callers_turn_is_stopped_and_read_by_nobody_else(store: str) -> None:
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


async def test_a_turn_whose_message_is_lost_with_its_process_ends_and_the_same_message_begins_a_new_one(
    sqlite: str,
) -> None:
    """Without a key only the masked message is on record: the turn cannot go on, and does not stand in the way."""
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
