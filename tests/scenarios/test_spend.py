"""Spend: every reply and every cost is counted once, budgets are reserved before a model is asked, and people may raise them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.provider import serving
from tests.kit.waiting import PATIENCE
from tests.scenarios.agent_server_kit import say, served_agent
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make
from tests.scenarios.server_kit import key_for
from tests.unit.models.kit import anthropic_model, openai_model, says

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.client import Client
from clicket.engine.spend.prices import PRICES_DATE
from clicket.errors import PermissionDenied, RetryableError, StoreUnavailable, UsageError
from clicket.kernel import State
from clicket.model.chat import ChatReply, ChatRequest, Usage
from clicket.spend import BudgetReached
from clicket.sync import Runtime as SyncRuntime
from clicket.telemetry.prometheus import scrape
from clicket.testing import ScriptedModel, StepClock

PRICES = [{"model": "scripted", "input": 1.0, "output": 1.0}]
"""A dollar for a million tokens."""
USED = Usage(input_tokens=60, output_tokens=40)


def reply(text: str = "done", **more: Any) -> ChatReply:
    return ChatReply(text=text, usage=USED, **more)


class Counting:
    """A model that always answers the same, and counts how often it was asked at once."""

    name = "scripted"

    def __init__(self, answer: ChatReply | None = None) -> None:
        self.answer = answer or reply()
        self.asked = self.now = self.most = 0
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return self.answer


@tool
async def costly(ctx: ToolContext, usd: float = 0.5) -> str:
    """Cost something."""
    ctx.spend(usd=usd, tokens=7)
    return "paid"


def budget(**given: Any) -> dict[str, Any]:
    return {"scope": "all", "period": "month", **given}


async def test_every_grouping_adds_up_and_parents_have_what_their_sub_agents_spent(store: str) -> None:
    async with make([costly], store=store, prices=PRICES) as rt:
        helper = ReActAgent(rt, ScriptedModel([[("costly", {})], "found"]), name="helper")
        rt.add(helper.as_tool("ask_helper"))
        lead = ReActAgent(rt, ScriptedModel([[("ask_helper", {"task": "look"})], "done"]), name="lead")
        result = await lead.run("go", thread="t1")
        assert result.text == "done"
        await rt.call("costly", {"usd": 0.25}, thread="t2", id="direct")
        total = (await rt.spend.report("day")).total
        assert total.usd == pytest.approx(0.75, abs=0.001)
        assert total.entries == 2 + 2 + 2
        for by in ("run", "thread", "agent", "caller", "day", "month", "model"):
            report = await rt.spend.report(by)
            assert sum(row.own.tokens for row in report.items) == total.tokens, by
            assert sum(row.own.usd for row in report.items) == pytest.approx(total.usd, abs=1e-12)
            assert report.total == total
        agents = {row.key: row for row in (await rt.spend.report("agent")).items}
        assert agents["lead"].usd == pytest.approx(agents["lead"].own.usd + agents["helper"].usd)
        assert agents["(none)"].usd == 0.25
        threads = {row.key: row for row in (await rt.spend.report("thread")).items}
        assert len(threads) == 3
        assert threads["t1"].usd == agents["lead"].usd
        child = next(row for row in threads.values() if row.parent)
        assert child.parent == "t1"
        assert child.own.usd == agents["helper"].usd
        runs = {row.key: row for row in (await rt.spend.report("run")).items}
        assert runs["t1/lead.1"].usd == agents["lead"].usd
        assert (await rt.spend.report("run", agent="helper")).total.usd == agents["helper"].usd
        assert (await lead.spend("t1")).total.usd == agents["lead"].usd
        with pytest.raises(UsageError, match="Did you mean"):
            await rt.spend.report("threads")  # type: ignore[arg-type]


async def test_a_model_without_a_price_has_tokens_and_no_money(store: str) -> None:
    async with make([], store=store) as rt:
        result = await ReActAgent(rt, Counting(), name="a").run("go")
        assert result.usage.cost == 0
        total = (await rt.spend.report()).total
        assert (total.tokens, total.usd, total.unpriced_tokens) == (100, 0.0, 100)
    async with make([], store="memory://", budgets=[budget(limit_usd=1.0)]) as rt:
        model = Counting()
        result = await ReActAgent(rt, model, name="a").run("go")
        assert (result.stopped, model.asked) == ("budget", 0)
        assert "no price" in result.text


@pytest.mark.parametrize("on_reached", ["ask", "stop", "warn"])
async def test_a_budget_in_money_and_a_model_without_a_price(on_reached: str, caplog: pytest.LogCaptureFixture) -> None:
    """No person is asked for money that would not help, a warning is not a limit that was reached, and the log says it once."""
    told: list[BudgetReached] = []
    given = budget(limit_usd=1.0, limit_tokens=1_000_000, on_reached=on_reached)
    async with make([], store="memory://", budgets=[given]) as rt:
        rt.spend.on_budget_reached(told.append)
        model = Counting()
        agent = ReActAgent(rt, model, name="a")
        async with asyncio.timeout(PATIENCE):
            results = [await agent.run("go", thread=thread) for thread in ("t1", "t2")]
        assert (await rt.history(tool="raise_budget")).items == []
    passes = on_reached == "warn"
    assert {result.stopped for result in results} == {"finished" if passes else "budget"}
    assert all("add it to [[prices]]" in result.text for result in results) is not passes
    assert (model.asked, told) == (2 if passes else 0, [])
    said = [record.getMessage() for record in caplog.records if "has no price" in record.getMessage()]
    assert len(said) == 1
    assert "'scripted'" in said[0]
    assert "all per month" in said[0]


async def test_a_hundred_runs_at_once_stay_within_the_budget(store: str) -> None:
    """The limit has room for ten reservations at once; each request uses less than was reserved for it, so others wait for it and then
    fit. The runs stop when what is spent, and one more reservation, passes the limit."""
    async with make([], store=store, budgets=[budget(limit_tokens=10 * 300)]) as rt:
        model = Counting()
        agent = ReActAgent(rt, model, name="a", max_answer_tokens=200)
        results = await asyncio.gather(*(agent.run("go", thread=f"t{number}") for number in range(100)))
        ended = [result.stopped for result in results]
        assert set(ended) == {"finished", "budget"}
        assert ended.count("finished") == model.asked
        (status,) = await rt.spend.budgets()
        assert status.spent_tokens > 3_000 - 300
        assert status.spent_tokens == 100 * model.asked == (await rt.spend.report()).total.tokens <= 3_000
        assert status.reserved_tokens == 0


async def test_a_run_waits_for_what_others_reserved_and_can_be_stopped_meanwhile(store: str) -> None:
    go, asked = asyncio.Event(), asyncio.Event()

    class Slow(Counting):
        async def chat(self, request: ChatRequest) -> ChatReply:
            asked.set()
            await go.wait()
            return await super().chat(request)

    async with make([], store=store, budgets=[budget(limit_tokens=400)]) as rt:
        agent = ReActAgent(rt, Slow(), name="a", max_answer_tokens=200)
        first = asyncio.create_task(agent.run("go", thread="t1"))
        await asked.wait()
        second, third = (asyncio.create_task(agent.run("go", thread=thread)) for thread in ("t2", "t3"))
        for thread in ("t2", "t3"):
            while (await agent.look(thread)).waiting_for != ["budget"]:
                await asyncio.sleep(0.001)
        (status,) = await rt.spend.budgets()
        assert status.reached_at is None, "it is not reached: what is reserved may not be used"
        await agent.stop("t2")
        assert (await second).stopped == "cancelled"
        go.set()
        assert [(await each).stopped for each in (first, third)] == ["finished", "finished"]
        assert (await agent.look("t3")).waiting_for == []
        (status,) = await rt.spend.budgets()
        assert (status.spent_tokens, status.reserved_tokens) == (200, 0)


async def test_a_run_that_a_budget_stopped_goes_on_when_the_budget_is_raised(sqlite: str) -> None:
    tight, wide = [budget(limit_tokens=400)], [budget(limit_tokens=4_000)]
    answers: list[Any] = [ChatReply(uses=reply_uses(), usage=USED), ChatReply(uses=reply_uses(), usage=USED), "done"]
    async with make([costly], store=sqlite, budgets=tight) as rt:
        agent = ReActAgent(rt, ScriptedModel(answers), name="a", max_answer_tokens=100)
        result = await agent.run("go", thread="t")
        assert (result.stopped, result.state) == ("budget", "idle")
        assert "Reached the budget 'all per month (stop)' of all" in result.text
        assert (await agent.run("on", thread="t")).text.startswith("No steps executed: Reached the budget")
    async with make([costly], store=sqlite, budgets=wide) as rt:
        agent = ReActAgent(rt, ScriptedModel(["finished"]), name="a", max_answer_tokens=100)
        result = await agent.run("on", thread="t")
        assert (result.stopped, result.text) == ("finished", "finished")
        assert any(message.content == "paid" for message in result.messages), "the conversation goes on where it was"


def reply_uses() -> Any:
    from clicket.model.chat import ToolUse

    return (ToolUse(id="one", name="costly", arguments="{}"),)


async def test_a_person_is_asked_and_raises_the_budget(store: str) -> None:
    async with make([], store=store, budgets=[budget(limit_tokens=50, on_reached="ask")]) as rt:
        model = Counting()
        agent = ReActAgent(rt, model, name="a", max_answer_tokens=50)
        run = asyncio.create_task(agent.run("go", thread="t"))
        waiting = await asked(rt)
        assert waiting.tool == "raise_budget"
        assert waiting.arguments["scope"] == "all"
        assert model.asked == 0
        assert await rt.approve(waiting.id, thread="t", by="ann", arguments={**waiting.arguments, "add_tokens": 1_000})
        assert (await run).stopped == "finished"
        (status,) = await rt.spend.budgets()
        assert (status.raised_tokens, status.left_tokens) == (1_000, 950)
        assert (await agent.run("again", thread="t")).stopped == "finished", "what was added counts for the period"


async def test_a_person_refuses_and_the_run_ends(store: str) -> None:
    async with make([], store=store, budgets=[budget(limit_tokens=1, on_reached="ask")]) as rt:
        run = asyncio.create_task(ReActAgent(rt, Counting(), name="a").run("go", thread="t"))
        waiting = await asked(rt)
        assert await rt.deny(waiting.id, thread="t", by="ann", reason="too dear")
        result = await run
        assert result.stopped == "budget"
        assert "too dear" in result.text


async def asked(rt: Runtime) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [record for record in (await rt.history(active=True)).items if record.waiting_for == "approval"]
            if found:
                return found[0]
            await asyncio.sleep(0.001)


async def test_a_warning_is_given_once_for_a_period_and_again_for_another_limit(sqlite: str) -> None:
    told: list[BudgetReached] = []
    failing = True

    async def listen(notice: BudgetReached) -> None:
        told.append(notice)
        if failing:
            raise OSError("no network")

    warns = [budget(limit_tokens=150, on_reached="warn"), budget(limit_tokens=5_000, on_reached="stop")]
    async with make([], store=sqlite, budgets=warns) as rt:
        rt.spend.on_budget_reached(listen)
        agent = ReActAgent(rt, Counting(), name="a", max_answer_tokens=100)
        for _ in range(4):
            assert (await agent.run("go", thread="t")).stopped == "finished"
        assert [notice.budget.name for notice in told] == ["all per month (warn)"]
        assert (told[0].thread, told[0].agent, told[0].budget.on_reached) == ("t", "a", "warn")
        assert rt.spend.reached == {"all per month (warn)": 1}
        failing = False
        book = rt.engine.book
        async for id, account, _ in book.accounts.listed():
            account.reached["all per month (warn)"] = type(account.reached["all per month (warn)"])(0.0)
            book.notices.tell_again(id, account, book.budgets)
        while len(told) < 2:
            await asyncio.sleep(0)
        assert told[1].id == told[0].id
    warns[0]["limit_tokens"] = 250
    async with make([], store=sqlite, budgets=warns) as rt:
        rt.spend.on_budget_reached(listen)
        await ReActAgent(rt, Counting(), name="a", max_answer_tokens=100).run("go", thread="t")
        assert len({notice.id for notice in told}) == 2


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ({"scope": "thread", "period": "total"}, [("t1", True), ("t1", False), ("t2", True)]),
        ({"scope": "caller", "period": "day"}, [("t1", True), ("t2", False)]),
        ({"scope": "agent:a", "period": "month"}, [("t1", True), ("t2", False)]),
        ({"scope": "agent:other", "period": "month"}, [("t1", True), ("t1", True)]),
        ({"scope": "thread:t1", "period": "month"}, [("t1", True), ("t2", True), ("t1", False)]),
        ({"scope": "all", "period": "run"}, [("t1", True), ("t1", True), ("t1", True)]),
    ],
)
async def test_a_budget_counts_its_scope_in_its_period(given: dict[str, Any], runs: list[tuple[str, bool]]) -> None:
    async with make([], store="memory://", budgets=[{**given, "limit_tokens": 200}]) as rt:
        agent = ReActAgent(rt, Counting(), name="a", max_answer_tokens=100)
        ended = [(thread, (await agent.run("go", thread=thread)).stopped == "finished") for thread, _ in runs]
        assert ended == runs


async def test_a_new_budget_counts_what_was_spent_before_it(sqlite: str) -> None:
    async with make([], store=sqlite) as rt:
        await ReActAgent(rt, Counting(), name="a").run("go")
    async with make([], store=sqlite, budgets=[budget(limit_tokens=150)]) as rt:
        assert (await ReActAgent(rt, Counting(), name="a", max_answer_tokens=50).run("go")).stopped == "budget"
        (status,) = await rt.spend.budgets()
        assert status.spent_tokens == 100


async def test_the_model_is_told_what_is_left_if_the_budget_says_so() -> None:
    async with make([], store="memory://", budgets=[budget(limit_tokens=1_000, tell_model=True, name="month")]) as rt:
        model = Counting()
        await ReActAgent(rt, model, name="a", system="Be brief.", max_answer_tokens=100).run("go")
        system, _, last = model.requests[0].messages
        period = (await rt.spend.budgets())[0].period
        assert (system.content, last.content) == ("Be brief.", f"Budget month: 1,000 tokens left (all, {period}).")
        assert model.requests[0].max_tokens == 100


async def test_a_refused_request_costs_nothing_and_a_stopped_one_what_was_reserved(store: str) -> None:
    async with make([], store=store, budgets=[budget(limit_tokens=10_000)]) as rt:
        model = ScriptedModel([RetryableError("busy"), ValueError("no")])
        agent = ReActAgent(rt, model, name="a", max_answer_tokens=100, retry_delay=0.0)
        with pytest.raises(ValueError, match="no"):
            await agent.run("go", thread="t")
        (status,) = await rt.spend.budgets()
        assert (status.spent_tokens, status.reserved_tokens) == (0, 0)
        hanging = asyncio.Event()

        async def hang(request: ChatRequest) -> Any:
            hanging.set()
            await asyncio.sleep(60)

        run = asyncio.create_task(
            ReActAgent(rt, ScriptedModel([hang]), name="b", max_answer_tokens=100).run("go", thread="t")
        )
        await hanging.wait()
        (status,) = await rt.spend.budgets()
        assert status.reserved_tokens > 100
        run.cancel()
        await asyncio.wait([run])
        while (status := (await rt.spend.budgets())[0]).reserved_tokens:
            await asyncio.sleep(0)
        assert status.spent_tokens > 100
        assert (await rt.spend.report()).total.tokens == status.spent_tokens


async def test_a_model_that_reports_no_usage_is_counted_by_what_was_reserved() -> None:
    async with make([], store="memory://", budgets=[budget(limit_tokens=10_000)]) as rt:
        await ReActAgent(rt, Counting(ChatReply(text="done")), name="a", max_answer_tokens=100).run("go")
        assert 100 < (await rt.spend.budgets())[0].spent_tokens < 300


# What tools report.


async def test_a_call_is_counted_once_however_often_it_is_tried(store: str) -> None:
    tries = 0

    @tool(max_retries=3, retry_delay=0.0)
    async def flaky(ctx: ToolContext) -> str:
        """Pay, and fail twice."""
        nonlocal tries
        tries += 1
        ctx.spend(usd=0.1)
        ctx.spend(tokens=5)
        ctx.spend(usd=1.0, key=f"attempt-{ctx.attempt}")
        if tries < 3:
            raise RetryableError("again")
        return "ok"

    @tool
    async def fails(ctx: ToolContext) -> str:
        """Pay and fail."""
        ctx.spend(usd=2.0)
        raise ValueError("no")

    async with make([flaky, fails], store=store, budgets=[budget(limit_usd=100.0)]) as rt:
        result = await rt.call("flaky", thread="t")
        assert result.success
        record = await rt.get(result.call_id, thread="t")
        assert sum("spend" in event.data for event in record.events) == 9
        report = await rt.spend.report("thread")
        assert report.total.usd == pytest.approx(3.1)
        assert report.total.tokens == 5
        assert not (await rt.call("fails", thread="t")).success
        assert (await rt.spend.report("thread")).total.usd == pytest.approx(5.1)
        while [id async for id, account, _ in rt.engine.book.accounts.listed() if account.holds]:
            await asyncio.sleep(0)
        assert (await rt.spend.budgets())[0].spent_usd == pytest.approx(5.1)


async def test_a_call_whose_cost_meets_an_outage_completes_when_it_is_counted(store: str) -> None:
    clock, made = StepClock(), make([costly], store=store, budgets=[budget(limit_usd=100.0)])
    made._clock = clock
    async with made as rt:
        tries = 0

        async def down(*given: Any) -> bool:
            nonlocal tries
            tries += 1
            raise StoreUnavailable("down", transient=True)

        with pytest.MonkeyPatch.context() as patch:
            for name in ("put_document", "put_documents"):
                patch.setattr(rt.store, name, down)
            handle = await rt.submit("costly", id="one", thread="t")
            while tries < 3:
                await asyncio.sleep(0.001)
                clock.advance(1.0)
            assert (await rt.get("one", thread="t")).state is State.RUNNING
        result = asyncio.create_task(handle.result())
        while not result.done():
            await asyncio.sleep(0.001)
            clock.advance(1.0)
        assert result.result().success
        assert (await rt.spend.report("thread")).total.usd == 0.5
        assert (await rt.spend.budgets())[0].spent_usd == 0.5


async def advanced(clock: StepClock, done: Callable[[], bool], seconds: float = 1.0) -> None:
    """Let time pass until something is done."""
    while not done():
        await asyncio.sleep(0.001)
        clock.advance(seconds)


@pytest.mark.parametrize("budgets", [[], [budget(limit_usd=100.0)]])
async def test_a_run_whose_spend_meets_an_outage_ends_when_it_is_counted(
    store: str, budgets: list[dict[str, Any]]
) -> None:
    """Else a process that dies then leaves a run that has ended and whose spend nobody counts."""
    clock, made = StepClock(), make([], store=store, prices=PRICES, budgets=budgets)
    made._clock = clock
    async with made as rt:
        agent, tries = ReActAgent(rt, Counting(), name="a"), 0

        async def down(writes: Any, *given: Any) -> bool:
            nonlocal tries
            kinds = [write.kind for write in writes] if isinstance(writes, list) else [writes]
            if "spend" not in kinds:
                return await (put_all if isinstance(writes, list) else put)(writes, *given)  # type: ignore[no-any-return]
            tries += 1
            raise StoreUnavailable("down", transient=True)

        put, put_all = rt.store.put_document, rt.store.put_documents
        with pytest.MonkeyPatch.context() as patch:
            for name in ("put_document", "put_documents"):
                patch.setattr(rt.store, name, down)
            run = asyncio.create_task(agent.run("go", thread="t"))
            await advanced(clock, lambda: tries >= 3)
            (turn,) = (await rt.history(tool="agent:a")).items
            assert turn.state is State.RUNNING
            assert not any(str(event.data.get("text")).startswith("Turn 1 ends") for event in turn.events)
        await advanced(clock, run.done)
        assert run.result().state == "finished"
        assert (await rt.spend.report("run")).total.usd == 100 / 1e6
        assert (await rt.spend.report("run")).total.assumed_usd == 0.0


@pytest.mark.parametrize("how", ["fails", "times out", "is cancelled", "does not stop"])
async def test_a_call_with_a_cost_ends_once_it_is_counted_however_it_ends(store: str, how: str) -> None:
    cancels, end = how in ("is cancelled", "does not stop"), asyncio.Event()

    @tool(timeout=5.0 if how == "times out" else None, max_retries=0)
    async def pays(ctx: ToolContext) -> str:
        """Pay, and come to no good end."""
        ctx.spend(usd=0.5, tokens=7)
        if how == "fails":
            raise ValueError("no")
        with suppress(asyncio.CancelledError):
            await end.wait()
        if how != "does not stop":
            raise asyncio.CancelledError
        await end.wait()
        return "late"

    clock, made, tries = StepClock(), make([pays], store=store, budgets=[budget(limit_usd=100.0)]), 0
    made._clock = clock

    async def down(*given: Any) -> bool:
        nonlocal tries
        tries += 1
        raise StoreUnavailable("down", transient=True)

    async with made as rt:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("put_document", "put_documents"):
                patch.setattr(rt.store, name, down)
            handle = await rt.submit("pays", id="one", thread="t")
            await advanced(clock, lambda: tries > 1)
            cancelling = asyncio.create_task(rt.cancel("one", thread="t")) if cancels else None
            seen = tries
            await advanced(clock, lambda: tries > seen + 2, 10.0)
            assert not (await rt.get("one", thread="t")).state.is_terminal
            end.set()  # a body that did not stop returns while the end of its call is not on record yet
            await advanced(clock, lambda: tries > seen + 4, 10.0)
        result = asyncio.create_task(handle.result())
        await advanced(clock, result.done)
        assert cancelling is None or await cancelling
        assert result.result().state is {"fails": State.FAILED, "times out": State.TIMEOUT}.get(how, State.CANCELLED)
        assert (await rt.spend.report("thread")).total.usd == 0.5
        assert (await rt.spend.budgets())[0].spent_usd == 0.5
        if how == "does not stop":
            events = [event async for event in handle.events()]
            while events[-1].type != "late_result":
                events = (await rt.get("one", thread="t")).events
            assert events[-2].is_terminal
            assert (await rt.call("pays", thread="t")).success  # the slot is free


async def test_a_damaged_account_does_not_keep_a_call_from_completing(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with make([costly], store=store, budgets=[budget(limit_usd=100.0)]) as rt:
        await rt.call("costly", id="one", thread="t")
        (document,) = await rt.store.documents("budget")
        await rt.store.put_document("budget", document.key, b"{]", None)
        assert (await rt.call("costly", id="two", thread="t")).success
    assert "cannot be read" in caplog.text


async def test_a_note_of_that_name_is_no_cost_and_secrets_are_hidden() -> None:
    secret = "ghp_" + "a1B2" * 9

    @tool
    async def notes(ctx: ToolContext) -> None:
        """Note and pay."""
        ctx.note("bought", spend="much", where="here")
        ctx.note("bought", spend={"key": "k", "usd": 1.0, "tokens": 0}, more=1)
        ctx.spend(usd=0.5, key=secret)

    async with make([notes], store="memory://") as rt:
        result = await rt.call("notes")
        assert result.success
        events = [event.data for event in (await rt.get(result.call_id)).events if event.type == "note"]
        assert (events[0]["spend"], events[0]["where"]) == ("much", "here")
        assert secret not in str(events)
        assert (await rt.spend.report()).total.usd == 0.5


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_costs_come_from_every_lane(isolation: str) -> None:
    from tests.scenarios import spend_tools

    async with make([getattr(spend_tools, isolation)], store="memory://") as rt:
        assert (await rt.call(isolation)).success
        assert (await rt.spend.report()).total.usd == 0.125


@pytest.mark.parametrize("wrong", [{"usd": -1}, {"usd": float("nan")}, {"tokens": 1.5}, {"usd": True}, {"key": ""}])
async def test_amounts_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    @tool
    async def wrongly(ctx: ToolContext) -> None:
        """Report nonsense."""
        ctx.spend(**wrong)

    async with make([wrongly], store="memory://") as rt:
        result = await rt.call("wrongly")
        assert result.error is not None
        assert "ctx.spend" in result.error.message
        assert (await rt.spend.report()).total.entries == 0


async def test_what_did_not_reach_the_ledger_is_counted_when_retention_removes_it(sqlite: str) -> None:
    async with make([costly], store=sqlite, prices=PRICES) as rt:
        await rt.call("costly", thread="t", id="one")
        await ReActAgent(rt, Counting(), name="a").run("go", thread="t")
        before = await rt.spend.report("run")
        for document in await rt.store.documents("spend"):
            await rt.store.delete_document("spend", document.key)
        assert (await rt.spend.report()).total.entries == 0
        await rt.sweep(rt.retention(since=rt.clock.now() + 1))
        assert await rt.spend.report("run") == before


# Vendors.


@pytest.mark.parametrize("vendor", [openai_model, anthropic_model], ids=["openai", "anthropic"])
async def test_real_requests_are_reserved_and_priced(vendor: Any) -> None:
    async with serving() as provider:
        used = {"usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}}
        answers = [says(vendor, "", ("one", "costly", '{"usd": 0.0}')), says(vendor, "done")]
        provider.answers += [{**answer, **used} if vendor is openai_model else answer for answer in answers]
        name = "gpt-x" if vendor is openai_model else "claude-x"
        prices = [{"model": name, "input": 1000.0, "output": 2000.0, "max_output": 77}]
        async with make([costly], store="memory://", prices=prices, budgets=[budget(limit_usd=50.0)]) as rt:
            result = await ReActAgent(rt, vendor(provider), name="a").run("go", thread="t")
            assert result.text == "done"
            assert result.usage.total > 0
            report = await rt.spend.report("model")
            expected = (result.usage.input_tokens * 1000 + result.usage.output_tokens * 2000) / 1e6
            assert report.total.usd == pytest.approx(expected)
            assert result.usage.cost == pytest.approx(expected)
            (status,) = await rt.spend.budgets()
            assert (status.spent_usd, status.reserved_usd) == (pytest.approx(expected), 0.0)
            sent = provider.requests[0]
            assert 77 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
        async with make([costly], store="memory://", budgets=[budget(limit_usd=50.0)]) as rt:
            provider.answers += [{**says(vendor, "done"), **(used if vendor is openai_model else {})}]
            priced = vendor(provider, prices={"input": 1000.0, "output": 2000.0})
            result = await ReActAgent(rt, priced, name="a", max_answer_tokens=50).run("go", thread="t")
            assert (result.stopped, (await rt.spend.report()).total.usd) == (
                "finished",
                pytest.approx(result.usage.cost),
            )
            assert result.usage.cost > 0


# HTTP, client, commands, metrics.


async def test_a_key_sees_its_own_spend_and_an_admin_that_of_all(tmp_path: Path) -> None:
    budgets = [{"scope": "caller", "limit_tokens": 100_000}, budget(limit_tokens=1_000_000)]
    async with served_agent(tmp_path, tools=[costly], answers=["hello"], budgets=budgets) as it:
        ann = await key_for(it, "ann", "read", "call")
        bob = await key_for(it, "bob", "read", "call")
        admin = await key_for(it, "boss", "read", "admin")
        for headers in (ann, bob, bob):
            assert (await say(it, headers=headers)).status_code in (200, 202)
        while (await it.get("/spend", headers=admin)).json()["total"]["entries"] < 3:
            await asyncio.sleep(0.01)
        seen = (await it.get("/spend?by=caller", headers=ann)).json()
        assert seen["total"]["entries"] == 1
        assert [row["scope"].partition(":")[0] for row in seen["budgets"]] == ["caller"]
        everything = (await it.get("/spend?by=caller", headers=admin)).json()
        assert len(everything["items"]) == 2
        assert {row["scope"].partition(":")[0] for row in everything["budgets"]} == {"all", "caller"}
        other = everything["items"][1]["key"]
        assert (await it.get(f"/spend?caller={other}", headers=admin)).json()["total"]["entries"] in (1, 2)
        named = [(await it.get(f"/spend?caller={row['key']}", headers=ann)).status_code for row in everything["items"]]
        assert sorted(named) == [200, 403]
        assert (await it.get("/spend?by=week", headers=ann)).status_code == 400
        none = await key_for(it, "none", "call")
        assert (await it.get("/spend", headers=none)).status_code == 403
        assert (await it.get("/spend/budgets", headers=none)).status_code == 403
        async with Client(it.served.url, key=admin["authorization"].removeprefix("Bearer ")) as client:
            assert (await client.spend.report("caller")).total.entries == 3
            assert len(await client.spend.budgets()) == 3
        page, _ = await scrape(it.runtime)
        assert b'clicket_budget_left_tokens{budget="all per month (stop)"' in page
        assert b'clicket_budget_reached_total{budget="all per month (stop)"} 0.0' in page


async def test_a_runtime_of_one_caller_sees_its_own_alone() -> None:
    async with make([costly], store="memory://") as rt:
        mine = rt.acting_for("ann")
        await mine.call("costly")
        await rt.acting_for("bob").call("costly")
        assert (await mine.spend.report("caller")).total.entries == 1
        assert (await rt.spend.report("caller", caller="bob")).total.entries == 1
        with pytest.raises(PermissionDenied):
            await mine.spend.report(caller="bob")


def test_the_command_and_the_blocking_runtime(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    (tmp_path / "clicket.toml").write_text(
        '[[budgets]]\nscope = "all"\nlimit_usd = 2\nperiod = "total"\nname = "cap"\n'
    )
    with SyncRuntime([costly], store=store) as rt:
        rt.call("costly", thread="t1")
        assert rt.spend.report("thread").total.usd == 0.5
        assert rt.spend.budgets() == []
    place = Place(tmp_path, store, "")
    found = place.ask("spend", "--by", "thread", "--json")
    assert [(row["key"], row["usd"]) for row in found["items"]] == [("t1", 0.5)]
    assert found["budgets"][0]["name"] == "cap"
    shown = place.inside("spend", "--by", "thread").stdout
    assert "0.500000" in shown
    assert "cap" in shown
    assert place.inside("spend", "--by", "week").returncode == 2
    helped = " ".join(place.inside("spend", "--help").stdout.split())
    when = datetime.strptime(PRICES_DATE, "%Y-%m").replace(tzinfo=UTC)
    assert "the setting `prices`" in helped or "the setting prices" in helped
    assert f"{when:%B %Y}" in helped, "the help has the date of the table"
    assert '"limit_usd":2' in place.inside("config").stdout.replace(" ", "").replace("\n", "")
    wrong = place.inside("config", CLICKET_BUDGETS='[{"scope": "al", "limit_usd": 1}]')
    assert wrong.returncode == 2
    assert "[[budgets]] of CLICKET_BUDGETS, number 1: 'al' is not a scope. Did you mean 'all'?" in " ".join(
        wrong.stderr.split()
    )
    assert "not a list in JSON" in place.inside("config", CLICKET_BUDGETS="[").stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budgets": [{"scope": "everybody", "limit_usd": 1}]}, "is not a scope"),
        ({"budgets": [{"scope": "all"}]}, "has no limit"),
        ({"budgets": [{"scope": "all", "limit_usd": -1}]}, "a number from 0"),
        ({"budgets": [{"scope": "all", "limit_usd": 1, "period": "week"}]}, "period"),
        ({"budgets": [{"scope": "all", "limit": 1}]}, "Did you mean 'limit_usd'|unknown key 'limit'"),
        ({"budgets": [{"scope": "all", "limit_usd": 1}] * 2}, "name of its own"),
        ({"prices": [{"model": "m", "input": -1, "output": 1}]}, "a number from 0"),
        ({"prices": [{"model": "m", "input": 1}]}, "output"),
        ({"prices": ["m"]}, "table|does not fit"),
    ],
)
def test_settings_that_are_wrong_say_so(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Runtime([], store="memory://", **settings)


async def test_a_run_that_waits_for_a_person_goes_on_after_a_restart(sqlite: str) -> None:
    budgets, model = [budget(limit_tokens=50, on_reached="ask")], Counting()
    async with make([], store=sqlite, budgets=budgets) as rt:
        number = await ReActAgent(rt, model, name="a", max_answer_tokens=50).begin("go", thread="t")
        waiting = await asked(rt)
    rt = make([], store=sqlite, budgets=budgets)
    agent = ReActAgent(rt, model, name="a", max_answer_tokens=50)
    async with rt:
        assert (await asked(rt)).id == waiting.id
        assert await rt.approve(waiting.id, thread="t", by="ann")
        result = await agent.wait("t", number)
        assert result is not None
        assert (result.stopped, model.asked) == ("finished", 1)
        history = await rt.history(tool="raise_budget")
        assert [record.id for record in history.items] == [waiting.id], "nobody is asked twice"
