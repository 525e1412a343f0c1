"""A turn is followed for another protocol: what tells of a call comes before the report that it waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.scenarios.kit import make

from clicket import Policy, tool
from clicket.agents import AgentEvent, ReActAgent
from clicket.server.turn_follower import Blocked, TurnFollower
from clicket.testing import ScriptedModel


@tool
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def test_the_wait_of_a_called_agent_is_reported_after_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are slow to come: the turn has long been silent by then."""
    looked, events = asyncio.Event(), ReActAgent.events

    def slow(self: ReActAgent, thread: str = "default", **options: Any) -> AsyncIterator[AgentEvent]:
        return (
            delayed(events(self, thread, **options), looked)
            if self.name == "worker"
            else events(self, thread, **options)
        )

    monkeypatch.setattr(ReActAgent, "events", slow)
    async with make([pay], policy=Policy(ask=["pay"])) as rt:
        worker = ReActAgent(rt, ScriptedModel([[("pay", {"amount": 5})], "I paid."]), name="worker", tools=["pay"])
        rt.add(worker.as_tool("ask_worker", "Works."))
        boss = ReActAgent(rt, ScriptedModel([[("ask_worker", {"task": "pay"})], "Done."]), name="boss")
        await boss.begin("go", thread="t")
        follower, seen = TurnFollower(boss, rt, "t", 1), []
        waiting = rt.host.waiting

        async def count_looks(*args: Any) -> Any:
            found = await waiting(*args)
            if found:
                asyncio.get_running_loop().call_soon(
                    looked.set
                )  # the follower has looked, and knows that the call waits
            return found

        monkeypatch.setattr(type(rt.host), "waiting", lambda self, *args: count_looks(*args))
        items: Any = follower.items()
        async for item in items:
            if isinstance(item, Blocked):
                break
            seen.append((item.event.type, "" if item.task is None else item.task.agent))
        await items.aclose()
        assert ("tool_started", "worker") in seen
        assert [each.use_id != "" for each in item.waiting] == [True]
        await boss.stop("t")


async def delayed(events: AsyncIterator[AgentEvent], until: asyncio.Event) -> AsyncIterator[AgentEvent]:
    await until.wait()
    async for event in events:
        yield event
