"""Questions of a tool to a person: recorded, listed, answered in any process, and given to the tool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually

from clicket import DidNotHappen, Policy, Record, Runtime, State, ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.errors import Conflict, InvalidInput, UsageError
from clicket.runtime.settings import Settings
from clicket.tools.question import InputQuestion
from clicket.tools.reconcile import CallInDoubt
from clicket.tools.rest import OutcomeUnknown

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def asks(number: int = 1) -> InputQuestion:
    return InputQuestion(key=f"q{number}", source="the shop", message=f"Size {number}?", schema=FORM)


@tool
async def order(count: int, ctx: ToolContext, timeout: float | None = None) -> list[Any]:
    """Asks `count` questions, one after the other."""
    given = [questions(ctx).ask(asks(number), timeout) for number in range(count)]
    return [[answer.action, answer.content] for answer in given]


@tool
async def order_live(ctx: ToolContext, timeout: float | None = None) -> list[Any]:
    answer = await questions(ctx).ask_live(asks(), timeout)
    return [answer.action, answer.content]


TOOLS = [order, order_live]


async def waiting(rt: Runtime, id: str, message: str = "") -> Record:
    async def look() -> Record | None:
        record = await rt.get(id)
        asked = (record.approval or {}).get("question", {}).get("message", "")
        return record if record.waiting_for == "approval" and message in asked else None

    found: Record = await eventually(look)
    return found


async def test_the_body_runs_again_with_each_answer() -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        handle = await rt.submit("order", {"count": 2})
        record = await waiting(rt, handle.id, "Size 0?")
        assert (record.state, record.approval["why"]) == (State.RETRYING, "the shop asks: Size 0?")
        await rt.respond(handle.id, {"size": 1})
        await waiting(rt, handle.id, "Size 1?")
        await rt.deny(handle.id)
        result = await handle.result()
        assert result.output == [["accept", {"size": 1}], ["decline", None]]
        assert (result.attempts, result.state) == (3, State.COMPLETED)


async def test_a_question_takes_no_attempt_from_a_tool_with_a_check() -> None:
    async def check(call: CallInDoubt, ctx: ToolContext) -> DidNotHappen:
        return DidNotHappen()

    @tool(reconcile=check, max_retries=1, retry_delay=0.0)
    async def unsure(ctx: ToolContext) -> str:
        questions(ctx).ask(asks(), None)
        raise OutcomeUnknown("the connection broke")

    async with Runtime([unsure], store="memory://") as rt:
        handle = await rt.submit("unsure", {})
        await waiting(rt, handle.id)
        await rt.respond(handle.id, {"size": 1})
        result = await handle.result()
    assert result.error is not None
    assert (result.error.code, result.attempts) == ("outcome_unknown", 3), "the question, one attempt, one retry"


async def test_rounds_are_not_retries() -> None:
    failures: list[int] = []

    @tool(max_retries=1, retry_delay=0.0)
    async def flaky(ctx: ToolContext) -> str:
        answer = [questions(ctx).ask(asks(number), None) for number in range(3)]
        failures.append(1)
        if len(failures) == 1:
            raise ConnectionError("once")
        return answer[-1].action

    async with Runtime([flaky], store="memory://") as rt:
        handle = await rt.submit("flaky", {})
        for number in range(3):
            await waiting(rt, handle.id, f"Size {number}?")
            await rt.respond(handle.id, {"size": 1})
        assert (await handle.result()).output == "accept"


@pytest.mark.parametrize("name", ["order", "order_live"])
async def test_no_answer_in_time_is_an_answer(name: str) -> None:
    given = {"timeout": 0.05, **({"count": 1} if name == "order" else {})}
    async with Runtime(TOOLS, store="memory://") as rt:
        result = await rt.call(name, given)
        assert result.state is State.COMPLETED
        assert "cancel" in str(result.output)


@pytest.mark.parametrize("name", ["order", "order_live"])
async def test_a_cancel_ends_the_wait(name: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        handle = await rt.submit(name, {"count": 1} if name == "order" else {})
        await waiting(rt, handle.id)
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        assert not await rt.respond(handle.id, {"size": 1})


@pytest.mark.parametrize("name", ["order", "order_live"])
async def test_a_deadline_ends_the_wait(name: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        result = await rt.call(name, {"count": 1} if name == "order" else {}, deadline=0.2)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "deadline")


@pytest.mark.parametrize("name", ["order", "order_live"])
async def test_another_process_answers(name: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(TOOLS, store=store) as rt, Runtime(store=store) as other:
        handle = await rt.submit(name, {"count": 1} if name == "order" else {})
        record = await waiting(other, handle.id)
        [listed] = (await other.history(waiting_for="approval")).items
        assert listed.id == handle.id
        assert await other.respond(handle.id, {"size": 3}, by="ann", seen=record.approval["hash"])
        assert "{'size': 3}" in str((await handle.result()).output)


async def test_of_two_answers_the_first_counts(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(TOOLS, store=store) as rt, Runtime(store=store) as other:
        handle = await rt.submit("order", {"count": 1})
        await waiting(rt, handle.id)
        done = await asyncio.gather(
            *(each.respond(handle.id, {"size": size}) for size, each in enumerate((rt, other, rt, other)))
        )
        assert sum(done) == 1
        assert (await handle.result()).output == [["accept", {"size": done.index(True)}]]


async def test_an_answer_is_about_the_question_that_was_seen() -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        handle = await rt.submit("order", {"count": 2})
        seen = (await waiting(rt, handle.id, "Size 0?")).approval["hash"]
        await rt.respond(handle.id, {"size": 1}, seen=seen)
        await waiting(rt, handle.id, "Size 1?")
        with pytest.raises(Conflict):
            await rt.respond(handle.id, {"size": 2}, seen=seen)
        await rt.cancel(handle.id)


async def test_an_answer_must_fit() -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        handle = await rt.submit("order", {"count": 1})
        await waiting(rt, handle.id)
        for wrong in ({}, {"size": "big"}, {"size": 1, "more": 2}, [1], "big", None):
            with pytest.raises(InvalidInput):
                await rt.respond(handle.id, wrong)
        for more in ({"arguments": {"count": 0}}, {"grant": {"uses": 3}}, {}):
            with pytest.raises(UsageError):
                await rt.approve(handle.id, **more)
        assert (await rt.get(handle.id)).waiting_for == "approval"
        await rt.cancel(handle.id)


async def test_the_caller_may_answer_its_own_question_and_no_grant_does() -> None:
    async with Runtime(TOOLS, store="memory://", policy=Policy(ask=["order"])) as rt:
        ann = rt.acting_for("ann")
        handle = await ann.submit("order", {"count": 1})
        await waiting(ann, handle.id)
        await rt.approve(handle.id, by="boss", grant={"uses": 10})
        await waiting(ann, handle.id, "Size 0?")
        assert await ann.respond(handle.id, {"size": 5})
        assert (await handle.result()).output == [["accept", {"size": 5}]]


async def test_a_question_survives_its_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(TOOLS, store=store) as rt:
        handle = await rt.submit("order", {"count": 2})
        await waiting(rt, handle.id, "Size 0?")
    async with Runtime(TOOLS, store=store) as rt:
        await waiting(rt, handle.id, "Size 0?")
        await rt.respond(handle.id, {"size": 1})
        await waiting(rt, handle.id, "Size 1?")
    async with Runtime(store=store) as rt:
        await rt.respond(handle.id, {"size": 2})
    async with Runtime(TOOLS, store=store) as rt:
        await rt.recover()
        result = await (await rt.handle(handle.id)).result()
        assert result.output == [["accept", {"size": 1}], ["accept", {"size": 2}]]


async def test_a_question_whose_time_ran_out_meanwhile_is_cancelled(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(TOOLS, store=store) as rt:
        handle = await rt.submit("order", {"count": 1, "timeout": 0.3})
        await waiting(rt, handle.id)
    await asyncio.sleep(0.4)  # no process has it
    async with Runtime(TOOLS, store=store) as rt:
        assert (await (await rt.handle(handle.id)).result()).output == [["cancel", None]]


async def test_a_body_that_waits_is_stopped_when_the_runtime_closes(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/calls.db", close_timeout=0)
    async with Runtime(TOOLS, settings=settings) as rt:
        handle = await rt.submit("order_live", {})
        await waiting(rt, handle.id)
    async with Runtime(settings=settings) as rt:
        assert (await rt.get(handle.id)).error.code == "outcome_unknown"
