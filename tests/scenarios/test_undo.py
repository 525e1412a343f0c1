"""The effect of a call is undone once, and only if it happened; what is unknown is listed as unknown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url

from clicket import Conflict, DidNotHappen, Happened, Policy, Record, Runtime, State, ToolContext, Undo, Unknown, tool
from clicket.errors import NotFound, UsageError
from clicket.model.undo import undo_id, undo_tool
from clicket.testing import StepClock, with_clock
from clicket.tools import Tool
from clicket.tools.reconcile import CallInDoubt

refunds: list[Any] = []
"""Arguments of the calls that were refunded."""
plan: list[Any] = []
"""What the next undos do: an error to raise."""
answers: dict[str, Any] = {}
"""What checks answer, by tool."""


async def refund(call: Record, ctx: ToolContext) -> str:
    if plan:
        raise plan.pop(0)
    refunds.append(call.arguments)
    return f"refunded {call.output}"


def put_back(call: Record, ctx: ToolContext) -> None:
    refunds.append((call.arguments, ctx.call_id))


def check(call: CallInDoubt, ctx: ToolContext) -> Any:
    assert ctx.idempotency_key == call.idempotency_key
    return answers.get(call.tool, Unknown("the bank does not answer"))


async def hang(call: Record, ctx: ToolContext) -> None:
    refunds.append("hangs")
    await asyncio.sleep(60)


@tool(undo=Undo(refund, max_retries=0), reconcile=check, timeout=0.2, max_retries=0)
async def charge(amount: int) -> dict[str, int]:
    if amount < 0:
        await asyncio.sleep(60)
    if amount == 0:
        raise ValueError("no amount")
    return {"charged": amount}


@tool(undo=put_back, sensitive=["card"])
def hold(card: str) -> str:
    return "held"


@tool(undo=Undo(hang, reconcile=check, timeout=0.1, max_retries=0))
async def book(seat: str) -> str:
    return seat


@tool
async def mail(to: str) -> str:
    return "sent"


@tool(read_only=True, cache=60)
async def price(what: str) -> int:
    return 3


@tool(undo=refund, cache=60)
async def cached(amount: int) -> int:
    return amount


ALL: list[Tool] = [charge, hold, book, mail, price, cached]


@pytest.fixture(autouse=True)
def _clean() -> None:
    refunds.clear()
    plan.clear()
    answers.clear()


async def test_a_call_is_undone_once(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt:
        done = await rt.call("charge", {"amount": 5}, thread="t", id="c")
        report = await rt.undo("c")
        again = await rt.undo("c")
        undo = await rt.get(report.undone[0].undo)
    assert done.success
    assert ([each.id for each in report.undone], report.is_complete, again) == (["c"], True, report)
    assert refunds == [{"amount": 5}]
    assert (undo.tool, undo.thread, undo.output) == ("undo:charge", "t", "refunded {'charged': 5}")
    assert undo.metadata["undo_of"] == "c"
    async with make(ALL, url) as rt:
        assert await rt.undo("c") == report, "the next process finds it on record"
    assert refunds == [{"amount": 5}]


async def test_two_at_once_undo_once(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as one, make(ALL, url) as other:
        await one.call("charge", {"amount": 5}, id="c")
        reports = await asyncio.gather(*(rt.undo("c") for rt in (one, other, one, other)))
    assert [len(report.undone) for report in reports] == [1, 1, 1, 1]
    assert refunds == [{"amount": 5}]


async def test_a_failed_undo_is_tried_again_when_a_person_says_so() -> None:
    async with make(ALL) as rt:
        await rt.call("charge", {"amount": 5}, id="c")
        plan.append(ValueError("the bank is closed"))
        failed = await rt.undo("c")
        same = await rt.undo("c")
        assert (len(failed.failed), same, refunds) == (1, failed, [])
        assert "the bank is closed" in failed.failed[0].reason
        done = await rt.undo("c", retry=True)
        assert (done.undone[0].undo, refunds) == (undo_id("c", 2), [{"amount": 5}])
        assert (await rt.undo("c", retry=True)).undone == done.undone
        with pytest.raises(UsageError, match="retry=True"):
            await rt.again(undo_id("c"))
    assert refunds == [{"amount": 5}]


async def test_what_had_no_effect_is_not_undone() -> None:
    async with make(ALL) as rt:
        await rt.call("charge", {"amount": 0}, id="failed")
        await rt.call("charge", {"amount": "x"}, id="refused")
        await rt.call("mail", {"to": "me"}, id="mail")
        await rt.call("price", {"what": "tea"}, id="price")
        for id in ("first", "cached"):
            await rt.call("cached", {"amount": 1}, id=id)
        reasons = {
            id: (await rt.undo(id)).impossible[0].reason for id in ("failed", "refused", "mail", "price", "cached")
        }
        with pytest.raises(NotFound):
            await rt.undo("nothing")
        with pytest.raises(UsageError, match="takes the id of a call"):
            await rt.undo()
    assert "had no effect" in reasons["failed"]
    assert "did not start" in reasons["refused"]
    assert "has no undo" in reasons["mail"]
    assert "no effect of its own" in reasons["price"]
    assert "from the cache" in reasons["cached"]
    assert refunds == []


async def test_a_running_call_is_refused() -> None:
    async with make(ALL) as rt:
        handle = await rt.submit("charge", {"amount": -1}, id="c", timeout=30)
        await eventually(lambda: _is(rt, "c", State.RUNNING))
        with pytest.raises(Conflict, match="has not ended"):
            await rt.undo("c")
        await handle.cancel()


async def _is(rt: Runtime, id: str, state: State) -> bool:
    return await rt.state(id) is state


async def test_an_unknown_outcome_is_reconciled_first() -> None:
    async with make(ALL) as rt:
        for number in range(4):
            assert (await rt.call("charge", {"amount": -5}, id=f"c{number}")).state is State.TIMEOUT
        report = await rt.undo("c0")
        assert ([each.id for each in report.unknown], refunds) == (["c0"], [])
        answers["charge"] = Happened({"charged": -5})
        assert (await rt.undo("c0")).undone
        assert refunds == [{"amount": -5}]
        assert ((await rt.get("c0")).resolution or {})["by"] == "reconcile:charge"
        answers["charge"] = DidNotHappen()
        assert "did not happen" in (await rt.undo("c1")).impossible[0].reason
        answers.clear()
        await rt.resolve("c2", happened=True, output={"charged": -5}, by="ann")
        await rt.resolve("c3", happened=False, by="ann")
        assert (await rt.undo("c2")).undone
        assert "as ann said" in (await rt.undo("c3")).impossible[0].reason
        assert (await rt.get(undo_id("c2"))).output == "refunded {'charged': -5}", "the output of the resolution"
    assert refunds == [{"amount": -5}] * 2


async def test_an_undo_with_an_unknown_outcome_is_not_begun_again() -> None:
    async with make(ALL) as rt:
        for id in ("c", "d"):
            await rt.call("book", {"seat": "1A"}, id=id)
        first = await rt.undo("c")
        again = await rt.undo("c", retry=True)
        assert ([len(each.unknown) for each in (first, again)], refunds) == ([1, 1], ["hangs"])
        answers["undo:book"] = Happened()
        assert ((await rt.undo("c", retry=True)).undone[0].undo, refunds) == (undo_id("c"), ["hangs"])
        answers.clear()
        assert (await rt.undo("d")).unknown
        await rt.resolve(undo_id("d"), happened=False, by="ann")
        assert (await rt.undo("d")).unknown[0].undo == undo_id("d", 2), "it may be begun again now"
    assert refunds == ["hangs"] * 3


async def test_the_policy_and_people_decide_about_an_undo() -> None:
    async with make(ALL, policy=Policy(ask=["undo:charge"], deny=["undo:hold"])) as rt:
        for id in ("c", "d"):
            await rt.call("charge", {"amount": 5}, id=id)
        await rt.call("hold", {"card": "1"}, id="h")
        undoing = asyncio.ensure_future(rt.undo("c"))
        await eventually(lambda: _waits(rt, undo_id("c")))
        assert "waits for approval" in (await rt.undo("c", dry=True)).unknown[0].reason
        assert (await rt.get(undo_id("c"))).arguments == {"call": "c", "arguments": {"amount": 5}}
        assert refunds == []
        await rt.approve(undo_id("c"), by="ann")
        assert (await undoing).undone
        undoing = asyncio.ensure_future(rt.undo("d"))
        await eventually(lambda: _waits(rt, undo_id("d")))
        await rt.approve(undo_id("d"), by="ann", arguments={"call": "d", "arguments": {"amount": 9}})
        assert "cannot be changed" in (await undoing).failed[0].reason
    assert refunds == [{"amount": 5}]


async def _waits(rt: Runtime, id: str) -> bool:
    try:
        return (await rt.get(id)).waiting_for == "approval"
    except NotFound:
        return False


async def test_nobody_else_calls_an_undo() -> None:
    async with make(ALL) as rt:
        await rt.call("charge", {"amount": 5}, id="c")
        refused = await rt.call(undo_tool("charge"), {"call": "c", "arguments": {"amount": 5}})
        assert refused.error is not None
        assert refused.error.code == "tool_not_found"
        assert not any(each.name.startswith(("undo:", "reconcile:")) for each in await rt.tools())
        assert sorted(await rt.hub("t").available()) == sorted(each.name for each in ALL)
    assert refunds == []


async def test_the_undo_gets_arguments_unmasked(tmp_path: Path) -> None:
    async with make(ALL, secret_key="k" * 43) as rt:
        await rt.call("hold", {"card": "4242"}, id="h")
        assert (await rt.undo("h")).undone
        shown = (await rt.get(undo_id("h"))).arguments
    assert refunds == [({"card": "4242"}, undo_id("h"))]
    assert "4242" not in str(shown)
    async with make(ALL) as rt:
        await rt.call("hold", {"card": "4242"}, id="h")
        assert "CLICKET_SECRET_KEY" in (await rt.undo("h")).impossible[0].reason


async def test_a_dry_run_changes_nothing() -> None:
    async with make(ALL) as rt:
        await rt.call("charge", {"amount": 5}, id="c")
        report = await rt.undo("c", dry=True)
        assert ([each.id for each in report.waiting], refunds) == (["c"], [])
        assert len((await rt.history()).items) == 1


async def test_a_call_is_kept_as_long_as_it_can_be_undone(tmp_path: Path) -> None:
    clock = StepClock()
    async with with_clock(make(ALL, sqlite_url(tmp_path), retention=10.0, undo_for=1_000.0), clock) as rt:
        await rt.call("charge", {"amount": 1}, id="c")
        await rt.call("charge", {"amount": 2}, id="d")
        await rt.call("mail", {"to": "me"}, id="m")
        clock.advance(500)
        assert (await rt.sweep()).calls == 1, "the call without an undo"
        assert (await rt.undo("c")).undone
        clock.advance(600)
        assert "undo_for" in (await rt.undo("d")).impossible[0].reason
        assert (await rt.undo("c")).undone, "its undo is on record"
        clock.advance(2 * 24 * 3600)
        for _ in range(2):
            await rt.engine.sweeps.sweep_all()
        assert (await rt.history()).items == []
    assert refunds == [{"amount": 1}]


def test_wrong_undos_are_refused_where_they_are_declared() -> None:
    with pytest.raises(UsageError, match=r"undo\(call, ctx\)"):
        tool(undo=lambda call: None)(lambda: None)  # type: ignore[arg-type, misc]  # what is tested
    with pytest.raises(UsageError, match="only reads"):
        tool(undo=refund, read_only=True)(lambda: None)


async def test_a_worker_undoes_what_another_process_asks_for(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url, engine="workers") as front, make(ALL, url):
        await front.call("charge", {"amount": 5}, id="c")
        report = await front.undo("c")
        undo = await front.get(undo_id("c"))
    assert (len(report.undone), refunds, undo.worker != "") == (1, [{"amount": 5}], True)


async def test_a_process_without_the_tool_undoes_nothing(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt:
        await rt.call("charge", {"amount": 5}, id="c")
    async with make([mail], url) as rt:
        assert "does not have the tool" in (await rt.undo("c", retry=True)).failed[0].reason
    async with make(ALL, url) as rt:
        assert (await rt.undo("c")).is_complete
    assert refunds == [{"amount": 5}]
