"""Each tool call of a message gets one result, whatever the model wrote and whatever the store does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.agents.tool_step import Actor
from clicket.errors import StoreUnavailable, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest
from clicket.runtime.agent_host import Host
from clicket.testing import ScriptedModel, memory_runtime

GOT: list[dict[str, Any]] = []


@tool
async def take(a: int = 1, b: str = "x") -> dict[str, Any]:
    GOT.append({"a": a, "b": b})
    return {"a": a, "b": b}


@tool(max_retries=0)
async def wordy() -> str:
    raise ValueError("no " * 3_000)


@tool
async def book() -> str:
    return "x" * 2_000


async def answers(rt: Runtime, *calls: tuple[str, str], **options: Any) -> list[ChatMessage]:
    script = iter([asks(*calls), ChatReply(text="done")])
    result = await ReActAgent(rt, Says(lambda _: next(script)), **options).run("go", thread="t")
    assert result.stopped == "finished"
    check_pairs(result.messages)
    return [message for message in result.messages if message.role == "tool"]


@pytest.mark.parametrize("nothing", ["", "  ", "null", " null\n", "{}"])
async def test_no_arguments_are_none_however_they_are_written(nothing: str) -> None:
    GOT.clear()
    async with memory_runtime([take]) as rt:
        (answer,) = await answers(rt, ("take", nothing))
    assert not answer.failed
    assert GOT == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    "wrong", ["{", "[1]", '"x"', "7", '{"a": "one"}', '{"a": 1, "a": 2}', '{"c": 1}', '{"a": NaN}', "nul"]
)
async def test_arguments_that_do_not_fit_run_nothing_and_say_why(wrong: str) -> None:
    GOT.clear()
    async with memory_runtime([take]) as rt:
        (answer,) = await answers(rt, ("take", wrong))
    assert answer.failed
    assert answer.content.startswith("invalid_input: ")
    assert GOT == []


async def test_an_error_is_not_longer_than_a_result_may_be() -> None:
    async with memory_runtime([wordy]) as rt:
        (answer,) = await answers(rt, ("wordy", "{}"), max_observation=300)
    assert answer.failed
    assert len(answer.content) <= 300


async def test_a_result_that_could_not_be_kept_counts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> str:
        raise StoreUnavailable("the disk is full.")

    monkeypatch.setattr(Host, "keep", full)
    monkeypatch.setattr(Host, "allow", full)
    async with memory_runtime([book, take]) as rt:
        cut, whole = await answers(rt, ("book", "{}"), ("take", "{}"), max_observation=300)
    assert not cut.failed
    assert cut.content.startswith("x" * 300)
    assert "the disk is full" in cut.content
    assert not whole.failed


async def test_a_store_that_does_not_answer_leaves_no_call_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    @tool(timeout=None)
    async def hold() -> str:
        await gate()
        return "never"

    async with memory_runtime([hold, take]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("hold", {}), ("take", {})], "fine"]))
        run = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()

        async def down(*_: Any) -> None:
            raise StoreUnavailable("the store is down.")

        with monkeypatch.context() as broken:
            broken.setattr(Host, "record", down)
            await rt.cancel("turn-1", thread="agent:react/t")
            result = await run
        assert result.stopped == "cancelled"
        check_pairs(result.messages)
        assert [message.failed for message in result.messages[2:]] == [True, False]
        assert (await agent.run("again", thread="t")).text == "fine"


async def test_a_host_that_raises_is_an_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that a call raises instead of returning: its id is in use with other arguments, or the queue is full."""
    async with memory_runtime([take]) as rt:
        monkeypatch.setattr("clicket.agents.agent.new_id", lambda: "run-12345678")
        await rt.call("take", {"a": 7}, id="u0:react.1.1.1~12345678", thread="t")
        first, second = await answers(rt, ("take", '{"a": 8}'), ("take", '{"a": 9}'))
    assert first.failed
    assert first.content.startswith("conflict: ")
    assert not second.failed


async def test_the_models_tools_are_read_at_each_step() -> None:
    seen: list[list[str]] = []

    def answer(request: ChatRequest) -> Any:
        seen.append([offer.name for offer in request.tools])
        if len(seen) == 1:
            rt.add(book)
            return asks(("take", "{}"))
        return ChatReply(text="done")

    async with memory_runtime([take]) as rt:
        await ReActAgent(rt, Says(answer)).run("go")
    assert seen == [["take"], ["take", "book"]]


def test_bounds_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"max_concurrency": 0},
        {"max_concurrency": True},
        {"max_observation": 199},
        {"max_observation": 1e6},
    ):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Actor(**wrong)  # type: ignore[arg-type]
