"""Ids of agents' and adapters' calls: unique in the store, found by their short names and by the provider's own ids."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

from clicket import Policy, Rule, Runtime, State, tool
from clicket.adapters.anthropic import run
from clicket.agents import ReActAgent
from clicket.errors import NotFound, UsageError
from clicket.model.chat import ChatReply, ToolUse
from clicket.model.ids import alias_of
from clicket.runtime import blocking as sync
from clicket.testing import ScriptedModel, memory_runtime


@tool
async def pay(amount: int) -> str:
    return f"paid {amount}"


def asks(id: str, amount: int = 1) -> ChatReply:
    return ChatReply(uses=(ToolUse(id=id, name="pay", arguments=f'{{"amount": {amount}}}'),))


ASK = Policy(rules=[Rule(verdict="ask", tools=["pay"])])


async def test_calls_of_agents_have_ids_of_their_own_in_every_conversation() -> None:
    model = ScriptedModel([asks("call_1"), "done", asks("call_1"), "done", asks("toolu_01XyZ"), "done"])
    async with memory_runtime([pay]) as rt:
        agent = ReActAgent(rt, model)
        for thread in ("ann", "bob", "cy"):
            await agent.run("pay", thread=thread)
        calls = (await rt.history(tool="pay")).items
        assert len({record.id for record in calls}) == 3
        assert {alias_of(record.id) for record in calls} == {"react.1.1.1"}
        # By the short name, which is unique in a thread.
        ann = await rt.get("react.1.1.1", thread="ann")
        assert (ann.thread, ann.state) == ("ann", State.COMPLETED)
        assert await rt.state("react.1.1.1", thread="bob") is State.COMPLETED
        assert (await (await rt.handle("react.1.1.1", thread="bob")).result()).output == "paid 1"
        with pytest.raises(UsageError, match=r"threads 'ann', 'bob', 'cy'"):
            await rt.get("react.1.1.1")
        # By the provider's id.
        assert (await rt.get("toolu_01XyZ")).thread == "cy"
        assert (await rt.get("call_1", thread="ann")).id == ann.id
        with pytest.raises(UsageError, match="2 calls"):
            await rt.get("call_1")
        for unknown in ("toolu_01", "react.1.1.2", "react.1.1", "toolu_01XyZ:", ""):
            with pytest.raises(NotFound):
                await rt.get(unknown, thread="cy")


async def test_events_and_turns_name_the_calls_as_the_journal_does() -> None:
    model = ScriptedModel([asks("toolu_1"), "done"])
    async with memory_runtime([pay]) as rt:
        agent = ReActAgent(rt, model)
        events = [event async for event in agent.stream("pay", thread="t")]
        named = {event.data["call_id"] for event in events if "call_id" in event.data}
        assert named == {record.id for record in (await rt.history(tool="pay")).items}


async def test_a_waiting_call_is_decided_by_its_short_names() -> None:
    model = ScriptedModel([asks("toolu_a"), "done", asks("toolu_b"), "done", asks("toolu_c"), "done"])
    async with memory_runtime([pay], policy=ASK) as rt:
        agent = ReActAgent(rt, model)

        async def turn(thread: str, decide: Any) -> str:
            running = asyncio.create_task(agent.run("pay", thread=thread))
            while not (await rt.history(waiting_for="approval", thread=thread)).items:
                await asyncio.sleep(0)
            assert await decide()
            await running
            return str((await rt.get("react.1.1.1", thread=thread)).state)

        assert await turn("a", lambda: rt.approve("toolu_a")) == "completed"
        assert await turn("b", lambda: rt.deny("react.1.1.1", thread="b")) == "failed"
        assert await turn("c", lambda: rt.cancel("toolu_c")) == "cancelled"


async def test_calls_of_an_sdk_are_found_by_the_providers_id() -> None:
    from anthropic.types import Message

    message = Message.model_validate(
        {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [{"type": "tool_use", "id": "toolu_01AbC", "name": "pay", "input": {"amount": 3}}],
        }
    )  # fmt: skip
    async with memory_runtime([pay]) as rt:
        await run(rt, message, "t")
        await run(rt, message, "t")
        record = await rt.get("toolu_01AbC")
        assert record.output == "paid 3"
        assert len((await rt.history()).items) == 1, "run again, no call runs twice"


# From a terminal, calls of several callers.


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, sqlite_url(tmp_path), "", USER="ann", LOGNAME="ann")


def test_commands_take_the_caller_of_a_call_and_lists_show_it(place: Place) -> None:
    with sync.Runtime([pay], store=place.store, policy=ASK) as rt:
        for caller in ("", "key-a", "key-b"):
            rt.acting_for(caller).submit("pay", {"amount": 5}, id="x")
        listed = place.inside("ps").stdout
        assert "key-a" in listed
        assert "key-b" in listed
        waiting = place.inside("approve").stdout
        assert "key-a" in waiting
        output = place.inside("show", "x").stderr
        assert "--caller" in output
        assert "key-a" in output
        assert place.ask("show", "x", "--caller", "key-a")["caller"] == "key-a"
        assert place.ask("show", "x", "--caller", "")["caller"] == ""
        assert "key-b" in place.inside("show", "x", "--caller", "key-b").stdout
        assert place.ask("approve", "x", "--caller", "key-a")["decided"] is True
        assert rt.acting_for("key-a").handle("x").result().success
        assert place.ask("deny", "x", "--caller", "")["decided"] is True
        assert place.ask("cancel", "x", "--caller", "key-b")["cancelled"] is True
        events = place.inside("tail", "x", "--caller", "key-a", "--json").stdout
        assert '"completed"' in events
        assert [call["caller"] for call in place.ask("ps", "--all", "--caller", "key-b")["items"]] == ["key-b"]
        assert "CALLER" in place.inside("ps", "--all").stdout


def test_a_list_of_the_programs_own_calls_needs_no_column_for_callers(place: Place) -> None:
    with sync.Runtime([pay], store=place.store) as rt:
        rt.call("pay", {"amount": 5})
    assert "CALLER" not in place.inside("ps", "--all").stdout


def test_a_command_finds_calls_by_short_and_provider_names(place: Place) -> None:
    async def make() -> None:
        model = ScriptedModel([asks("toolu_01XyZ"), "done", asks("call_9"), "done"])
        async with Runtime([pay], store=place.store) as rt:
            agent = ReActAgent(rt, model)
            for thread in ("ann", "bob"):
                await agent.run("pay", thread=thread)

    asyncio.run(make())
    assert place.ask("show", "toolu_01XyZ")["thread"] == "ann"
    assert place.ask("show", "react.1.1.1", "--thread", "bob")["thread"] == "bob"
    output = place.inside("show", "react.1.1.1").stderr
    assert "--thread" in output
