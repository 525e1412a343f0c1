"""An agent that another one calls keeps to what holds for that one: approvals, limits of tokens and cost, and spend."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.agents import Limits, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, Usage

TEN = Usage(input_tokens=9, output_tokens=1)


@tool
async def pay(bill: str) -> str:
    return f"paid {bill}"


def spends(*answers: Any) -> Says:
    """Answers in turn, each for ten tokens."""
    rest = iter(answers)

    def answer(_: ChatRequest) -> ChatReply:
        said = next(rest)
        return ChatReply(text=said, usage=TEN) if isinstance(said, str) else asks(*said, usage=TEN)

    return Says(answer)


ECHO = [("echo", '{"text": "x"}')]


def boss(rt: Runtime, helper: Any, *answers: Any, **options: Any) -> ReActAgent:
    rt.add(ReActAgent(rt, helper, name="helper", tools=["echo"], max_repeats=None, max_steps=100).as_tool("help"))
    return ReActAgent(rt, spends(*answers), name="boss", tools=["help"], **options)


async def test_an_approval_within_is_one_that_the_outer_turn_waits_for() -> None:
    async with make([pay], policy=Policy(ask=["pay"])) as rt:
        helper = ReActAgent(rt, spends([("pay", '{"bill": "rent"}')], "it is paid"), name="helper", tools=["pay"])
        rt.add(helper.as_tool("help"))
        agent = ReActAgent(rt, spends([("help", '{"task": "pay"}')], "done"), name="boss", tools=["help"])
        running = asyncio.ensure_future(agent.run("go", thread="t"))

        async def waits() -> list[str]:
            return (await agent.look("t")).waiting_for

        (call,) = await eventually(waits)
        await rt.approve(call)
        result = await running
        assert [message.content for message in result.messages if message.role == "tool"] == ["it is paid"]


@pytest.mark.parametrize("limits", [Limits(max_tokens=45), Limits(max_cost=0.045, max_tokens=None)])
async def test_what_it_spends_counts_towards_the_limits_of_the_outer_turn(limits: Limits, store: str) -> None:
    usage = Usage(input_tokens=9, output_tokens=1, cost=0.01)
    helper = Says(lambda _: asks(("echo", '{"text": "x"}'), usage=usage))
    async with make([echo], store) as rt:
        agent = boss(rt, helper, [("help", '{"task": "a"}')], "not asked any more")
        result = await agent.run("go", thread="t", limits=limits)
        assert result.stopped == "budget"
        (within,) = [message.content for message in result.messages if message.role == "tool"]
        assert within.startswith("[budget]")
        # With a limit of tokens 10 were used before, so the helper may use 35; the boss' answers have no cost.
        assert helper.asked == (4 if limits.max_tokens else 5)
        assert result.usage.total == 10, "the turn's own"
        (turn,) = (await agent.history("t")).turns
        assert turn.called is not None
        assert turn.called.total == helper.asked * 10


@pytest.mark.parametrize("limits", [Limits(max_tokens=100), Limits(max_cost=0.1)])
async def test_agents_that_work_at_the_same_time_share_what_is_left(limits: Limits) -> None:
    """Ten tokens for each request: together they make no more requests than the limit has, and one more each."""
    both = asyncio.Barrier(2)
    asked = 0

    async def answer(request: ChatRequest) -> ChatReply:
        nonlocal asked
        asked += 1
        with suppress(asyncio.BrokenBarrierError, TimeoutError):  # in step, until one of them is at its end
            async with asyncio.timeout(0.5):
                await both.wait()
        return asks(*ECHO, usage=msgspec.structs.replace(TEN, cost=0.01))

    async with make([echo]) as rt:
        agent = boss(rt, Says(answer), [("help", '{"task": "a"}'), ("help", '{"task": "b"}')], "done")
        result = await agent.run("go", thread="t", limits=limits)
        assert result.stopped == "budget"
        assert 9 <= asked <= 11
        ended = [m.content for m in result.messages if m.role == "tool"]
        assert all("[budget] Terminated: Reached the budget of" in each for each in ended)
        assert any("of the agent 'boss', which gave the task" in each for each in ended)
        (turn,) = (await agent.history("t")).turns
        assert turn.called is not None
        assert turn.called.total == asked * 10


async def test_an_agent_between_counts_too_and_has_its_own_limits() -> None:
    async with make([echo]) as rt:
        low = ReActAgent(rt, spends("found"), name="low", tools=["echo"])
        rt.add(low.as_tool("ask_low"))
        middle = ReActAgent(
            rt, spends([("ask_low", '{"task": "b"}')], "so it is"), name="middle", tools=["ask_low"], max_tokens=15
        )
        rt.add(middle.as_tool("ask_middle"))
        agent = ReActAgent(
            rt, spends([("ask_middle", '{"task": "a"}')], "done"), name="boss", tools=["ask_middle"], max_tokens=500
        )
        result = await agent.run("go", thread="t")
        assert result.text == "done"
        assert result.messages[2].content == "[budget] Terminated: Reached the budget of tokens (20 of 15)"
        (turn,) = (await agent.history("t")).turns
        assert turn.called is not None
        assert turn.called.total == 20


async def test_without_such_a_limit_nothing_more_is_written() -> None:
    async with make([echo]) as rt:
        agent = boss(rt, spends(ECHO, "found"), [("help", '{"task": "a"}')], "done")
        await agent.run("go", thread="t")
        record = await rt.get("turn-1", thread="agent:boss/t")
        entries = [event.data["entry"] for event in record.events if "entry" in event.data]
        assert all("usage" not in item for entry in entries if entry["e"] == "results" for item in entry["items"])
        assert "called" not in entries[-1]


async def test_what_it_spent_is_known_after_a_restart(sqlite: str) -> None:
    gate = Gate()
    hold = iter([True])

    async def answer(request: ChatRequest) -> ChatReply:
        if not any(message.role == "tool" for message in request.messages):
            return asks(("help", '{"task": "a"}'), usage=TEN)
        if next(hold, False):
            await gate()
        return asks(("help", '{"task": "b"}'), usage=TEN)

    async with make([echo], sqlite, close_timeout=0.0) as rt:
        rt.add(ReActAgent(rt, spends(ECHO, "one"), name="helper", tools=["echo"]).as_tool("help"))
        first = ReActAgent(rt, Says(answer), name="boss", tools=["help"], max_tokens=35)
        await first.begin("go", thread="t")
        await gate.reached.wait()
    async with make([echo], sqlite) as rt:
        helper = spends("two", "three", "four")
        rt.add(ReActAgent(rt, helper, name="helper", tools=["echo"]).as_tool("help"))
        again = ReActAgent(rt, Says(answer), name="boss", tools=["help"], max_tokens=35)
        result = await again.run("go", thread="t")
        assert (result.stopped, result.steps, helper.asked) == ("budget", 2, 0), "30 were used, then 10 more"
