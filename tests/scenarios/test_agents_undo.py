"""The calls of a turn are undone: on demand, or because it ended badly; the last one first, each once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url

from clicket import Conflict, Happened, Policy, Record, Runtime, ToolContext, Unknown, tool
from clicket.agents import Check, PlanExecuteAgent, ReActAgent, Refuse
from clicket.errors import ClicketError, NotFound, UsageError
from clicket.kernel import AgentState
from clicket.model.ids import alias_of
from clicket.model.undo import undo_id
from clicket.testing import ScriptedModel

undone: list[str] = []
"""Short names of the calls that were undone, in order."""
broken: set[str] = set()
"""Calls whose undos fail."""
answers: list[Any] = []
"""What the check of `pay` answers."""
gates: dict[str, asyncio.Event] = {}


async def revert(call: Record, ctx: ToolContext) -> None:
    if alias_of(call.id) in broken:
        raise ValueError("it cannot be reverted now")
    undone.append(alias_of(call.id))


def check(call: Any, ctx: ToolContext) -> Any:
    return answers.pop(0) if answers else Unknown("nobody knows")


@tool(undo=revert, max_retries=0, reconcile=check)
async def pay(bill: str) -> str:
    if bill == "late":
        await gates["late"].wait()
    if bill == "lost":
        await asyncio.sleep(60)
    if bill == "bad":
        raise ValueError("no such bill")
    return f"paid {bill}"


@tool(undo=revert, background=True)
async def ship(box: str) -> str:
    await gates["ship"].wait()
    return f"shipped {box}"


@tool
async def mail(to: str) -> str:
    return "sent"


@tool(read_only=True)
async def look(at: str) -> str:
    return at


ALL = [pay, ship, mail, look]


@pytest.fixture(autouse=True)
def _clean() -> None:
    undone.clear()
    broken.clear()
    answers.clear()
    gates.update(late=asyncio.Event(), ship=asyncio.Event())


def agent_of(rt: Runtime, *steps: Any, **options: Any) -> ReActAgent:
    return ReActAgent(rt, ScriptedModel(list(steps)), **options)


def bills(*names: str) -> list[tuple[str, dict[str, str]]]:
    return [("pay", {"bill": name}) for name in names]


def ids(listed: Any) -> list[str]:
    return [alias_of(each.id) for each in listed]


async def test_a_turn_is_undone_on_demand_the_last_call_first(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt:
        agent = agent_of(
            rt, [*bills("a"), ("look", {"at": "x"})], [*bills("b"), ("mail", {"to": "me"})], "done", "next"
        )
        await agent.run("go", thread="t")
        dry = await rt.undo(thread="t", turn=1, dry=True)
        assert (ids(dry.waiting), ids(dry.impossible), undone) == (["react.1.2.1", "react.1.1.1"], ["react.1.2.2"], [])
        report = await rt.undo(thread="t", turn=1)
        assert ids(report.undone) == undone == ["react.1.2.1", "react.1.1.1"]
        assert "has no undo" in report.impossible[0].reason
        assert report.is_complete
        with pytest.raises(NotFound):
            await rt.undo(thread="t", turn=2)
    async with make(ALL, url) as rt:
        assert await rt.undo(thread="t", turn=1) == report
        agent = agent_of(rt, "next", "and on")
        result = await agent.run("what now?", thread="t")
        told = [m.content for m in result.messages if m.role == "user"][-1]
        assert told.index("react.1.2.1") < told.index("react.1.1.1")
        events = [event.data for event in await agent.recorded("t", 2) if event.type == "undone"]
        assert [each["call"] for each in events[0]["calls"]] == [each.id for each in report.undone]
        await rt.undo(thread="t", turn=1)
        again = await agent.run("and then?", thread="t")
        assert [m.content for m in again.messages].count(told) == 1, "it is read once"
    assert undone == ["react.1.2.1", "react.1.1.1"]


async def test_a_failed_turn_is_undone_once_whoever_asks_again() -> None:
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a"), RuntimeError("the model is gone"), "ok", undo_on="failed")
        for _ in range(2):
            with pytest.raises(ClicketError if _ else RuntimeError):
                await agent.run("go", thread="t", id="one")
        assert undone == ["react.1.1.1"]
        assert (await rt.undo(thread="t", turn=1)).undone
        assert (await rt.undo(thread="t", turn=1, retry=True)).undone
        assert (await agent.run("again", thread="t")).text == "ok"
    assert undone == ["react.1.1.1"]


async def test_an_error_that_the_agent_recovered_from_undoes_nothing() -> None:
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a"), bills("bad"), bills("b"), "recovered", undo_on="failed")
        assert (await agent.run("go", thread="t")).text == "recovered"
        assert undone == []
        report = await rt.undo(thread="t", turn=1)
        assert ids(report.undone) == ["react.1.3.1", "react.1.1.1"], "the call that failed had no effect"


@pytest.mark.parametrize(
    ("undo_on", "ends", "expected"),
    [
        ("failed", "max_steps", False),
        (("failed", "max_steps"), "max_steps", True),
        ("failed", "refused", True),
        ("failed", "budget", False),
        ("budget", "budget", True),
    ],
)
async def test_only_the_named_ends_undo(undo_on: Any, ends: str, expected: bool) -> None:
    limits: dict[str, Any] = {"max_steps": {"max_steps": 1}, "budget": {"max_tokens": 1}}.get(ends, {})
    checks = [Check(lambda turn, text: Refuse("no"), on="output", name="no")] if ends == "refused" else []
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a"), *["done"] * 5, undo_on=undo_on, checks=checks, output_retries=1, **limits)
        assert (await agent.run("go", thread="t")).stopped == ends
        assert undone == (["react.1.1.1"] if expected else [])
        assert (await agent.run("go on", thread="t")) is not None


async def test_a_cancelled_turn_is_undone_if_that_is_named() -> None:
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a"), bills("late"), undo_on=["cancelled"])
        running = asyncio.ensure_future(agent.run("go", thread="t"))
        await eventually(lambda: _runs(rt, "pay", 2))
        assert await agent.stop("t")
        assert (await running).stopped == "cancelled"

        async def undo_ended() -> Record | None:
            found = [each for each in (await rt.history(thread="agent:react/t")).items if each.id == "undo-turn-1"]
            return found[0] if found and found[0].state.is_terminal else None

        report = (await eventually(undo_ended)).output
        assert ids_of(report["unknown"]) == ["react.1.2.1"], "it was cancelled while it ran"
        assert ids_of(report["waiting"]) == ["react.1.1.1"]
        assert undone == []


def ids_of(listed: list[dict[str, Any]]) -> list[str]:
    return [alias_of(each["id"]) for each in listed]


async def _runs(rt: Runtime, name: str, number: int) -> bool:
    return len([1 for each in (await rt.history(tool=name)).items if each.started_at is not None]) >= number


async def test_the_first_failure_stops_the_rest_and_a_person_tries_again() -> None:
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a"), bills("b"), bills("c"), "done")
        await agent.run("go", thread="t")
        broken.add("react.1.2.1")
        report = await rt.undo(thread="t", turn=1, strict=False)
        assert (ids(report.undone), ids(report.failed), ids(report.waiting)) == (
            ["react.1.3.1"], ["react.1.2.1"], ["react.1.1.1"],
        )  # fmt: skip
        broken.clear()
        assert (await rt.undo(thread="t", turn=1)).failed, "the same outcome, until somebody says so"
        assert (await rt.undo(thread="t", turn=1, retry=True)).is_complete
    assert undone == ["react.1.3.1", "react.1.2.1", "react.1.1.1"]


async def test_earlier_calls_wait_for_one_in_doubt() -> None:
    async with make([pay], policy=None) as rt:
        agent = agent_of(rt, bills("a"), bills("lost"), bills("c"), "done")
        run = asyncio.ensure_future(agent.run("go", thread="t"))
        await eventually(lambda: _runs(rt, "pay", 2))
        lost = (await rt.history(active=True, tool="pay")).items[0]
        await rt.cancel(lost.id, thread="t")
        await run
        report = await rt.undo(thread="t", turn=1)
        assert (ids(report.undone), ids(report.unknown), ids(report.waiting)) == (
            ["react.1.3.1"], ["react.1.2.1"], ["react.1.1.1"],
        )  # fmt: skip
        assert "nobody knows" in report.unknown[0].reason
        report = await rt.undo(thread="t", turn=1, strict=False)
        assert (ids(report.undone), ids(report.unknown)) == (["react.1.3.1", "react.1.1.1"], ["react.1.2.1"])
        answers.append(Happened("paid lost"))
        assert (await rt.undo(thread="t", turn=1)).is_complete
    assert undone == ["react.1.3.1", "react.1.1.1", "react.1.2.1"]


async def test_background_calls_and_those_of_called_agents_are_among_them() -> None:
    async with make(ALL) as rt:
        helper = agent_of(rt, bills("inner"), "helped", name="helper")
        rt.add(helper.as_tool("help"))
        agent = agent_of(rt, [("ship", {"box": "1"})], [("help", {"task": "do"})], bills("last"), "done")
        await agent.run("go", thread="t")
        with pytest.raises(Conflict, match="has not ended"):
            await rt.undo(thread="t", turn=1)
        gates["ship"].set()

        async def shipped() -> bool:
            return not (await rt.history(active=True)).items

        await eventually(shipped)
        report = await rt.undo(thread="t", turn=1)
    assert ids(report.undone) == undone == ["react.1.1.1", "react.1.3.1", "helper.1.1.1"], "by their ends"
    assert not report.impossible


async def test_a_running_turn_is_refused_and_agents_are_told_apart() -> None:
    async with make(ALL) as rt:
        one, other = agent_of(rt, bills("a"), "done", name="one"), agent_of(rt, bills("late"), "done", name="other")
        await one.run("go", thread="t")
        running = asyncio.ensure_future(other.run("go", thread="t"))
        await eventually(lambda: _runs(rt, "pay", 2))
        with pytest.raises(UsageError, match="one, other"):
            await rt.undo(thread="t", turn=1)
        with pytest.raises(Conflict, match="has not ended"):
            await rt.undo(thread="t", turn=1, agent="other")
        assert (await rt.undo(thread="t", turn=1, agent="one")).is_complete
        gates["late"].set()
        await running
    assert undone == ["one.1.1.1"]


async def test_the_turn_waits_for_an_undo_that_waits_for_a_person() -> None:
    async with make(ALL, policy=Policy(ask=["undo:*"])) as rt:
        agent = agent_of(rt, bills("a"), RuntimeError("boom"), "later", undo_on="failed")
        running = asyncio.ensure_future(agent.run("go", thread="t"))

        async def asked() -> list[str]:
            return (await agent.look("t")).waiting_for

        (id,) = await eventually(asked)
        assert (await agent.look("t")).state is AgentState.RUNNING
        assert undone == []
        await rt.approve(id, thread="t", by="ann")
        with pytest.raises(RuntimeError, match="boom"):
            await running
        assert undone == ["react.1.1.1"]


async def test_an_undo_that_waits_goes_on_in_the_next_process(tmp_path: Path) -> None:
    url, policy = sqlite_url(tmp_path), Policy(ask=["undo:*"])
    async with make(ALL, url, policy=policy) as rt:
        agent = agent_of(rt, bills("a"), RuntimeError("boom"), undo_on="failed")
        running = asyncio.ensure_future(agent.run("go", thread="t"))

        async def asked() -> list[str]:
            return (await agent.look("t")).waiting_for

        (id,) = await eventually(asked)
        await rt.close(patience=0)
        with pytest.raises((ClicketError, asyncio.CancelledError)):
            await running
    async with make(ALL, url, policy=policy) as rt:
        agent = agent_of(rt, "ok", undo_on="failed")
        await rt.approve(id, thread="t", by="ann")

        async def ended() -> bool:
            return (await agent.look("t")).state is AgentState.ERROR

        await eventually(ended)
        assert undone == ["react.1.1.1"]
        report = (await rt.get("undo-turn-1", thread="agent:react/t")).output
        assert ids_of(report["undone"]) == ["react.1.1.1"]
        told = (await agent.run("next", thread="t")).messages
        assert any("react.1.1.1" in message.content for message in told)
    assert undone == ["react.1.1.1"]


async def test_a_plan_that_fails_is_undone() -> None:
    async with make(ALL) as rt:
        plan = [("planning", {"command": "create", "title": "t", "steps": ["pay"]})]
        planner = ScriptedModel([plan, RuntimeError("boom")])
        executor = ScriptedModel([bills("a"), "paid"])
        agent = PlanExecuteAgent(rt, planner, executor=executor, undo_on="failed")
        with pytest.raises(RuntimeError):
            await agent.run("go", thread="t")
        calls = (await rt.history(tool="pay")).items
    assert undone == [alias_of(each.id) for each in calls]
    assert len(undone) == 1


async def test_a_person_undoes_one_call_of_a_turn() -> None:
    async with make(ALL) as rt:
        agent = agent_of(rt, bills("a", "b"), "done", "ok")
        await agent.run("go", thread="t")
        report = await rt.undo("react.1.1.1", thread="t")
        assert ids(report.undone) == ["react.1.1.1"]
        told = (await agent.run("so?", thread="t")).messages
        assert any("react.1.1.1" in message.content for message in told)
        with pytest.raises(UsageError, match="undoes a turn"):
            await rt.undo("turn-1", thread="agent:react/t")
        with pytest.raises(UsageError, match="clicket's own"):
            await rt.undo(undo_id(report.undone[0].id), thread="t")


async def test_models_are_offered_no_undo_and_cannot_call_one() -> None:
    seen: list[list[str]] = []

    class Model(ScriptedModel):
        async def chat(self, request: Any) -> Any:
            seen.append([each.name for each in request.tools])
            return await super().chat(request)

    async with make(ALL) as rt:
        model = Model([bills("a"), [("undo:pay", {"call": "x", "arguments": {}})], "done"])
        result = await ReActAgent(rt, model).run("go", thread="t")
    assert not any("undo" in name for names in seen for name in names)
    assert any("there is no tool 'undo:pay'" in message.content for message in result.messages)
    assert undone == []


def test_an_unknown_end_is_refused() -> None:
    with pytest.raises(UsageError, match="undo_on is of"):
        agent_of(make(ALL), "x", undo_on="sometimes")
