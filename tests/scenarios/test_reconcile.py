"""A tool's own check settles attempts whose outcome is unknown: it happened, it did not, or the check cannot tell."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.held_store import HeldStore
from tests.kit.waiting import eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import DidNotHappen, Happened, Runtime, State, ToolContext, Unknown, tool
from clicket.errors import UsageError
from clicket.tools.reconcile import CallInDoubt
from clicket.tools.rest import OutcomeUnknown

bank: dict[str, int] = {}
"""Payments by idempotency key."""
asked: list[CallInDoubt] = []
answers: list[Any] = []


async def check(call: CallInDoubt, ctx: ToolContext) -> Any:
    asked.append(call)
    assert ctx.idempotency_key == call.idempotency_key
    if answers:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer
    paid = bank.get(call.idempotency_key)
    return DidNotHappen() if paid is None else Happened(f"paid {paid}")


def check_in_thread(call: CallInDoubt, ctx: ToolContext) -> Any:
    asked.append(call)
    ctx.note("asked the bank")
    return Happened({"account": "NL00 BANK 1234", "paid": bank[call.idempotency_key]})


@tool(reconcile=check, retry_delay=0.01, timeout=5.0)
async def pay(amount: int, ctx: ToolContext) -> str:
    """The first attempt hangs, with or without its effect."""
    if ctx.attempt == 1:
        if amount > 0:
            bank[ctx.idempotency_key] = amount
        await asyncio.sleep(60)
    bank[ctx.idempotency_key] = abs(amount)
    return f"paid {abs(amount)}, at the second try"


@tool(reconcile=check_in_thread, sensitive=["account"], timeout=0.1)
async def pay_from(account: str, ctx: ToolContext) -> Any:
    bank[ctx.idempotency_key] = 1
    await asyncio.sleep(60)


@tool(reconcile=check, max_retries=1, retry_delay=0.01)
async def transfer(ctx: ToolContext) -> str:
    raise OutcomeUnknown("the connection broke after the request was sent")


@tool(reconcile=check, recovery="ask", retry_delay=0.01)
async def ask_pay(ctx: ToolContext) -> str:
    await asyncio.sleep(60)
    return ""


ALL = [pay, pay_from, transfer, ask_pay]


@pytest.fixture(autouse=True)
def _clean() -> None:
    bank.clear()
    asked.clear()
    answers.clear()


async def left_by_a_crash(url: str, name: str, arguments: dict[str, Any]) -> None:
    """A runtime that closes without patience leaves the call in doubt, as a crash does."""
    async with make(ALL, url, close_timeout=0.0, cancel_grace=0.05) as rt:
        await rt.submit(name, arguments, id="c")
        await eventually(lambda: _state(rt, State.RUNNING))
        await rt.close(patience=0)


async def _state(rt: Runtime, *states: State) -> bool:
    return await rt.state("c") in states


async def settled(rt: Runtime) -> Any:
    await eventually(lambda: _state(rt, State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED))
    record = await rt.get("c")
    assert_sound(record)
    return record


async def test_what_happened_completes_the_call(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert (record.state, record.output, len(record.attempts)) == (State.COMPLETED, "paid 5", 1)
    assert record.metadata["reconciled"] is True
    assert record.reconciliation["outcome"] == "happened"
    (call,) = asked
    assert (call.id, call.tool, call.arguments, call.attempt) == ("c", "pay", {"amount": 5}, 1)
    assert call.idempotency_key == record.idempotency_key


async def test_what_did_not_happen_is_run(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": -5})
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert (record.output, len(record.attempts)) == ("paid 5, at the second try", 2)
    assert "reconciled" not in record.metadata


async def test_a_check_that_cannot_tell_leaves_it_to_a_person(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    answers.append(Unknown("the bank is closed"))
    async with make(ALL, url) as rt:
        record = await settled(rt)
        assert (record.error.code, len(asked)) == ("outcome_unknown", 1)
        assert "the bank is closed" in record.error.message
        assert [each.id for each in (await rt.unknown()).items] == ["c"]
        resolved = await rt.resolve("c", happened=True, output="paid 5", by="ann")
        assert resolved.resolution is not None


async def test_a_check_is_retried(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    answers.extend([ConnectionError("no bank"), ValueError("odd")])
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert (record.output, record.reconciliation["tries"]) == ("paid 5", 3)
    ends = [event.data for event in record.events if event.type == "reconcile_ended"]
    assert [end["outcome"] for end in ends] == ["failed", "failed", "happened"]
    assert ends[0]["delay"] > 0


async def test_a_check_that_always_fails_is_given_up(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    answers.extend([ConnectionError("no bank")] * 10)
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert (record.error.code, len(asked)) == ("outcome_unknown", 4)
    assert "no bank" in record.error.message


async def test_a_wrong_answer_is_no_answer(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    answers.append("yes")
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert "returned str, not Happened, DidNotHappen, Continues or Unknown" in record.error.message


async def test_a_check_that_hangs_is_stopped(tmp_path: Path) -> None:
    def slow(call: CallInDoubt, ctx: ToolContext) -> Any:
        asked.append(call)
        time.sleep(0.4)
        return Happened("too late")

    @tool(reconcile=slow, timeout=0.1, max_retries=0)
    async def wire(ctx: ToolContext) -> None:
        raise OutcomeUnknown("no answer")

    async with make([wire]) as rt:
        result = await rt.call("wire", id="c")
        assert result.error is not None
        assert (result.error.code, result.metadata["reconcile"]) == (
            "outcome_unknown",
            "its check failed: the check took longer than 0.1 s",
        )


async def test_a_cancelled_call_is_not_run_again(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": -5})
    async with make((), url) as rt:
        await rt.cancel("c")
    async with make(ALL, url) as rt:
        record = await settled(rt)
    assert (record.state, len(asked)) == (State.CANCELLED, 1)


async def test_a_cancel_waits_for_the_check(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "pay", {"amount": 5})
    answers.append(ConnectionError("try again"))
    async with make(ALL, url) as rt:
        await rt.cancel("c")
        assert (await settled(rt)).state is State.COMPLETED, "it happened, whatever the caller wants"


async def test_a_cancel_counts_that_comes_while_the_answer_of_the_check_is_written(tmp_path: Path) -> None:
    store = HeldStore(tmp_path / "calls.db")

    async def check_slowly(call: CallInDoubt, ctx: ToolContext) -> Any:
        store.holds = call.id if call.attempt == 1 else ""
        return DidNotHappen()

    @tool(reconcile=check_slowly, timeout=0.05, max_retries=2)
    async def hang() -> None:
        await asyncio.sleep(60)

    async with Runtime([hang], store=store) as rt:
        await rt.submit("hang", id="c")
        await store.reached.wait()
        cancel = asyncio.create_task(rt.cancel("c"))
        await eventually(lambda: rt.engine.live.named("c")[0].entry.has_staged)
        store.pass_on()
        await store.reached.wait()  # the answer is durable, and the cancel is on its way
        for _ in range(20):
            await asyncio.sleep(0)
        store.let_go()
        assert await cancel
        record = await settled(rt)
        assert (record.state, len(record.attempts)) == (State.CANCELLED, 1)


async def test_a_timeout_is_checked_too() -> None:
    """The attempt was stopped: its effect may have happened. The output is masked like any other."""
    async with make(ALL) as rt:
        result = await rt.call("pay_from", {"account": "NL00 BANK 1234"}, id="c")
        assert (result.state, result.output) == (State.COMPLETED, {"account": "[secret]", "paid": 1})
        record = await rt.get("c")
        assert_sound(record)
        assert record.metadata["reconciled"] is True
        assert any(event.data.get("text") == "asked the bank" for event in record.events)
        assert rt.activity().slots_used == 0


async def test_an_unknown_outcome_of_the_tools_own_is_checked() -> None:
    async with make(ALL) as rt:
        result = await rt.call("transfer", id="c")
        assert result.error is not None
        assert (result.error.code, result.attempts, len(asked)) == ("outcome_unknown", 2, 2), "one retry, as declared"
        answers.append(Happened("done"))
        assert (await rt.call("transfer", id="d")).output == "done"
        answers.append(Unknown("who knows"))
        result = await rt.call("transfer", id="e")
        assert (result.error.code, result.metadata["reconcile"]) == ("outcome_unknown", "who knows")  # type: ignore[union-attr]


async def test_a_person_is_asked_if_the_check_cannot_tell(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    await left_by_a_crash(url, "ask_pay", {})
    answers.append(Unknown("?"))
    async with make(ALL, url) as rt:
        await eventually(lambda: _asks(rt))
        record = await rt.get("c")
        assert record.approval is not None
        assert "cannot tell: ?" in record.approval["why"]
        assert await rt.deny("c")


async def _asks(rt: Runtime) -> bool:
    return (await rt.get("c")).waiting_for == "approval"


@pytest.mark.parametrize("wrong", ["check", lambda: None, lambda a: None])
def test_what_cannot_be_a_check_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="reconcile"):

        @tool(reconcile=wrong)
        async def nothing() -> None: ...


@pytest.mark.parametrize("isolation", ["process", "inline", "ray"])
def test_where_external_tools_may_run(isolation: Any) -> None:
    with pytest.raises(UsageError, match="external"):

        @tool(external=True, isolation=isolation)
        async def nothing(ctx: ToolContext) -> None: ...
