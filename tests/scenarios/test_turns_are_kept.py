"""Calls of an agent's turns, and the tool calls in them, live as long as their thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.tools import echo_value
from tests.scenarios.kit import make

from clicket import Runtime
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse
from clicket.model.ids import alias_of
from clicket.ports import Stored

EVERYTHING = 4e9
"""A time after which no call of these tests ended."""


class Model:
    name = "model"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.messages[-1].role == "user":
            return ChatReply(uses=(ToolUse(id="u", name="echo", arguments='{"value": 1}'),))
        return ChatReply(text="done")


@pytest.fixture(params=["memory", "sqlite"])
async def rt(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/calls.db"
    async with make([echo_value], url) as runtime:
        yield runtime


async def _ids(rt: Runtime, thread: str) -> list[str]:
    return sorted(alias_of(record.id) for record in (await rt.history(limit=1_000, thread=thread)).items)


async def _sweep(rt: Runtime) -> int:
    return (await rt.sweep(rt.retention(EVERYTHING))).calls


async def test_calls_of_turns_stay_while_their_thread_does(rt: Runtime) -> None:
    agent = ReActAgent(rt, Model())
    await agent.run("one", thread="talk")
    await agent.run("two", thread="talk")
    await rt.call("echo", {"value": 1}, id="plain", thread="talk")
    await rt.call("echo", {"value": 1}, id="forged.react.1.1~x", thread="other")
    of_turns = ["turn-1", "turn-2"]
    tools = ["react.1.1.1", "react.2.1.1"]
    assert await _ids(rt, thread="agent:react/talk") == of_turns
    assert await _sweep(rt) == 2, "the calls that are of no turn"
    assert (await _ids(rt, thread="agent:react/talk"), await _ids(rt, thread="talk")) == (of_turns, tools)
    events = [event async for event in agent.events("talk")]
    assert any(event.type == "tool_result" for event in events), "entries of turns are there, too"

    await agent.forget("talk")
    await agent.run("three", thread="talk")
    assert await _sweep(rt) == 4, "what was forgotten goes"
    assert (await _ids(rt, thread="agent:react/talk"), await _ids(rt, thread="talk")) == (["turn-3"], ["react.3.1.1"])


async def test_sweeps_do_not_look_again_at_calls_that_stay(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ReActAgent(rt, Model())
    for number in range(5):
        await agent.run("one", thread=f"t{number}")
    asked: list[int] = []
    keeps = rt.engine.sweeps.keeps
    assert keeps is not None

    async def noted(calls: list[Stored]) -> object:
        asked.append(len(calls))
        return await keeps(calls)

    monkeypatch.setattr(rt.engine.sweeps, "keeps", noted)
    assert [await _sweep(rt) for _ in range(3)] == [0, 0, 0]
    assert sum(asked) == 10, "each turn and each tool call once"


async def test_an_idle_thread_goes_with_its_calls(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ReActAgent(rt, Model())
    await agent.run("one", thread="old")
    assert await _sweep(rt) == 0
    sweep_threads = rt.engine.background._chores["threads"][1]
    monkeypatch.setattr("clicket.runtime.agent_host._idle_before", lambda engine: EVERYTHING)
    await sweep_threads()
    assert await _sweep(rt) == 2
    assert (await agent.look("old")).turns == 1, "a new turn must not get the number of a stored one"
    await sweep_threads()
    assert (await agent.look("old")).turns == 0
