"""A turn run again: calls on record get their outcomes, and nothing of it runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.scenarios.agent_kit import Says, check_pairs
from tests.scenarios.kit import make
from tests.scenarios.test_agents_fork import Shop, pays, texts

from clicket import Image, Policy, Runtime, tool
from clicket.agents import Change, Check, ReActAgent, Refuse
from clicket.errors import ClicketError, Conflict, NotFound, UsageError
from clicket.model.chat import ChatRequest, ToolOffer
from clicket.model.ports import Query
from clicket.runtime.calls.external_calls import complete_own
from clicket.testing import ScriptedModel
from clicket.tools.rest import OutcomeUnknown


def results(messages: Sequence[Any]) -> list[str]:
    return [message.content for message in messages if message.role == "tool"]


def bill(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "pay", {"bill": name, **more}


async def codes(rt: Runtime, thread: str) -> list[str]:
    return [call.error.code if call.error else "" for call in reversed((await rt.history(thread=thread)).items)]


async def test_equal_calls_get_their_outcomes_in_order(store: str) -> None:
    shop = Shop()
    old = ScriptedModel(["before", [bill("a"), bill("a")], [bill("b")], "done"])
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, old)
        await agent.run("hello", thread="t")
        first = await agent.run("pay a, a and b", thread="t")
        other = ScriptedModel(
            [[bill("b")], [bill("a")], [bill("a"), bill("a"), bill("c")], "other words"], name="other"
        )
        again = await agent.rerun("t", turn=2, model=other, system="Be quick.")
        assert (again.turn, again.text) == (2, "other words")
        assert again.thread != "t"
        assert results(again.messages)[:3] == [
            "paid b, number 3", "paid a, number 1", "paid a, number 2",
        ]  # fmt: skip
        assert [text.partition(":")[0] for text in results(again.messages)[3:]] == ["not_recorded", "not_recorded"]
        assert shop.paid == ["a", "a", "b"]
        check_pairs(again.messages)
        assert await agent.messages("t") == first.messages
        assert (await agent.look(again.thread)).origin.after == 1  # type: ignore[union-attr]
        assert other.requests[0].messages[0].content.startswith("Be quick.")
        record = (await rt.history(thread=again.thread)).items[-1]
        assert record.metadata["recorded"]["thread"] == "t"
        assert record.attempts == [], "no body was started"
        assert await codes(rt, again.thread) == ["", "", "", "not_recorded", "not_recorded"]


async def test_failures_are_outcomes_too(store: str) -> None:
    ran: list[str] = []

    @tool(max_retries=0)
    async def send(to: str) -> str:
        ran.append(to)
        raise RuntimeError("the line is down")

    async with make([send], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("send", {"to": "ann"})], "no luck"]))
        first = await agent.run("send", thread="t")
        again = await agent.rerun("t", turn=1, model=ScriptedModel([[("send", {"to": "ann"})], "again"]))
        assert results(again.messages) == results(first.messages)
        assert ran == ["ann"]
        state = await rt.hub(again.thread).status("send")
        assert state.consecutive_failures == 0, "it says nothing about the tool now"


async def test_a_further_call_is_asked_about(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[bill("a")], "done"]))
        await agent.run("pay", thread="t")
        other = ScriptedModel([[bill("a"), bill("b")], "asked"])
        fork = await agent.begin_rerun("t", turn=1, model=other, effects="ask", to="f")
        assert fork.thread == "f"
        while not (waiting := (await agent.look("f")).waiting_for):
            await asyncio.sleep(0)
        (record,) = [call for call in (await rt.history(thread="f")).items if call.id == waiting[0]]
        assert record.arguments == {"bill": "b"}
        assert "not on record in turn 1" in (record.approval or {})["why"]
        await rt.approve(waiting[0], thread="f")
        result = await agent.wait("f", 1)
        assert result is not None
        assert results(result.messages) == ["paid a, number 1", "paid b, number 2"]


async def test_a_further_call_runs(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[bill("a")], "done", [bill("a"), bill("a")], "live"]))
        await agent.run("pay", thread="t")
        again = await agent.rerun("t", turn=1, effects="live")
        assert results(again.messages) == ["paid a, number 1", "paid a, number 2"]
        assert shop.paid == ["a", "a"]
        with pytest.raises(UsageError, match="effects"):
            await agent.rerun("t", turn=1, effects="all")  # type: ignore[arg-type]


async def test_sensitive_values_are_compared_masked(store: str) -> None:
    ran: list[str] = []

    @tool(sensitive=["card"])
    async def charge(card: str, amount: int) -> str:
        ran.append(card)
        return f"charged {amount}"

    async with make([charge], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("charge", {"card": "4111-1111-1111-1111", "amount": 5})], "done"]))
        await agent.run("charge it", thread="t")
        other = ScriptedModel(
            [
                [("charge", {"amount": 5, "card": "5500-0000-0000-0004"})],
                [("charge", {"card": "x-y", "amount": 6})],
                "ok",
            ]
        )
        again = await agent.rerun("t", turn=1, model=other)
        shown = results(again.messages)
        assert shown[0] == "charged 5"
        assert shown[1].startswith("not_recorded")
        assert ran == ["4111-1111-1111-1111"]


async def test_an_unknown_outcome_is_no_second_one_to_settle(sqlite: str) -> None:
    @tool(max_retries=0)
    async def send() -> str:
        raise OutcomeUnknown("the answer was lost")

    async with make([send], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("send", {})], "hm", [("send", {})], "hm"]))
        await agent.run("send", thread="t")
        again = await agent.rerun("t", turn=1)
        assert "outcome_unknown" in results(again.messages)[0]
        assert await codes(rt, again.thread) == ["recorded_unknown"]
        assert [call.thread for call in (await rt.unknown()).items] == ["t"]


async def test_agents_as_tools_are_calls_as_others(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        clerk = ReActAgent(rt, ScriptedModel([[bill("a")], "the clerk has paid"]), name="clerk")
        rt.add(clerk.as_tool("ask_clerk", "Pays."))
        ask = [("ask_clerk", {"task": "pay"})]
        boss = ReActAgent(rt, ScriptedModel([ask, "paid", ask, "paid again"]), name="boss")
        await boss.run("pay", thread="t")
        again = await boss.rerun("t", turn=1)
        assert results(again.messages) == ["the clerk has paid"]
        assert shop.paid == ["a"]


async def test_checks_and_the_policy_decide_anew(store: str) -> None:
    shop = Shop()
    strict = False

    def check(turn: Any, call: Any) -> Any:
        if not strict:
            return Refuse("not today") if call.arguments == {"bill": "c"} else None
        return Change({"bill": "b"}) if call.arguments == {"bill": "a"} else None

    async with make([shop.pay], store, policy=Policy()) as rt:
        agent = ReActAgent(rt, ScriptedModel([[bill("a"), bill("c")], "done"]), checks=[Check(check, on="tool_call")])
        first = await agent.run("pay", thread="t")
        assert "not today" in results(first.messages)[1]
        strict = True
        other = ScriptedModel([[bill("a"), bill("c")], "strict"])
        again = await agent.rerun("t", turn=1, model=other)
        assert [text.partition(":")[0] for text in results(again.messages)] == ["not_recorded", "not_recorded"]
        assert shop.paid == ["a"]


async def test_tools_that_depend_on_others_are_offered(store: str) -> None:
    ran: list[str] = []

    @tool
    async def login() -> str:
        ran.append("login")
        return "in"

    @tool(depends_on="login")
    async def read() -> str:
        ran.append("read")
        return "the page"

    offered: list[set[str]] = []

    def answer(request: ChatRequest) -> Any:
        offered.append({offer.name for offer in request.tools})
        done = results(request.messages)
        return "done" if len(done) == 2 else [("read" if done else "login", "{}")]

    async with make([login, read], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run("go", thread="t")
        old = list(offered)
        offered.clear()
        again = await agent.rerun("t", turn=1)
        assert results(again.messages) == ["in", "the page"]
        assert offered == old
        assert ran == ["login", "read"]


async def test_what_is_not_kept_cannot_be_run_again(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[bill("a")], "done", "two"]))
        await agent.run("pay", thread="t")
        with pytest.raises(NotFound, match="memory_retention"):
            await agent.rerun("t", turn=2)
        (call,) = (await rt.history(thread="t")).items
        stored = await rt._opened.store.history(Query(thread="t", limit=1))
        await rt._opened.store.remove([each.key for each in stored])
        assert call.success
        with pytest.raises(NotFound, match="memory_retention"):
            await agent.rerun("t", turn=1)
        assert await agent.forks("t") == [], "no fork was made"
        with pytest.raises(UsageError):
            await agent.rerun("t", turn=0)


async def test_the_same_line_again_gives_the_same_turn(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[bill("a")], "done", [bill("a")], "again", "never"]))
        await agent.run("pay", thread="t")
        one = await agent.rerun("t", turn=1, to="f")
        other = await agent.rerun("t", turn=1, to="f")
        assert (one.text, other.text) == ("again", "again")
        await agent.run("more", thread="f")
        with pytest.raises(Conflict):
            await agent.rerun("t", turn=1, to="t")


async def test_a_rerun_of_what_a_fork_took_along(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        script: list[Any] = [pays("a"), "one", pays("b"), "two", pays("a"), "one anew", pays("b"), "two anew"]
        agent = ReActAgent(rt, ScriptedModel(script))
        await agent.run("pay a", thread="t")
        await agent.run("pay b", thread="t")
        await agent.fork("t", to="f")
        again = await agent.rerun("f", turn=1)
        assert results(again.messages) == ["paid a, number 1"]
        twice = await agent.rerun(again.thread, turn=1, model=ScriptedModel([pays("a"), "thrice"]))
        assert results(twice.messages) == ["paid a, number 1"]
        assert shop.paid == ["a", "b"]
        assert await texts(agent, "t") != []


async def test_big_results_and_pictures_come_back(store: str) -> None:
    made: list[int] = []

    @tool
    async def big() -> str:
        made.append(1)
        return "x" * 200_000

    @tool
    async def draw() -> Any:
        made.append(2)
        return ["here", Image(b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + (2).to_bytes(4, "big") * 2 + b"\0" * 20)]

    calls = [("big", {}), ("draw", {})]
    async with make([big, draw], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([calls, "done", calls, "again"]))
        first = await agent.run("go", thread="t")
        again = await agent.rerun("t", turn=1)
        assert results(again.messages) == results(first.messages)
        assert [message.files for message in again.messages] == [message.files for message in first.messages]
        assert made == [1, 2]


async def test_a_failed_turn_can_be_run_again(store: str) -> None:
    shop = Shop()
    async with make([shop.pay], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([pays("a"), RuntimeError("the vendor is down")]))
        with pytest.raises((ClicketError, RuntimeError)):
            await agent.run("pay", thread="t")
        again = await agent.rerun("t", turn=1, model=ScriptedModel([pays("a"), "it recovered"]))
        assert again.text == "it recovered"
        assert shop.paid == ["a"]


async def test_every_end_of_a_call_comes_back(store: str) -> None:
    ran: list[str] = []

    @tool(timeout=0.01, max_retries=0)
    async def slow() -> str:
        ran.append("slow")
        await asyncio.Event().wait()
        return ""

    @tool
    async def needs_yes() -> str:
        ran.append("needs_yes")
        return "yes"

    calls = [("slow", {}), ("needs_yes", {}), ("nowhere", {}), ("needs_yes", {"wrong": 1})]
    async with make([slow, needs_yes], store, policy=Policy(ask=["needs_yes"])) as rt:
        agent = ReActAgent(rt, ScriptedModel([calls, "done", calls, "again"]))
        await agent.begin("go", thread="t")
        while not (waiting := (await agent.look("t")).waiting_for):
            await asyncio.sleep(0)
        await rt.deny(waiting[0], thread="t", reason="no")
        first = await agent.wait("t", 1)
        assert first is not None
        again = await agent.rerun("t", turn=1)
        assert results(again.messages) == results(first.messages)
        assert ran == ["slow"]
        old = [str(call.state) for call in (await rt.history(thread="t")).items]
        assert [str(call.state) for call in (await rt.history(thread=again.thread)).items] == old


async def test_a_stopped_call_comes_back(store: str) -> None:
    started = asyncio.Event()

    @tool
    async def endless() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    async with make([endless], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("endless", {})], [("endless", {})], "stopped"]))
        await agent.begin("go", thread="t")
        await started.wait()
        (call,) = (await rt.history(thread="t")).items
        await rt.cancel(call.id, thread="t")
        first = await agent.wait("t", 1)
        again = await agent.rerun("t", turn=1, model=ScriptedModel([[("endless", {})], "stopped"]))
        assert first is not None
        assert len(results(again.messages)) == 1
        assert results(again.messages)[0] == results(first.messages)[0]


async def test_a_tool_of_a_frontend_is_on_record_too(store: str) -> None:
    async with make([], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("pick", {})], "done"]))
        await agent.begin("go", thread="t", frontend=[ToolOffer(name="pick")])
        while not (waiting := [call.id for call in (await rt.history(thread="t", waiting_for="external")).items]):
            await asyncio.sleep(0)
        await complete_own(rt, waiting[0], "red", thread="t")
        await agent.wait("t", 1)
        again = await agent.rerun("t", turn=1, model=ScriptedModel([[("pick", {})], [("pick", {})], "again"]))
        assert results(again.messages)[0] == "red"
        assert results(again.messages)[1].startswith("not_recorded")
