"""call_many: the order is kept, failures are independent, no call is dropped, for any length."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenarios.kit import assert_sound, make

from clicket import State, ToolCall, tool
from clicket.errors import UsageError


class Inside:
    now = 0
    most = 0


@pytest.fixture
def tools() -> list[Any]:
    inside = Inside()

    @tool
    async def echo(x: int) -> int:
        inside.now += 1
        inside.most = max(inside.most, inside.now)
        # The later ones are faster: results are not in the order of ending.
        for _ in range(20 - x % 20):
            await asyncio.sleep(0)
        inside.now -= 1
        return x

    @tool
    def plain(x: int) -> int:
        return x * 10

    @tool
    async def fails() -> None:
        raise ValueError("one bad apple")

    @tool(timeout=0.02)
    async def hangs() -> None:
        await asyncio.Event().wait()

    @tool
    async def exits() -> None:
        raise SystemExit(3)

    echo.inside = inside
    return [echo, plain, fails, hangs, exits]


async def test_no_calls_no_results(store: str, tools: list[Any]) -> None:
    async with make(tools, store) as rt:
        assert await rt.call_many([]) == []
        assert (await rt.history()).items == []


@pytest.mark.parametrize("count", [1, 7, 1_000])
async def test_order_is_kept_and_nothing_dropped(store: str, tools: list[Any], count: int) -> None:
    async with make(tools, store) as rt:
        results = await rt.call_many((ToolCall("echo", {"x": i}) for i in range(count)), max_concurrency=50)
        assert len((await rt.history(limit=1_000)).items) == count
    assert [r.output for r in results] == list(range(count))
    assert len({r.call_id for r in results}) == count


async def test_one_failure_harms_no_other(store: str, tools: list[Any]) -> None:
    calls: list[Any] = [
        ToolCall("echo", {"x": 1}),
        ("fails", {}),
        {"tool": "echo", "arguments": {"x": "wrong"}},
        ToolCall("nobody", {}),
        ("hangs",),
        ("exits", None),
        ToolCall("echo", "{not json"),
        ToolCall("echo", {"x": 1}, timeout=-1),
        ToolCall("plain", {"x": 2}),
    ]
    async with make(tools, store) as rt:
        results = await rt.call_many(calls)
        for result in results:
            if result.call_id:
                assert_sound(await rt.get(result.call_id))
    codes = [r.error.code if r.error else None for r in results]
    assert codes == [
        None, "tool_error", "invalid_input", "tool_not_found", "timeout", "tool_error", "invalid_input", "usage", None,
    ]  # fmt: skip
    assert (results[0].output, results[-1].output) == (1, 20)
    assert [r.tool for r in results] == ["echo", "fails", "echo", "nobody", "hangs", "exits", "echo", "echo", "plain"]


async def test_a_conflict_inside_a_batch_is_that_calls_own(store: str, tools: list[Any]) -> None:
    async with make(tools, store) as rt:
        results = await rt.call_many(
            [
                ToolCall("echo", {"x": 1}, id="same"),
                ToolCall("echo", {"x": 2}, id="same"),
                ToolCall("echo", {"x": 1}, id="same"),
                ToolCall("echo", {"x": 3}),
            ]
        )
        assert len((await rt.history()).items) == 2
    assert [r.output for r in results] == [1, None, 1, 3]
    assert results[1].error is not None
    assert results[1].error.code == "conflict"
    assert results[1].state is State.FAILED
    assert results[0] == results[2]


@pytest.mark.parametrize(("given", "most"), [({}, 5), ({"max_concurrency": 2}, 2), ({"max_concurrency": 1}, 1)])
async def test_max_concurrency_is_honoured(store: str, tools: list[Any], given: dict[str, int], most: int) -> None:
    async with make(tools, store, max_concurrency=30) as rt:
        await rt.call_many([("echo", {"x": i}) for i in range(40)], **given)
    assert tools[0].inside.most == most


@pytest.mark.parametrize("wrong", [0, -1, None, 2.5, True])
async def test_a_limit_that_could_run_nothing_is_refused(store: str, tools: list[Any], wrong: Any) -> None:
    async with make(tools, store) as rt:
        with pytest.raises(UsageError, match="max_concurrency"):
            await rt.call_many([("echo", {"x": 1})], max_concurrency=wrong)


@pytest.mark.parametrize("wrong", [[3], [("echo", {}, "t", 4, 5)], [{"tool": "echo", "argumens": {}}], ["echo"]])
async def test_what_is_not_a_call_is_refused_before_any_runs(store: str, tools: list[Any], wrong: list[Any]) -> None:
    async with make(tools, store) as rt:
        with pytest.raises(UsageError):
            await rt.call_many([("echo", {"x": 1}), *wrong])
        assert (await rt.history()).items == []


async def test_the_limit_of_the_runtime_holds_over_all_batches(store: str, tools: list[Any]) -> None:
    async with make(tools, store, max_concurrency=3) as rt:
        batches = await asyncio.gather(*(rt.call_many([("echo", {"x": i}) for i in range(10)]) for _ in range(4)))
    assert [[r.output for r in batch] for batch in batches] == [list(range(10))] * 4
    assert tools[0].inside.most <= 3


async def test_a_cancelled_batch_cancels_its_calls(store: str) -> None:
    started = asyncio.Event()
    ended = []

    @tool
    async def endless(i: int) -> None:
        if i == 2:
            started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(i)

    async with make([endless], store) as rt:
        task = asyncio.create_task(rt.call_many([("endless", {"i": i}) for i in range(10)], max_concurrency=3))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        records = (await rt.history()).items
    assert sorted(ended) == [0, 1, 2]
    assert [r.state for r in records] == [State.CANCELLED] * 3  # the others were never created
