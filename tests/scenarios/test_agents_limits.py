"""Limits of a turn: tokens, cost, time and repeated calls, and what counts towards them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make

from clicket import Policy, ToolContext, tool
from clicket.agents import AgentState, Limits, ReActAgent
from clicket.agents.stopwatch import Stopwatch
from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, ToolOffer, Usage
from clicket.runtime.calls.external_calls import complete_own
from clicket.testing import ScriptedModel, StepClock, memory_runtime, with_clock

IDLE = AgentState.IDLE


async def test_tokens_and_money_are_budgets(store: str) -> None:
    async with make([echo], store) as rt:
        counted = iter(range(100))

        def costly(_: ChatRequest) -> ChatReply:
            usage = Usage(input_tokens=10, output_tokens=5, cost=0.25)
            return asks(("echo", f'{{"text": "{next(counted)}"}}'), usage=usage)

        by_tokens = await ReActAgent(rt, Says(costly), max_tokens=30).run("go", thread="a")
        assert (by_tokens.stopped, by_tokens.steps, by_tokens.usage.total) == ("budget", 2, 30)
        assert by_tokens.text == "Terminated: Reached the budget of tokens (30 of 30)"
        by_money = await ReActAgent(rt, Says(costly), max_cost=0.6).run("go", thread="b")
        assert (by_money.stopped, by_money.steps, by_money.usage.cost) == ("budget", 3, 0.75)
        assert by_money.state is IDLE
        assert (await ReActAgent(rt, Says(costly)).look("b")).usage.cost == 0.75


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=-100, cost=-1.0),
        Usage(cost=float("nan")),
        Usage(cost=float("inf"), output_tokens=3),
        Usage(input_tokens="many"),  # type: ignore[arg-type]
        None,
    ],
)
async def test_figures_that_cannot_be_are_not_counted(store: str, usage: Any) -> None:
    async with make([echo], store) as rt:
        result = await ReActAgent(rt, Says(lambda _: ChatReply(text="x", usage=usage))).run("go")
        assert result.stopped == "finished"
        assert result.usage.cost == 0
        assert result.usage.total in (0, 3)


async def test_time_is_a_budget_for_models_and_for_tools() -> None:
    clock, gate = StepClock(), Gate()

    @tool(timeout=None)
    async def slow() -> str:
        await gate()
        return "late"

    async with memory_runtime([slow, echo], clock=clock) as rt:
        thinking = Gate()

        async def ponder(_: ChatRequest) -> ChatReply:
            await thinking()
            return ChatReply(text="late")

        run = asyncio.create_task(ReActAgent(rt, Says(ponder), max_seconds=5).run("go", thread="a"))
        await thinking.reached.wait()
        await clock.run(5.1)
        result = await run
        assert (result.stopped, result.text) == ("budget", "No steps executed")

        run = asyncio.create_task(
            ReActAgent(rt, ScriptedModel([[("slow", {}), ("echo", {"text": "x"})], "never"]), max_seconds=5).run(
                "go", thread="b"
            )
        )
        await gate.reached.wait()
        await clock.run(4)
        assert not run.done()
        await clock.run(1.1)
        result = await run
        assert (result.stopped, result.steps) == ("budget", 1)
        assert result.text == "Terminated: Reached the budget of seconds (5)"
        check_pairs(result.messages)
        assert [message.failed for message in result.messages[2:]] == [True, False]
        assert "may or may not have run" in result.messages[2].content
        assert (await rt.get("react.1.1.1", thread="b")).state.value == "cancelled"


async def test_waiting_for_a_person_is_not_counted_as_time() -> None:
    clock = StepClock()
    async with memory_runtime([echo], clock=clock, policy=Policy(ask=["echo"])) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "done"]), max_seconds=5)
        run = asyncio.create_task(agent.run("go", thread="t"))
        await clock.settle()
        await clock.run(60)
        assert not run.done()
        assert await rt.approve("react.1.1.1", thread="t")
        assert (await run).stopped == "finished"


def nested(
    rt: Any, depth: int, *, asks: tuple[str, dict[str, Any]] = ("echo", {"text": "x"}), **limits: Any
) -> ReActAgent:
    """An agent that gives its task to another one, and so on; the last one calls a tool."""
    agent = ReActAgent(rt, ScriptedModel([[asks], "done"]), name=f"a{depth}", **(limits if depth == 0 else {}))
    for level in reversed(range(depth)):
        rt.add(agent.as_tool(f"ask{level + 1}"))
        model = ScriptedModel([[(f"ask{level + 1}", {"task": "do it"})], "done"])
        agent = ReActAgent(rt, model, name=f"a{level}", **(limits if level == 0 else {}))
    return agent


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_wait_for_a_person_inside_a_called_agent_is_shown_and_not_counted_as_time(depth: int) -> None:
    clock = StepClock()
    async with memory_runtime([echo], clock=clock, policy=Policy(ask=["echo"])) as rt:
        agent = nested(rt, depth, max_seconds=5)
        run = asyncio.create_task(agent.run("go", thread="t"))
        await clock.settle()
        await clock.run(60)
        assert not run.done()
        [asked] = (await agent.look("t")).waiting_for
        assert (await rt.get(asked)).thread == "/".join(["t", *(f"a{level}.1.1.1" for level in range(depth))])
        assert await rt.approve(asked)
        assert (await run).stopped == "finished"
        assert (await agent.look("t")).waiting_for == []


async def test_a_called_agent_that_works_counts_as_time() -> None:
    clock, gate = StepClock(), Gate()

    @tool(timeout=None)
    async def slow() -> str:
        await gate()
        return "late"

    async with memory_runtime([slow], clock=clock) as rt:
        run = asyncio.create_task(nested(rt, 1, asks=("slow", {}), max_seconds=5).run("go", thread="t"))
        await gate.reached.wait()
        await clock.run(5.1)
        assert (await run).stopped == "budget"


async def test_a_wait_for_a_credential_inside_a_called_agent_is_shown_and_not_counted_as_time() -> None:
    @tool(credentials=["github"], timeout=None)
    async def star(ctx: ToolContext) -> str:
        return ctx.credential("github")[:2]

    clock = StepClock()
    async with memory_runtime([star], clock=clock, secret_key="the key of the credentials of this test") as rt:
        agent = nested(rt, 1, asks=("star", {}), max_seconds=5)
        run = asyncio.create_task(agent.run("go", thread="t"))
        await clock.settle()
        await clock.run(60)
        assert not run.done()
        [waiting] = (await agent.look("t")).waiting_for
        assert (await rt.get(waiting)).waiting_for == "credential"
        await rt.credentials.put("github", "gh-1")
        await clock.settle()
        assert (await run).stopped == "finished"


async def test_a_wait_for_a_budget_inside_a_called_agent_is_not_counted_as_time() -> None:
    clock = StepClock()
    budget = {"scope": "agent:a1", "limit_tokens": 1, "period": "total", "on_reached": "ask"}
    async with memory_runtime([echo], clock=clock, budgets=[budget]) as rt:
        agent = nested(rt, 1, max_seconds=5)
        run = asyncio.create_task(agent.run("go", thread="t"))
        await clock.settle()
        await clock.run(60)
        assert not run.done()
        [asked] = (await agent.look("t")).waiting_for
        assert (await rt.get(asked)).tool == "raise_budget"
        assert await rt.deny(asked)
        assert (await run).stopped == "finished"


async def test_a_wait_inside_a_called_agent_that_began_before_a_restart_is_not_counted_as_time(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asyncio.Event()

    class Watched(Stopwatch):
        def wait(self, thread: str, call_id: str) -> None:
            super().wait(thread, call_id)
            found.set()

    policy = Policy(ask=["echo"])
    async with make([echo], sqlite, policy=policy, close_timeout=0.0) as rt:
        agent = nested(rt, 2, max_seconds=50)
        await agent.begin("go", thread="t")
        await eventually(lambda: _waits(agent))
    clock = StepClock()
    monkeypatch.setattr("clicket.agents.tool_step.Stopwatch", Watched)
    async with with_clock(make([echo], sqlite, policy=policy), clock) as rt:
        agent = nested(rt, 2, max_seconds=50)
        run = asyncio.create_task(agent.run("go", thread="t"))

        async def stepped(condition: Callable[[], object]) -> None:
            """Some agents follow the call that they wait for through the store, at intervals: a little time passes with each look."""
            while not condition():
                await clock.run(0.005)
                await asyncio.sleep(0.003)

        await stepped(found.is_set)
        await clock.run(60)
        assert not run.done()
        [asked] = (await agent.look("t")).waiting_for
        assert await rt.approve(asked)
        await stepped(run.done)
        assert (await run).stopped == "finished"


async def _waits(agent: ReActAgent) -> list[str]:
    return (await agent.look("t")).waiting_for


async def test_the_time_of_a_frontend_tool_is_not_counted() -> None:
    clock = StepClock()
    async with memory_runtime([], clock=clock) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("pick", {})], "done"]), max_seconds=5)
        assert await agent.begin("go", thread="t", frontend=[ToolOffer(name="pick")]) == 1
        await clock.settle()
        await clock.run(60)
        asked = await rt.get("react.1.1.1", thread="t")
        assert asked.waiting_for == "external"
        await complete_own(rt, asked.id, "red", thread="t")
        async for _ in agent.events("t"):  # until the turn ends
            pass
        assert (await rt.get(asked.id, thread="t")).output == "red"


async def test_a_call_repeated_over_the_limit_ends_the_run(store: str) -> None:
    spellings = iter(['{"text": "a"}', '{ "text":"a" }', '{"text":"\\u0061"}', '{"text":"a"}'])
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: asks(("echo", next(spellings)))), max_repeats=3)
        result = await agent.run("go", thread="t")
        assert (result.stopped, result.state, result.steps, result.calls) == ("repeated", IDLE, 4, 3)
        assert result.text == "Terminated: Repeated 'echo' with the same arguments over 3 times"
        check_pairs(result.messages)
        again = await ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "ok"]), replace=True).run(
            "again", thread="t"
        )
        assert again.stopped == "finished"


def test_limits_that_make_no_sense_are_refused() -> None:
    for wrong in ({"max_steps": -1}, {"max_steps": None}, {"max_steps": True}, {"max_calls": 1.5}, {"max_repeats": 0}):
        with pytest.raises(UsageError):
            Limits(**wrong)
    for wrong in ({"max_cost": float("nan")}, {"max_seconds": -1}, {"max_seconds": "5"}, {"max_cost": True}):
        with pytest.raises(UsageError):
            Limits(**wrong)
