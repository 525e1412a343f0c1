"""Calls as traces: one span each, a child of the caller's, with the names of the conventions, made from durable events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from tests.kit.tools import add
from tests.scenarios.kit import make
from tests.scenarios.otel_kit import Collector, facts

from clicket import Policy, RestTool, RetryableError, Runtime, ToolContext, tool
from clicket.errors import UsageError
from clicket.sync import Runtime as SyncRuntime
from clicket.telemetry import instrument, within_trace

BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
program = trace.get_tracer("a tool of ours")


@tool(failure_threshold=100)
async def breaks() -> None:
    raise ValueError("a sentence")


@tool(max_retries=1, retry_delay=0.001)
async def flaky(ctx: ToolContext) -> int:
    if ctx.attempt == 1:
        raise RetryableError("not yet")
    return ctx.attempt


@tool
async def hangs() -> None:
    await asyncio.Event().wait()


@tool(cache=300)
async def cached(x: int) -> int:
    return x


@tool
async def asked() -> int:
    return 1


@tool
async def looks() -> str:
    await asyncio.sleep(0)
    return _current()


@tool
def looks_in_a_thread() -> str:
    return _current()


def _current() -> str:
    return f"{trace.get_current_span().get_span_context().span_id:016x}"


TOOLBOX = [add, breaks, flaky, hangs, cached, asked, looks, looks_in_a_thread]


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_a_call_is_a_span_with_the_conventions_names(store: str) -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX, store)) as rt:
        result = await rt.call("add", {"a": 1, "b": 2}, thread="t1")
        record = await rt.get(result.call_id)
    span = seen.calls()[result.call_id]
    assert (span.name, span.kind, span.status.status_code) == ("execute_tool add", SpanKind.INTERNAL, StatusCode.UNSET)
    assert span.parent is None
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "clicket"
    known = dict(facts(span))
    assert {name: known[name] for name in known if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": result.call_id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add two numbers.",
        "gen_ai.conversation.id": "t1",
    }
    assert (known["clicket.state"], known["clicket.attempts"], known["clicket.cached"]) == ("completed", 1, False)
    assert known["clicket.thread"] == "t1"
    assert known["clicket.stage.execute"] == record.stages["execute"].duration
    assert "error.type" not in known
    assert span.start_time == int(record.created_at * 1e9)
    assert span.end_time == int((record.ended_at or 0) * 1e9)
    assert events(span) == ["attempt_started"]


@pytest.mark.parametrize(
    ("name", "options", "state", "code", "ran"),
    [
        ("breaks", {}, "failed", "tool_error", True),
        ("hangs", {"timeout": 0.01}, "timeout", "timeout", True),
        ("nothing", {}, "failed", "tool_not_found", False),
        ("add", {}, "failed", "invalid_input", False),
    ],
)
async def test_a_failure_names_its_kind(name: str, options: Any, state: str, code: str, ran: bool) -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX)) as rt:
        result = await rt.call(name, **options)
    span = seen.calls()[result.call_id]
    assert (facts(span)["clicket.state"], facts(span)["error.type"]) == (state, code)
    assert span.status.status_code is StatusCode.ERROR
    assert result.error is not None
    assert span.status.description == result.error.message
    assert (list(seen.durations()) == [(name, code)]) is ran
    if state == "timeout":
        assert facts(span)["clicket.timeout.phase"] == "attempt"


async def test_the_histogram_has_the_advised_buckets_and_leaves_out_what_never_ran(store: str) -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX, store)) as rt:
        for _ in range(3):
            await rt.call("add", {"a": 1, "b": 1})
            await rt.call("cached", {"x": 1})
        await rt.call("breaks")
        seconds = (await rt.report()).totals
    points = seen.durations()
    assert {key: point.count for key, point in points.items()} == {
        ("add", None): 3,
        ("cached", None): 1,
        ("breaks", "tool_error"): 1,
    }
    assert all(point.explicit_bounds == BOUNDS for point in points.values())
    assert sum(point.sum for point in points.values()) == pytest.approx((seconds.mean or 0) * 5)


async def test_cached_retried_and_cancelled_calls_say_so() -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX)) as rt:
        await rt.call("cached", {"x": 1}, id="first")
        await rt.call("cached", {"x": 1}, id="hit")
        await rt.call("flaky", id="retried")
        handle = await rt.submit("hangs", id="cancelled")
        await handle.cancel()
        await handle.result()
    spans = seen.calls()
    assert [facts(spans[id])["clicket.cached"] for id in ("first", "hit")] == [False, True]
    assert facts(spans["hit"])["clicket.attempts"] == 0
    retried = spans["retried"]
    assert facts(retried)["clicket.attempts"] == 2
    assert events(retried).count("attempt_started") == 2
    retrying = next(e for e in retried.events if (e.attributes or {}).get("clicket.state") == "retrying")
    assert (retrying.attributes or {})["error.type"] == "tool_error"
    assert facts(spans["cancelled"])["error.type"] == "cancelled"
    assert "cancel_requested" in events(spans["cancelled"])


async def test_a_persons_decision_is_in_the_span() -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX, policy=Policy(ask=["asked"]))) as rt:
        handle = await rt.submit("asked", id="a")
        await rt.approve("a", by="ann")
        await handle.result()
    assert "approval_requested" in events(seen.calls()["a"])
    given = next(event for event in seen.calls()["a"].events if event.name == "approval_given")
    assert (given.attributes or {})["clicket.approved"] is True


async def test_the_callers_span_is_the_parent_whatever_runs_at_once(store: str) -> None:
    seen = Collector()

    async def ask(rt: Runtime, number: int) -> None:
        with seen.tracer.start_as_current_span(f"caller {number}"):
            await rt.call("add", {"a": 1, "b": number}, id=f"called {number}")
            handle = await rt.submit("looks", id=f"submitted {number}")
        await handle.result()

    async with seen.watch(make(TOOLBOX, store, max_concurrency=2)) as rt:
        await asyncio.gather(*(ask(rt, number) for number in range(5)))
        assert (await rt.get("called 1")).events[0].data["traceparent"].startswith("00-")
    callers = {span.name: span for span in seen.spans if span.name.startswith("caller")}
    for id, span in seen.calls().items():
        caller = callers[f"caller {id[-1]}"]
        assert (parent(span), span.context.trace_id) == (caller.context.span_id, caller.context.trace_id)
        assert span.parent is not None
        assert not span.parent.is_remote


@pytest.mark.parametrize("name", ["looks", "looks_in_a_thread"])
@pytest.mark.parametrize("waits", [True, False])
async def test_spans_of_a_tool_are_children_of_its_call(name: str, waits: bool) -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX)) as rt:
        before = _current()
        result = await rt.call(name) if waits else await (await rt.submit(name)).result()
        assert _current() == before
    assert result.output == f"{seen.calls()[result.call_id].context.span_id:016x}"


async def test_content_is_left_out_by_default(store: str) -> None:
    quiet, open_ = Collector(), Collector()
    async with quiet.watch(make(TOOLBOX, store)) as rt:
        await rt.call("add", {"a": 4100141001, "b": 1}, id="q")
        await rt.call("breaks", id="f")
    assert "41001410" not in "".join(span.to_json() for span in quiet.spans)
    async with open_.watch(make(TOOLBOX, "memory://", telemetry_content=True)) as rt:
        await rt.call("add", {"a": 4100141001, "b": 1}, id="a")
        await rt.call("add", {"a": "secret?"}, id="refused")
    known = facts(open_.calls()["a"])
    assert known["gen_ai.tool.call.arguments"] == '{"a":4100141001,"b":1}'
    assert known["gen_ai.tool.call.result"] == "4100141002"
    assert "gen_ai.tool.call.arguments" not in facts(open_.calls()["refused"])


async def test_a_span_that_is_not_sampled_costs_no_metric() -> None:
    seen = Collector.blind()
    async with seen.watch(make(TOOLBOX)) as rt:
        await rt.call("add", {"a": 1, "b": 2})
    assert seen.spans == []
    assert seen.durations()[("add", None)].count == 1


async def test_a_call_that_another_process_runs_is_one_span_under_its_caller(sqlite: str) -> None:
    here, there = Collector(), Collector()
    async with (
        here.watch(make(TOOLBOX, sqlite, engine="workers")) as front,
        there.watch(make(TOOLBOX, sqlite)) as worker,
    ):
        with here.tracer.start_as_current_span("caller") as caller:
            handle = await front.submit("add", {"a": 1, "b": 2}, id="c")
        assert worker
        assert (await handle.result()).output == 3
    assert here.calls() == {}
    span = there.calls()["c"]
    assert span.parent is not None
    assert (span.parent.span_id, span.parent.is_remote) == (caller.get_span_context().span_id, True)
    assert "clicket.recovered" not in facts(span)
    assert span.links == ()


async def test_a_call_handed_back_at_close_is_reported_by_both(sqlite: str) -> None:
    started = asyncio.Event()

    @tool(idempotent=True)
    async def twice(ctx: ToolContext) -> int:
        if ctx.attempt == 1:
            started.set()
            await asyncio.Event().wait()
        return ctx.attempt

    first, second = Collector(), Collector()
    async with first.watch(make([twice], sqlite)) as rt:
        with first.tracer.start_as_current_span("caller") as caller:
            await rt.submit("twice", id="c")
        await started.wait()
        await rt.close(patience=0)
    async with second.watch(make([twice], sqlite)) as rt:
        await (await rt.handle("c")).result()
    left, taken = first.calls()["c"], second.calls()["c"]
    assert (facts(left)["clicket.handed_over"], facts(left)["clicket.state"]) == (True, "retrying")
    assert (facts(taken)["clicket.state"], facts(taken)["clicket.attempts"]) == ("completed", 2)
    assert parent(taken) == parent(left) == caller.get_span_context().span_id


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_calls_made_for_a_request_join_its_trace() -> None:
    seen = Collector()
    async with seen.watch(make(TOOLBOX)) as rt:
        with within_trace({"traceparent": PARENT, "tracestate": "shop=1"}):
            await rt.call("looks", id="joined")
            data = (await rt.get("joined")).events[0].data
        for number, headers in enumerate(({}, {"traceparent": "00-nonsense-01"}, {"traceparent": PARENT[:-3]})):
            with within_trace(headers):
                await rt.call("looks", id=f"alone {number}")
    spans = seen.calls()
    joined = spans.pop("joined")
    assert f"{joined.context.trace_id:032x}-{parent(joined):016x}" == PARENT[3:-3]
    assert joined.context.trace_state.get("shop") == "1"
    assert (data["traceparent"], data["tracestate"]) == (PARENT, "shop=1")
    assert [span.parent for span in spans.values()] == [None] * 3


# Turning it on.


async def test_also_for_a_runtime_that_is_open_and_again_with_other_providers() -> None:
    first, second = Collector(), Collector()
    async with make(TOOLBOX) as rt:
        await rt.call("add", {"a": 1, "b": 2}, id="unseen")
        first.watch(rt)
        await rt.call("add", {"a": 1, "b": 2}, id="one")
        second.watch(rt)
        await rt.call("add", {"a": 1, "b": 2}, id="two")
    assert list(first.calls()) == ["one"]
    assert list(second.calls()) == ["two"]


def test_the_blocking_face_is_traced_under_its_caller() -> None:
    seen = Collector()
    with (
        seen.watch(SyncRuntime(TOOLBOX, store="memory://")) as rt,
        seen.tracer.start_as_current_span("caller") as caller,
    ):
        result = rt.call("looks_in_a_thread")
    span = seen.calls()[result.call_id]
    assert parent(span) == caller.get_span_context().span_id
    assert result.output == f"{span.context.span_id:016x}"


async def test_a_tool_that_speaks_to_others_is_an_extension() -> None:
    seen = Collector()
    async with seen.watch(make([RestTool("far", url="http://127.0.0.1:9/", method="GET", max_retries=0)])) as rt:
        result = await rt.call("far")
    assert facts(seen.calls()[result.call_id])["gen_ai.tool.type"] == "extension"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match=r"pip install 'clicket\[telemetry\]'"):
        instrument(make())
