"""Agents with several models: each failed try is on record before the next model is asked, and counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.provider import serving
from tests.kit.stalling_vendor import stalling
from tests.scenarios.agent_kit import Gate, Says, assert_events_in_order, check_pairs
from tests.scenarios.agent_server_kit import replayed, script, served_agent, streamed
from tests.scenarios.kit import make
from tests.scenarios.otel_kit import Collector
from tests.scenarios.test_agents_identity import entries_of
from tests.unit.models.kit import KEY, anthropic_model, says

from clicket import Runtime, tool
from clicket.agents import AgentEvent, ContextWindow, PlanExecuteAgent, ReActAgent
from clicket.errors import RetryableError, StoreUnavailable, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, Usage
from clicket.models import Fallback, OpenAIModel
from clicket.testing import ScriptedModel, StepClock, memory_runtime, with_clock

DOWN = RetryableError("HTTP 503", reason="unavailable")
USED = Usage(input_tokens=60, output_tokens=40)
PRICES = [{"model": "a", "input": 1.0, "output": 1.0}, {"model": "b", "input": 10.0, "output": 10.0}]
"""A dollar, and ten, for a million tokens."""
TOTAL = {"scope": "all", "period": "total"}


@tool
async def add(a: int, b: int) -> int:
    return a + b


def model(name: str, *answers: Any) -> ScriptedModel:
    return ScriptedModel(answers, name=name)


class Pieces:
    """Streams pieces; a number is a pause in seconds of the clock, an exception is raised."""

    def __init__(self, name: str, clock: StepClock, *pieces: Any) -> None:
        self.name = name
        self._clock = clock
        self._pieces = pieces

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        text = ""
        for piece in self._pieces:
            if isinstance(piece, str):
                text += piece
                tell(Delta("text", piece))
            elif isinstance(piece, Exception):
                raise piece
            else:
                woken = asyncio.Event()
                self._clock.call_later(piece, woken.set)
                await woken.wait()
        return ChatReply(text=text, usage=USED)


async def listed(agent: ReActAgent, message: str = "go", thread: str = "t") -> list[AgentEvent]:
    return [event async for event in agent.stream(message, thread=thread)]


async def notes_of(rt: Runtime) -> list[str]:
    record = await rt.get("turn-1", thread="agent:react/t")
    return [event.data["text"] for event in record.events if event.type == "note"]


async def test_the_second_model_answers_and_the_first_ones_failure_is_on_record(store: str) -> None:
    async with make([add], store) as rt:
        first = model("a", [("add", {"a": 1, "b": 2})], DOWN)
        agent = ReActAgent(rt, Fallback(first, model("b", "three")))
        events = await listed(agent)
        assert_events_in_order(events)
        assert events[-1].data["text"] == "three"
        begun, one, _, tried, two, _ = await entries_of(rt)
        assert begun["model"] == "a, b"
        assert (one["model"], two["model"]) == ("a", "b")
        assert (tried["e"], tried["model"], tried["reason"], tried["next"], tried["step"]) == (
            "tried", "a", "unavailable", "b", 2,
        )  # fmt: skip
        (fallback,) = [event for event in events if event.type == "fallback"]
        assert {**fallback.data, "took": 0} == {
            "model": "a", "reason": "unavailable", "error": "HTTP 503", "took": 0, "next": "b",
        }  # fmt: skip
        assert fallback.step == 2
        assert "restart" not in [event.type for event in events]  # no piece of an answer is void
        assert [event.data["model"] for event in events if event.type == "usage"] == ["a", "b"]
        notes = await notes_of(rt)
        assert "Step 2: a gave no answer (unavailable: HTTP 503); b is asked." in notes
        assert "Step 2: b asks for nothing: it answers." in notes
        assert [event async for event in agent.events("t")] == [event for event in events if event.id]
        check_pairs((await agent.history("t")).turns[0].messages)


async def test_an_answer_that_stalls_is_void_for_those_who_read_along() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock) as rt:
        agent = ReActAgent(rt, Fallback(Pieces("a", clock, "Once ", "upon", 30), Pieces("b", clock, "The ", "end.")))
        reading = asyncio.create_task(listed(agent))
        await clock.settle()
        await clock.run(25)
        events = await reading
        seen = [(event.type, event.data.get("text", "")) for event in events]
        place = seen.index(("fallback", ""))
        assert seen[place - 2 : place + 4] == [
            ("delta", "Once "), ("delta", "upon"), ("fallback", ""), ("restart", ""), ("delta", "The "), ("delta", "end."),
        ]  # fmt: skip
        assert [event.step for event in events[place - 2 : place + 4]] == [1] * 6
        (_, tried, _, _) = await entries_of(rt)
        assert (tried["reason"], tried["took"], tried["pieces"]) == ("stalled", 20.0, True)
        assert_events_in_order(events)


async def test_a_turn_that_nobody_reads_notices_a_stall_too() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock) as rt:
        agent = ReActAgent(rt, Fallback(Pieces("a", clock, 100), model("b", "yes"), first_piece=3.0))
        run = asyncio.create_task(agent.run("go", thread="t"))
        await clock.settle()
        await clock.run(3.1)
        assert (await run).text == "yes"
        (_, tried, _, _) = await entries_of(rt)
        assert (tried["reason"], tried["took"], tried.get("pieces")) == ("stalled", 3.0, None)


async def test_a_vendor_that_falls_silent_and_another_one_over_http() -> None:
    clock = StepClock()
    async with serving() as provider, stalling() as vendor, memory_runtime(clock=clock) as rt:
        vendor.pieces = ["Hm"]
        provider.answers = [says(anthropic_model, "yes")]
        silent = OpenAIModel("silent", base_url=vendor.url, api_key=KEY)
        agent = ReActAgent(rt, Fallback(silent, anthropic_model(provider)))
        events: list[AgentEvent] = []
        arrived = asyncio.Event()

        async def read() -> None:
            async for event in agent.stream("go", thread="t"):
                if event.type == "delta":
                    arrived.set()
                events.append(event)

        reading = asyncio.create_task(read())
        await arrived.wait()
        clock.advance(20.5)
        await vendor.left.wait()  # its connection is closed
        await reading
        assert events[-1].data["text"] == "yes"
        assert [event.data["model"] for event in events if event.type == "fallback"] == ["openai:silent"]
        assert KEY not in str(await entries_of(rt))


# Holds.


async def test_a_hold_is_shared_by_all_processes_over_a_store(sqlite: str) -> None:
    clock = StepClock()
    first = model("a", DOWN, "never", "again")
    chain = Fallback(first, Says(lambda _: "b"))
    async with with_clock(make(store=sqlite), clock) as rt, with_clock(make(store=sqlite), clock) as other:
        assert (await ReActAgent(rt, chain).run("go", thread="t1")).text == "b"
        assert (await ReActAgent(rt, chain).run("go", thread="t2")).text == "b"
        assert (await ReActAgent(other, chain).run("go", thread="t3")).text == "b"
        assert len(first.requests) == 1
        clock.advance(61)
        assert (await ReActAgent(other, chain).run("go", thread="t4")).text == "never"


async def test_a_store_that_loses_holds_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with make() as rt:

        async def lost(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("away")

        first = model("a", DOWN, "first")
        chain = Fallback(first, Says(lambda _: "b"))
        for name in ("documents", "put_document"):
            real = getattr(rt.store, name)

            async def some(kind: str, *given: Any, real: Any = real, **more: Any) -> Any:
                return await (lost() if kind == "model.hold" else real(kind, *given, **more))

            monkeypatch.setattr(rt.store, name, some)
        assert (await ReActAgent(rt, chain).run("go", thread="t1")).text == "b"
        assert (await ReActAgent(rt, chain).run("go", thread="t2")).text == "first"


async def test_a_hold_that_another_program_wrote_is_passed_over() -> None:
    async with make() as rt:
        await rt.store.put_document("model.hold", "a", b'"never"', None)
        await rt.store.put_document("model.hold", "b", b'{"until": 1e99, "seconds": 1}', None)
        assert (await ReActAgent(rt, Fallback(model("a", "yes"), model("b"))).run("go")).text == "yes"


# Retries.


async def test_retries_ask_one_model_each() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock) as rt:
        first, second = model("a", DOWN), model("b", DOWN, "at last")
        agent = ReActAgent(rt, Fallback(first, second), model_retries=3)
        reading = asyncio.create_task(listed(agent))
        await clock.settle()
        await clock.run(60)
        events = await reading
        assert events[-1].data["text"] == "at last"
        assert (len(first.requests), len(second.requests)) == (2, 2)
        tried = [(event.data["model"], event.data["next"]) for event in events if event.type == "fallback"]
        assert tried == [("a", "b"), ("b", ""), ("a", "")]
        assert [event.data["retry"] for event in events if event.type == "retry"] == [1, 2]


async def test_a_turn_waits_until_a_vendors_pause_is_over() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock) as rt:
        first = model("a", RetryableError("HTTP 429", reason="rate_limit", retry_after=100.0))
        second = model("b", RetryableError("HTTP 429", reason="rate_limit", retry_after=50.0), "yes")
        run = asyncio.create_task(ReActAgent(rt, Fallback(first, second)).run("go"))
        await clock.settle()
        await clock.run(49)
        assert (len(first.requests), len(second.requests)) == (1, 1)
        await clock.run(2)
        assert (await run).text == "yes"


async def test_a_turn_that_no_model_answers_ends_with_all_reasons() -> None:
    async with make() as rt:
        agent = ReActAgent(rt, Fallback(model("a", DOWN), model("b", TimeoutError("late"))), model_retries=0)
        with pytest.raises(RetryableError, match=r"a: unavailable .*HTTP 503; b: timeout .*late"):
            await agent.run("go", thread="t")
        assert [entry["e"] for entry in await entries_of(rt)] == ["begun", "tried", "tried", "ended"]


async def test_other_errors_end_the_turn_at_once() -> None:
    async with make() as rt:
        second = model("b", "never")
        with pytest.raises(UsageError, match="no key"):
            await ReActAgent(rt, Fallback(model("a", UsageError("no key")), second)).run("go", thread="t")
        assert not second.requests


async def test_the_time_of_a_run_holds_for_all_tries_together() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock) as rt:
        chain = Fallback(Pieces("a", clock, 100), Pieces("b", clock, 100))
        run = asyncio.create_task(ReActAgent(rt, chain, max_seconds=15).run("go", thread="t"))
        await clock.settle()
        await clock.run(15.1)
        assert (await run).stopped == "budget"
        assert [entry["e"] for entry in await entries_of(rt)] == ["begun", "tried", "ended"]


async def test_a_stop_stops_the_model_that_is_asked() -> None:
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    async with make() as rt:
        agent = ReActAgent(rt, Fallback(model("a", DOWN), Says(stuck)))
        run = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()
        assert await agent.stop("t")
        assert (await run).stopped == "cancelled"
        assert [entry["e"] for entry in await entries_of(rt)] == ["begun", "tried", "ended"]


# Spend.


def declined(**more: Any) -> ChatReply:
    return ChatReply(text="No.", ended="refusal", usage=USED, **more)


async def test_what_an_unused_answer_cost_is_counted_once(store: str) -> None:
    async with make(store=store, prices=PRICES) as rt:
        chain = Fallback(model("a", declined()), model("b", ChatReply(text="yes", usage=USED)), on=("refusal",))
        r = await ReActAgent(rt, chain).run("go", thread="t")
        assert (r.text, r.ended, r.usage.total) == ("yes", "stop", 200)
        assert r.usage.cost == pytest.approx(0.0011)
        report = await rt.spend.report("model")
        assert {row.key: (row.own.tokens, row.own.usd) for row in report.items} == {
            "a": (100, 0.0001),
            "b": (100, 0.001),
        }
        (_, tried, *_) = await entries_of(rt)
        assert (tried["reason"], tried["usage"]["input_tokens"], tried["spend"]["model"]) == ("refusal", 60, "a")


async def test_limits_of_a_run_count_unused_answers() -> None:
    async with make([add]) as rt:
        uses = ScriptedModel([[("add", {"a": 1, "b": 2})]], name="b")
        chain = Fallback(model("a", declined()), uses, on=("refusal",))
        r = await ReActAgent(rt, chain, max_tokens=100).run("go", thread="t")
        assert (r.stopped, r.steps) == ("budget", 1)


async def books(rt: Runtime) -> tuple[int, float, float]:
    """Tokens of the ledger, and of the budget what is spent and reserved."""
    (status,) = await rt.spend.budgets()
    return (await rt.spend.report()).total.tokens, status.spent_usd, status.reserved_usd


async def test_each_try_is_reserved_by_the_price_of_its_model(store: str) -> None:
    seen: list[float] = []
    async with make(store=store, prices=PRICES, budgets=[{**TOTAL, "limit_usd": 1.0}]) as rt:

        async def look(answer: Any) -> Any:
            (status,) = await rt.spend.budgets()
            seen.append(status.reserved_usd)
            return answer

        first = model("a", lambda _: look(declined()))
        second = model("b", lambda _: look(ChatReply(text="yes", usage=USED)))
        agent = ReActAgent(rt, Fallback(first, second, on=("refusal",)), max_answer_tokens=1_000)
        assert (await agent.run("go", thread="t")).text == "yes"
        assert seen[1] == pytest.approx(seen[0] * 10)
        assert await books(rt) == (200, pytest.approx(0.0011), 0.0)


async def test_a_failed_try_gives_its_reservation_back() -> None:
    async with make(prices=PRICES, budgets=[{**TOTAL, "limit_usd": 1.0}]) as rt:
        agent = ReActAgent(rt, Fallback(model("a", DOWN), model("b", ChatReply(text="yes", usage=USED))))
        await agent.run("go", thread="t")
        assert await books(rt) == (100, 0.001, 0.0)


async def test_what_was_reserved_for_a_stalled_request_counts_as_spent() -> None:
    clock = StepClock()
    async with memory_runtime(clock=clock, prices=PRICES, budgets=[{**TOTAL, "limit_usd": 1.0}]) as rt:
        chain = Fallback(Pieces("a", clock, "Hm", 100), model("b", ChatReply(text="yes", usage=USED)))
        run = asyncio.create_task(ReActAgent(rt, chain, max_answer_tokens=1_000).run("go", thread="t"))
        await clock.settle()
        await clock.run(21)
        await run
        await clock.settle()
        tokens, spent, reserved = await books(rt)
        assert tokens > 1_100
        assert spent == pytest.approx(0.001 + (tokens - 100) / 1e6)
        assert reserved == 0


async def test_a_model_that_does_not_fit_the_budget_is_not_asked() -> None:
    async with make(prices=PRICES, budgets=[{**TOTAL, "limit_usd": 0.005, "on_reached": "stop"}]) as rt:
        second = model("b", "never")
        r = await ReActAgent(rt, Fallback(model("a", DOWN), second), max_answer_tokens=1_000).run("go", thread="t")
        assert (r.stopped, second.requests) == ("budget", [])
        assert await books(rt) == (0, 0.0, 0.0)


async def test_a_summary_by_a_chain_is_counted_for_the_model_that_wrote_it() -> None:
    async with make([add], prices=PRICES) as rt:
        writer = Fallback(model("a", DOWN), model("b", ChatReply(text="so far", usage=USED)))
        steps = [[("add", {"a": 1, "b": each})] for each in range(3)]
        asked = ScriptedModel([*steps, "done"], name="main")
        agent = ReActAgent(rt, asked, window=ContextWindow(120, summarize=writer, keep_steps=1))
        assert (await agent.run("go " * 60, thread="t")).text == "done"
        entries = await entries_of(rt)
        assert {"tried", "summary"} <= {entry["e"] for entry in entries}
        assert "b" in {row.key for row in (await rt.spend.report("model")).items}


# Seen.


async def test_each_try_has_a_span_that_names_its_model() -> None:
    collector = Collector()
    async with make() as rt:
        collector.watch(rt)
        await ReActAgent(rt, Fallback(model("x:a", DOWN), model("y:b", "yes"))).run("go", thread="t")
        first, second = (span for span in collector.spans if span.name.startswith("chat "))
        assert (first.name, second.name) == ("chat a", "chat b")
        assert (first.attributes or {})["gen_ai.provider.name"] == "x"
        assert not first.status.is_ok
        assert (second.attributes or {})["clicket.tried"] == ("x:a: unavailable",)
        assert second.status.is_ok


async def test_errors_of_a_try_hide_secrets(store: str) -> None:
    secret = "sk-live-0123456789abcdefghijklmnop"
    async with make(store=store) as rt:
        agent = ReActAgent(rt, Fallback(model("a", RetryableError(f"refused Bearer {secret}")), model("b", "yes")))
        events = await listed(agent)
        assert secret not in str(events)
        assert secret not in str(await notes_of(rt)) + str(await entries_of(rt))


async def test_a_plan_with_several_models() -> None:
    async with make([add]) as rt:
        chain = Fallback(model("a", DOWN), Says(lambda _: "x"))
        agent = PlanExecuteAgent(rt, chain, executor=Fallback(model("c", DOWN), Says(lambda _: "done")))
        await agent.run("go", thread="t")
        assert "a" in [entry["model"] for entry in await entries_of(rt, agent="plan") if entry["e"] == "tried"]


async def test_readers_over_http_learn_of_it(tmp_path: Path) -> None:
    gone = {"kind": "openai", "model": "gone", "base_url": "http://127.0.0.1:9/v1"}  # nobody listens there
    agents = {"helper": {"model": [gone, script(tmp_path, ["yes"])]}}
    async with served_agent(tmp_path, agents=agents) as it:
        events = await streamed(it, "go")
        (fallback,) = [event for event in events if event["event"] == "fallback"]
        data = fallback["data"]["data"]
        assert (data["model"], data["reason"]) == ("openai:gone", "unavailable")
        assert data["next"].startswith("script:")
        assert fallback["id"]
        again = await replayed(it, events[-1]["id"])
        assert [event["event"] for event in again].count("fallback") == 1
