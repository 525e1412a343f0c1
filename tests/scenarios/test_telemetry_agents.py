"""Agents in figures and traces: a turn counts for its agent, never for a tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.agent_server_kit import TURN, Gate, say, script
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.otel_kit import Collector, facts
from tests.scenarios.server_kit import TOOLS, key_for, served
from tests.unit.telemetry.test_prometheus import promtool, samples

from clicket.agents import Check, Pass, ReActAgent
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest, Usage
from clicket.telemetry.prometheus import scrape
from clicket.testing import ScriptedModel


class Priced:
    """Answers once, at a price."""

    name = "priced"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return ChatReply(
            text="yes",
            usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=70, cache_write_tokens=20, cost=0.25),
        )


async def test_turns_are_counted(tmp_path: Path) -> None:
    async with make(TOOLS) as rt:
        await scrape(rt)  # turns count from the first scrape on
        agent, dear = (
            ReActAgent(rt, ScriptedModel([*TURN, *TURN, ValueError("no")]), name="helper", max_steps=2),
            ReActAgent(rt, Priced(), name="dear"),
        )
        await agent.run("one", thread="a")
        await agent.run("two", thread="a")
        with pytest.raises((ValueError, ClicketError)):
            await agent.run("three", thread="a")
        await dear.run("four")
        await dear.run("five")
        page, _ = await scrape(rt)
        promtool(page)
        assert samples(page, "clicket_agent_turns_total") == {
            ("dear", "finished"): 2, ("helper", "error"): 1, ("helper", "finished"): 2,
        }  # fmt: skip
        assert samples(page, "clicket_agent_steps_total") == {("dear",): 2, ("helper",): 4}
        assert samples(page, "clicket_agent_tool_calls_total") == {("dear",): 0, ("helper",): 2}
        assert samples(page, "clicket_agent_tokens_total")["dear", "input"] == 200
        assert samples(page, "clicket_agent_tokens_total")["dear", "output"] == 20
        assert samples(page, "clicket_agent_cache_tokens_total")["dear", "read"] == 140
        assert samples(page, "clicket_agent_cache_tokens_total")["dear", "write"] == 40
        assert samples(page, "clicket_agent_cost_total") == {("dear",): 0.5, ("helper",): 0}
        assert samples(page, "clicket_agent_turn_seconds_count") == {("dear",): 2, ("helper",): 3}
        assert not [tool for _, tool in samples(page, "clicket_tool_executions_total") if "agent" in tool]
        opened, kind = await scrape(rt, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert b"clicket_agent_turns_total" in opened


async def test_an_agent_without_turns_is_listed() -> None:
    async with make(TOOLS) as rt:
        ReActAgent(rt, Priced(), name="idle")
        page, _ = await scrape(rt)
        promtool(page)
        assert samples(page, "clicket_agent_turns_total") == {("idle", "finished"): 0}


async def test_the_reason_that_stopped_a_turn_is_reported() -> None:
    gate = Gate()
    async with make([gate.tool]) as rt:
        await scrape(rt)
        agent = ReActAgent(rt, ScriptedModel([[("gate", {})]] * 9), name="helper", max_steps=1)
        gate.open.set()
        await agent.run("too long")
        gate.open.clear()
        gate.reached.clear()
        await agent.begin("stopped")
        await gate.reached.wait()
        assert await agent.stop()
        await agent.wait(turn=2)
        page, _ = await scrape(rt)
        counted = samples(page, "clicket_agent_turns_total")
        assert counted["helper", "max_steps"] == 1
        assert counted["helper", "cancelled"] == 1


async def test_turns_are_no_tools_runs(tmp_path: Path) -> None:
    """A turn lasts as long as all its calls: in a tool's report it would count everything twice, and be an anomaly."""
    for _ in range(2):
        async with make(TOOLS, sqlite_url(tmp_path)) as rt:
            agent = ReActAgent(rt, ScriptedModel(TURN), name="helper")
            await agent.run("one", thread="t")
            report = await rt.report()
            assert set(report.tools) == {"add"}
            assert report.totals.total == report.tools["add"].total
            assert set((await rt.report(since=0.0)).tools) == {"add"}
    assert (await _turns(tmp_path)) == 2


async def _turns(folder: Path) -> int:
    async with make(TOOLS, sqlite_url(folder)) as rt:
        return (await rt.report("agent:helper")).totals.total


async def test_keys_see_their_own(tmp_path: Path) -> None:
    agents = {"helper": {"model": script(tmp_path, {"answers": TURN, "repeat": True})}}
    async with served(agents=agents) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        root = await key_for(it, "root", "admin")
        await say(it, headers=a, wait=True)
        await say(it, headers=a, wait=True)
        await say(it, headers=b, wait=True)
        for headers, count in ((a, 2), (b, 1), (root, 3)):
            page = (await it.get("/metrics", headers=headers)).content
            promtool(page)
            assert samples(page, "clicket_agent_turns_total")["helper", "finished"] == count


async def test_spans() -> None:
    collector = Collector()
    rt = collector.watch(make(TOOLS))
    async with rt:
        agent = ReActAgent(rt, ScriptedModel([*TURN, ValueError("no")]), name="helper")
        with collector.tracer.start_as_current_span("request") as request:
            await agent.run("one", thread="t")
        with pytest.raises((ValueError, ClicketError)):
            await agent.run("two", thread="t")
    turn, failed = (span for span in collector.spans if span.name == "invoke_agent helper")
    attributes: dict[str, Any] = dict(facts(turn))
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "helper"
    assert attributes["gen_ai.conversation.id"] == "t"
    assert attributes["gen_ai.usage.output_tokens"] > 0
    assert (attributes["clicket.agent.stopped"], attributes["clicket.agent.steps"]) == ("finished", 2)
    assert turn.parent is not None
    assert turn.parent.span_id == request.get_span_context().span_id
    [call] = collector.calls().values()
    assert call.name == "execute_tool add"
    assert call.parent is not None
    assert call.parent.span_id == turn.context.span_id
    assert facts(failed)["clicket.agent.stopped"] == "error"
    assert failed.status.status_code.name == "ERROR"
    assert {tool for tool, _ in collector.durations()} == {"add"}, "the turns' time does not count for a tool"


async def test_checks_handoffs_and_called_agents_are_in_one_trace() -> None:
    collector = Collector()
    rt = collector.watch(make(TOOLS))
    async with rt:
        called = ReActAgent(rt, ScriptedModel(["a list"]), name="reader")
        rt.add(called.as_tool("read"))
        billing = ReActAgent(rt, ScriptedModel([[("read", '{"task": "list"}')], "refunded"]), name="billing")
        triage = ReActAgent(
            rt,
            ScriptedModel([[("hand_to_billing", '{"reason": "a refund"}')]]),
            name="triage",
            handoffs=[billing],
            checks=[Check(lambda turn, text: Pass(), on="input", name="polite")],
        )
        assert (await triage.run("my money", thread="t")).text == "refunded"
    spans = {span.name: span for span in collector.spans}
    turn = spans["invoke_agent triage"]
    wanted = ["check polite", "handoff billing", "execute_tool read", "invoke_agent reader"]
    assert {spans[name].context.trace_id for name in wanted} == {turn.context.trace_id}
    check: dict[str, Any] = dict(facts(spans["check polite"]))
    assert (check["clicket.check.on"], check["clicket.check.verdict"]) == ("input", "pass")
    for name in ("check polite", "handoff billing"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == turn.context.span_id
