"""Custom agents: a user's own drive, a state hook with the thread, and the hub's tools at each step."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import add, echo
from tests.scenarios.agent_kit import Gate
from tests.scenarios.kit import make

from clicket import Runtime, tool
from clicket.agents import Actor, Agent, AgentState, Drive, Limits, Loop, ReActAgent, Stopped, Thinker, Turn
from clicket.errors import ClicketError, UsageError
from clicket.testing import ScriptedModel

IDLE, RUNNING, FINISHED = AgentState.IDLE, AgentState.RUNNING, AgentState.FINISHED

# The hook.


class Mine(ReActAgent):
    seen: list[tuple[AgentState, AgentState, str]]

    def on_state_changed(self, before: AgentState, after: AgentState, thread: str) -> None:
        self.seen.append((before, after, thread))


@pytest.mark.parametrize("kind", ["function", "async", "method"])
async def test_a_hook_is_given_the_thread_that_changed(kind: str, store: str) -> None:
    seen: list[tuple[AgentState, AgentState, str]] = []

    def three(before: AgentState, after: AgentState, thread: str) -> None:
        seen.append((before, after, thread))

    async def later(before: AgentState, after: AgentState, thread: str) -> None:
        seen.append((before, after, thread))

    async with make([echo], store) as rt:
        model = ScriptedModel(["a", "b"])
        agent: ReActAgent
        if kind == "method":
            agent = Mine(rt, model)
            agent.seen = seen
        else:
            agent = ReActAgent(rt, model, on_state_changed=three if kind == "function" else later)
        await agent.run("x", thread="one")
        await agent.run("y", thread="two")
    assert seen == [(before, after, thread) for thread in ("one", "two")
                    for before, after in ((IDLE, RUNNING), (RUNNING, FINISHED))]  # fmt: skip


# The hub's note.


@tool(depends_on="echo")
async def later(text: str) -> str:
    return text


async def test_at_each_step_of_an_agent_the_hub_logs_its_line(store: str, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([[("echo", {"text": "a"})], "done"])
    async with make([echo, later], store) as rt:
        with caplog.at_level(logging.DEBUG, logger="clicket.hub"):
            await ReActAgent(rt, model).run("x", thread="t1")
    lines = [record.getMessage() for record in caplog.records if record.name == "clicket.hub"]
    assert len(lines) == 2  # one for each step
    assert all("t1" in line and "tools (2)" in line for line in lines)
    assert "waiting: later for echo" in lines[0]
    assert "available: 2" in lines[1]


async def test_without_debug_the_hub_builds_no_log_line(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from clicket.hub import ThreadHub

    async def never(self: ThreadHub) -> str:
        raise AssertionError("nobody reads it")

    monkeypatch.setattr(ThreadHub, "summary", never)
    async with make([echo], store) as rt:
        assert (await ReActAgent(rt, ScriptedModel(["done"])).run("x")).text == "done"


# User-defined agents.


actor = Actor()


async def summing(turn: Turn) -> tuple[Stopped, str]:
    """Adds the numbers of the message, without a model."""
    total = "0"
    for part in turn.message.split():
        answer = await actor.call(turn, "add", {"a": int(total), "b": int(part)})
        if answer.failed:
            break
        total = answer.content
    return "finished", turn.say(total).content


async def test_a_drive_without_a_model_makes_durable_calls_in_its_turn(store: str) -> None:
    drive: Drive = summing
    async with make([add], store) as rt:
        agent = Agent(rt, drive, name="summing", limits=Limits(max_steps=10))
        result = await agent.run("1 2 3", thread="t1")
        assert (result.text, result.state, result.stopped, result.calls) == ("6", FINISHED, "finished", 3)
        calls = (await rt.history(thread="t1", tool="add")).items
        assert [call.state.value for call in calls] == ["completed"] * 3
        messages = await agent.messages("t1")
        assert [message.role for message in messages] == ["user", *["assistant", "tool"] * 3, "assistant"]
        assert [message.content for message in messages if message.role == "tool"] == ["1", "3", "6"]
        assert messages[-1].content == "6"


async def test_a_drive_is_held_to_the_limits(store: str) -> None:
    async with make([add], store) as rt:
        bounded = Agent(rt, summing, name="calls", limits=Limits(max_calls=2))
        result = await bounded.run("1 2 3 4")
        assert (result.state, result.stopped, result.calls) == (IDLE, "budget", 2)
        assert result.text == "Terminated: Reached the budget of tool calls (2)"
        short = Agent(rt, summing, name="steps", limits=Limits(max_steps=3))
        result = await short.run("1 2 3 4")
        assert (result.state, result.stopped, result.text) == (IDLE, "max_steps", "Terminated: Reached max steps (3)")


async def test_a_drive_of_our_own_parts_is_what_react_is(store: str) -> None:
    thinker, loop_of = Thinker(ScriptedModel([[("add", {"a": 1, "b": 2})], "three"])), Loop

    async def drive(turn: Turn) -> tuple[Stopped, str]:
        while True:
            stop = turn.over()
            if stop is not None:
                return stop
            message = await thinker.think(turn, await loop_of(thinker, actor).offers(turn))
            if not message.uses:
                return "finished", message.content
            stop = await actor.act(turn, message)
            if stop is not None:
                return stop

    async with make([add], store) as rt:
        result = await Agent(rt, drive, name="own", limits=Limits()).run("1 + 2?")
        assert (result.text, result.steps, result.calls) == ("three", 2, 1)


async def test_a_drive_gets_the_recorded_results_after_a_crash(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    reached = asyncio.Event()
    ran: list[int] = []

    @tool(name="add", idempotent=True)
    async def slow_add(a: int, b: int) -> int:
        ran.append(b)
        if b == 2 and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return a + b

    rt = await Runtime([slow_add], store=url).open()
    agent = Agent(rt, summing, name="summing", limits=Limits())
    number = await agent.begin("1 2 3", thread="t1")
    await reached.wait()
    await rt.close(patience=0)
    async with Runtime([slow_add], store=url) as again:
        agent = Agent(again, summing, name="summing", limits=Limits())
        result = await agent.resume("t1") or await agent.wait("t1", number)
        assert result is not None
        assert result.text == "6"
    assert ran == [1, 2, 2, 3]  # the first is recorded: it is not run again


async def test_a_drive_that_asks_for_another_tool_than_the_record_is_stopped(sqlite: str) -> None:
    gate = Gate()

    async def fickle(turn: Turn) -> tuple[Stopped, str]:
        await actor.call(turn, "add" if gate.reached.is_set() else "echo", {"a": 1, "b": 1})
        await gate()
        return "finished", ""

    async with make([add, echo], sqlite, close_timeout=0.0) as rt:
        await Agent(rt, fickle, name="fickle", limits=Limits()).begin("x")
        await gate.reached.wait()
    async with make([add, echo], sqlite) as rt:
        with pytest.raises(ClicketError, match="'echo' is on record"):
            await Agent(rt, fickle, name="fickle", limits=Limits()).resume()


@pytest.mark.parametrize("ending", [("done", "text"), "finished", None, ("finished", 1), ("finished",)])
async def test_what_a_drive_returns_is_checked(ending: Any) -> None:
    async def drive(turn: Turn) -> Any:
        return ending

    async with make([echo]) as rt:
        agent = Agent(rt, drive, name="mine", limits=Limits())
        with pytest.raises(UsageError, match=r"a drive returns why the turn ends.*finished, max_steps"):
            await agent.run("go", thread="t")
        assert (await agent.look("t")).state is AgentState.ERROR
