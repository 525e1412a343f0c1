"""A turn whose calls run in another process: the turn changes its process, and its calls do not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks
from tests.scenarios.kit import make

from clicket import Runtime, State, tool
from clicket.agents import ReActAgent
from clicket.agents.subagents import AgentTool
from clicket.agents.threads import Threads
from clicket.engine import CallHandle


async def test_a_process_that_closes_cancels_no_call_of_a_turn_that_it_took_up(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, waiting, result_of = Gate(), asyncio.Event(), CallHandle.result

    @tool
    async def pay() -> str:
        await gate()
        return "paid"

    def agent_at(rt: Runtime) -> ReActAgent:
        return ReActAgent(rt, Says(lambda request: "done" if len(request.messages) > 1 else asks(("pay", "{}"))))

    async def call_of(rt: Runtime) -> Any:
        (call,) = [call for call in (await rt.history(thread="t")).items if call.tool == "pay"]
        return call

    async def watched(handle: CallHandle) -> Any:
        if handle.id.startswith("u0:"):
            waiting.set()
        return await result_of(handle)

    async with asyncio.timeout(30), make([pay], sqlite) as worker:
        async with make([pay], sqlite, engine="workers", close_timeout=0.0) as rt:
            await agent_at(rt).begin("go", thread="t")
            await gate.reached.wait()
        monkeypatch.setattr(CallHandle, "result", watched)
        async with make([pay], sqlite, engine="workers", close_timeout=0.0) as rt:
            assert await agent_at(rt).take_up("t") == 1
            await waiting.wait()
        call = await call_of(worker)
        assert (call.state, call.cancel_requested) == (State.RUNNING, False)
        gate.open()
        async with make([pay], sqlite, engine="workers") as rt:
            result = await agent_at(rt).resume("t")
    assert result is not None
    assert [message.content for message in result.messages if message.role == "tool"] == ["paid"]


@pytest.mark.parametrize("where", ["before it begins", "when it begins its turn"])
async def test_an_agent_that_is_called_while_the_runtime_closes_answers_later(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    gate, next_of, run_of = Gate(), Threads.next_to_begin, AgentTool.run

    def agent_at(rt: Runtime) -> ReActAgent:
        helper = ReActAgent(rt, Says(lambda request: "helped"), name="helper", tools=[])
        rt.add(helper.as_tool("help"))
        answers = Says(lambda request: "done" if len(request.messages) > 1 else asks(("help", '{"task": "go"}')))
        return ReActAgent(rt, answers, tools=["help"])

    async def next_gated(threads: Threads, thread: str) -> int:
        if thread != "t":
            await gate()
        return await next_of(threads, thread)

    async def run_gated(called: AgentTool, bound: Any, ctx: Any) -> str:
        await gate()
        return await run_of(called, bound, ctx)

    if where == "before it begins":
        monkeypatch.setattr(AgentTool, "run", run_gated)
    else:
        monkeypatch.setattr(Threads, "next_to_begin", next_gated)
    async with asyncio.timeout(60):
        async with make([], sqlite) as rt:
            await agent_at(rt).begin("go", thread="t")
            await gate.reached.wait()
            closing = asyncio.create_task(rt.close())
            await eventually(lambda: rt.host.closing)
            gate.open()
            await closing
        rt = Runtime(store=sqlite)
        agent = agent_at(rt)
        async with rt:
            result = await agent.wait("t", 1)
    assert result is not None
    assert [message.content for message in result.messages if message.role == "tool"] == ["helped"]
