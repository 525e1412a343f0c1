"""A running tool's output reaches its readers in order, without gaps, and in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound, label, make, states, types

from clicket import Event, State, ToolContext, tool
from clicket.errors import UsageError

MAX_OUTPUTS = 1_000


def contents(events: list[Event]) -> list[Any]:
    return [event.data["content"] for event in events if event.type == "output"]


async def read(handle: Any, after: int = 0) -> list[Event]:
    return [event async for event in handle.events(after)]


# Order, ends, readers ------------------------------------------------------------------------------------------------


async def test_events_arrive_while_the_tool_still_runs_and_end_with_the_outcome(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def two() -> AsyncIterator[str]:
        yield "one"
        await gate.wait()
        yield "two"

    async with make([two], store) as rt:
        seen = []
        async for event in rt.stream("two"):
            seen.append(event)
            if event.type == "output" and event.data["content"] == "one":
                assert event.state is State.STREAMING
                gate.set()  # the second chunk depends on reading the first
    assert contents(seen) == ["one", "two"]
    assert [e.seq for e in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].is_terminal  # the last event is not dropped
    assert seen[-1].data["output"] == "onetwo"
    assert [e.is_terminal for e in seen].count(True) == 1


async def test_the_body_runs_once_however_many_elements_and_readers_there_are(store: str) -> None:
    runs = []

    @tool
    async def count(n: int) -> AsyncIterator[int]:
        runs.append(n)
        for i in range(n):
            yield i

    async with make([count], store) as rt:
        handle = await rt.submit("count", {"n": 50})
        readers = await asyncio.gather(*(read(handle) for _ in range(20)))
        again = await read(handle)
        later = await read(await rt.handle(handle.id))
    assert runs == [50]
    assert all(seen == again for seen in readers)
    assert later == again
    assert contents(again) == list(range(50))


async def test_replay_starts_after_any_number(store: str) -> None:
    @tool
    async def count() -> AsyncIterator[int]:
        for i in range(5):
            yield i

    async with make([count], store) as rt:
        handle = await rt.submit("count")
        whole = await read(handle)
        for source in (handle, await rt.handle(handle.id)):
            for after in range(len(whole) + 2):
                assert await asyncio.wait_for(read(source, after), PATIENCE) == whole[after:]


async def test_a_reader_in_another_process_sees_the_same(sqlite: str) -> None:
    gate = asyncio.Event()

    @tool
    async def two() -> AsyncIterator[str]:
        yield "one"
        await gate.wait()
        yield "two"

    async with make([two], sqlite) as owner, make([], sqlite) as other:
        handle = await owner.submit("two", id="x")
        remote = await other.handle("x")
        seen = []
        async for event in remote.events():
            seen.append(event)
            if event.type == "output":
                gate.set()
        assert seen == await read(handle)
        assert (await remote.result()).output == "onetwo"


async def test_a_failing_stream_ends_as_failed_and_stays_so(store: str) -> None:
    @tool
    async def breaks() -> AsyncIterator[str]:
        yield "a"
        raise ValueError("broke")

    async with make([breaks], store) as rt:
        handle = await rt.submit("breaks")
        seen = await read(handle)
        record = await rt.get(handle.id)
    assert contents(seen) == ["a"]
    assert states(seen) == ["pending", "initializing", "running", "streaming", "failed"]
    assert record.state is State.FAILED
    assert_sound(record)


async def test_a_reader_that_leaves_a_stream_early_does_not_stop_the_call(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def slow() -> AsyncIterator[str]:
        yield "a"
        await gate.wait()
        yield "b"

    async with make([slow], store) as rt:
        stream = rt.stream("slow", id="s")
        async for event in stream:
            if event.type == "output":
                break
        await stream.aclose()
        gate.set()
        assert (await (await rt.handle("s")).result()).output == "ab"


async def test_a_generator_is_closed_when_its_call_is_stopped(store: str) -> None:
    closed, started = [], asyncio.Event()

    @tool
    async def endless() -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
                started.set()
                await asyncio.sleep(0.001)
        finally:
            closed.append(True)

    async with make([endless], store) as rt:
        handle = await rt.submit("endless")
        await started.wait()
        assert await handle.cancel()
        assert closed == [True]
        assert (await handle.result()).state is State.CANCELLED


async def test_a_generator_that_never_waits_does_not_freeze_the_others(store: str) -> None:
    @tool
    async def spin() -> AsyncIterator[str]:
        while True:
            yield "x"

    @tool
    async def quick() -> str:
        return "quick"

    async with make([spin, quick], store) as rt:
        handle = await rt.submit("spin")
        for _ in range(5):
            assert (await asyncio.wait_for(rt.call("quick"), PATIENCE)).output == "quick"
        assert await asyncio.wait_for(handle.cancel(), PATIENCE)


async def test_values_that_are_not_text_are_kept_as_values(store: str) -> None:
    @tool
    async def mixed(ctx: ToolContext) -> AsyncIterator[Any]:
        yield "text"
        yield {"a": [1, None]}
        yield 7

    async with make([mixed], store) as rt:
        result = await rt.call("mixed")
        record = await rt.get(result.call_id)
    assert contents(record.events) == ["text", {"a": [1, None]}, 7]
    assert result.output == ["text", {"a": [1, None]}, 7]


@pytest.mark.parametrize("chunk", [float("nan"), b"bytes", object(), "\ud800", {object()}], ids=label)
async def test_a_chunk_that_is_not_json_is_a_typed_error(store: str, chunk: Any) -> None:
    @tool
    async def bad() -> AsyncIterator[Any]:
        yield "good"
        yield chunk

    async with make([bad], store) as rt:
        result = await rt.call("bad")
        record = await rt.get(result.call_id)
    assert result.error is not None
    assert result.error.code == "result_unserializable"
    assert contents(record.events) == ["good"]
    assert "object at 0x" not in result.error.message
    assert_sound(record)


async def test_a_tool_may_emit_and_return(store: str) -> None:
    @tool
    def both(ctx: ToolContext) -> dict[str, int]:
        ctx.emit("working")
        ctx.note("half way", at=2)
        return {"answer": 42}

    async with make([both], store) as rt:
        result = await rt.call("both")
        record = await rt.get(result.call_id)
    assert result.output == {"answer": 42}
    assert contents(record.events) == ["working"]
    assert [e.data for e in record.events if e.type == "note"] == [{"at": 2, "text": "half way"}]


# Progress ------------------------------------------------------------------------------------------------------------


async def test_progress_has_percentage_estimate_and_ends_at_100(store: str) -> None:
    @tool
    async def steps(ctx: ToolContext) -> None:
        ctx.progress(1, 4, "one of four")
        await ctx.drain()
        await asyncio.sleep(0.02)
        ctx.progress(3, 4, "three of four")
        await ctx.drain()

    async with make([steps], store) as rt:
        record = await rt.get((await rt.call("steps")).call_id)
    first, second, last = [e.data for e in record.events if e.type == "progress"]
    assert (first["step"], first["total_steps"], first["percentage"], first["status"]) == (1, 4, 25, "one of four")
    assert (second["percentage"], second["status"]) == (75, "three of four")
    assert 0.02 / 3 * 0.9 <= second["estimated_time_remaining"] <= 2
    assert (last["step"], last["percentage"], last["estimated_time_remaining"]) == (4, 100, 0)
    assert record.progress == last
    assert record.events[-1].is_terminal


async def test_progress_without_a_total_still_reports_100_at_the_end(store: str) -> None:
    @tool
    async def steps(ctx: ToolContext) -> None:
        ctx.progress(7, text="seven")

    async with make([steps], store) as rt:
        record = await rt.get((await rt.call("steps")).call_id)
    reports = [e.data for e in record.events if e.type == "progress"]
    assert record.progress is not None
    assert record.progress["percentage"] == 100
    assert reports[0]["percentage"] is None or len(reports) == 1


async def test_a_call_that_fails_or_reports_nothing_does_not_report_100(store: str) -> None:
    @tool
    async def fails(ctx: ToolContext) -> None:
        ctx.progress(1, 2)
        raise ValueError

    @tool
    async def silent() -> None: ...

    @tool
    async def done(ctx: ToolContext) -> None:
        ctx.progress(2, 2)

    async with make([fails, silent, done], store) as rt:
        records = [await rt.get((await rt.call(name)).call_id) for name in ("fails", "silent", "done")]
    assert records[0].progress is not None
    assert records[0].progress["percentage"] == 50
    assert records[1].progress is None
    assert types(records[2]).count("progress") == 1


@pytest.mark.parametrize("step", [float("nan"), float("inf"), "3", None])
async def test_progress_takes_finite_numbers_only(store: str, step: Any) -> None:
    pieces = []

    @tool
    async def odd(ctx: ToolContext) -> None:
        with pytest.raises(UsageError, match="finite"):
            ctx.progress(step)
        pieces.append(True)

    async with make([odd], store) as rt:
        assert (await rt.call("odd")).success
    assert pieces


@pytest.mark.parametrize("kind", ["progress", "heartbeat"])
async def test_reports_are_merged_under_the_limit_and_the_last_one_counts(store: str, kind: str) -> None:
    @tool
    async def chatty(ctx: ToolContext) -> None:
        for i in range(3_000):
            if kind == "progress":
                ctx.progress(i + 1, 10_000)
            else:
                ctx.heartbeat()
            await ctx.drain()
        raise ValueError("stopped short")

    async with make([chatty], store) as rt:
        record = await rt.get((await rt.call("chatty")).call_id)
    assert types(record).count(kind) <= MAX_OUTPUTS + 10
    if kind == "progress":
        assert record.progress is not None
        assert record.progress["step"] == 3_000
    assert_sound(record)
