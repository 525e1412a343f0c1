"""However much a tool emits, however slowly it is read: the journal and memory stay bounded, and no output is lost."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.kit.examples import in_long_runs
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, types

from clicket import Event, RetryableError, ToolContext, tool
from clicket.tools import STREAMED

MAX_OUTPUTS = 1_000


def contents(events: list[Event]) -> list[Any]:
    return [event.data["content"] for event in events if event.type == "output"]


@pytest.mark.parametrize("body", ["async generator", "sync generator", "emit and return"])
async def test_output_beyond_the_limit_goes_to_the_artifact_announced_by_one_note(store: str, body: str) -> None:
    count = 2_500
    lines = [f"{i} ü€🙂\n" for i in range(count)]

    @tool(name="flood")
    async def by_async() -> AsyncIterator[str]:
        for line in lines:
            yield line

    @tool(name="flood")
    def by_sync() -> Iterator[str]:
        yield from lines

    @tool(name="flood")
    def by_emit(ctx: ToolContext) -> str:
        for line in lines:
            ctx.emit(line)
        return "done"

    chosen = {"async generator": by_async, "sync generator": by_sync, "emit and return": by_emit}[body]
    async with make([chosen], store) as rt:
        result = await rt.call("flood")
        record = await rt.get(result.call_id)
        name = result.artifact or result.metadata["stream_artifact"]
        kept = await rt.artifact(name)
        [note] = [e for e in record.events if e.type == "note"]
        rest = await rt.artifact(name, start=note.data["offset"])
    whole = "".join(lines)
    assert kept.decode() == whole
    outputs = contents(record.events)
    assert len(outputs) == MAX_OUTPUTS
    assert "".join(outputs) + rest.decode() == whole  # complete and without repetition, at the note's offset
    assert result.output == ("done" if body == "emit and return" else whole)
    assert_sound(record)


async def test_a_thousand_outputs_need_no_note(store: str) -> None:
    @tool
    async def exactly() -> AsyncIterator[str]:
        for i in range(MAX_OUTPUTS):
            yield f"{i},"

    async with make([exactly], store) as rt:
        record = await rt.get((await rt.call("exactly")).call_id)
    assert types(record).count("output") == MAX_OUTPUTS
    assert "note" not in types(record)


async def test_a_slow_reader_delays_no_other_and_misses_nothing(store: str) -> None:
    @tool
    async def fast() -> AsyncIterator[int]:
        for i in range(200):
            yield i

    async with make([fast], store) as rt:
        handle = await rt.submit("fast")
        slow = handle.events()
        seen = [await anext(slow)]
        await handle.result()  # the call ends although one reader has read only one event
        seen += [event async for event in slow]
    assert contents(seen) == list(range(200))
    assert [e.seq for e in seen] == list(range(1, len(seen) + 1))


# Memory is limited before the store, and both lanes end in the same code: two of four pairs are enough.
@pytest.mark.parametrize(
    ("store", "lane"),
    [
        ("memory", "loop"),
        ("sqlite", "thread"),
        pytest.param("memory", "thread", marks=pytest.mark.slow),
        pytest.param("sqlite", "loop", marks=pytest.mark.slow),
    ],
    indirect=["store"],
)
async def test_endless_output_does_not_grow_memory(store: str, lane: str) -> None:
    """Tens of MB are emitted; what is kept of them in memory is less than a third, with a reader that reads nothing."""
    piece = "x" * 100_000
    pieces = in_long_runs(600, else_=250)
    held = []

    def chunks() -> Iterator[str]:
        for i in range(pieces):
            if i == pieces - 1:
                held.append(tracemalloc.get_traced_memory()[0])
            yield piece

    @tool(name="flood", timeout=120)
    async def on_loop() -> AsyncIterator[str]:
        for chunk in chunks():
            yield chunk

    @tool(name="flood", timeout=120)
    def in_thread() -> Iterator[str]:
        yield from chunks()

    async with make([on_loop if lane == "loop" else in_thread], store) as rt:
        tracemalloc.start()
        try:
            handle = await rt.submit("flood")
            idle_reader = handle.events()
            await anext(idle_reader)
            done = await handle.result()
        finally:
            tracemalloc.stop()
        await idle_reader.aclose()
        assert done.success
        assert done.truncated
        assert done.artifact is not None
        assert len(done.content.encode()) <= 1024 * 1024
        assert await rt.artifact(done.artifact, start=pieces * len(piece) - 5) == b"xxxxx"
        assert await rt.artifact(done.artifact, start=pieces * len(piece)) == b""
    assert held
    assert held[0] < pieces * len(piece) / 3


@pytest.mark.parametrize("end", ["fails", "cancelled", "timeout", "retried", "completes", "returns"])
async def test_the_file_of_a_long_output_is_closed_however_the_call_ends(end: str) -> None:
    """Checked without the garbage collector: a file must not stay open until a collection."""
    started = asyncio.Event()

    @tool(timeout=0.2 if end == "timeout" else 30, retry_delay=0.001)
    async def flood(ctx: ToolContext) -> Any:
        for _ in range(30):
            ctx.emit("x" * 100_000)
        started.set()
        if end == "fails":
            raise ValueError("enough")
        if end == "retried" and ctx.attempt == 1:
            raise RetryableError("again")
        if end in ("cancelled", "timeout"):
            await asyncio.Event().wait()
        return STREAMED if end == "completes" else "done"

    async with make([flood]) as rt:
        before = set(os.listdir("/proc/self/fd"))
        gc.disable()
        try:
            handle = await rt.submit("flood")
            await started.wait()
            if end == "cancelled":
                await handle.cancel()
            result = await handle.result()
            assert result.state.is_terminal
            assert set(os.listdir("/proc/self/fd")) <= before
        finally:
            gc.enable()


async def test_a_thread_that_emits_faster_than_the_loop_takes_is_slowed_down() -> None:
    sent = []

    @tool
    def fast(ctx: ToolContext) -> None:
        for i in range(5_000):
            ctx.emit("x")
            sent.append(i)

    async with make([fast]) as rt:
        handle = await rt.submit("fast")
        await eventually(lambda: sent)
        before = len(sent)
        assert before < 5_000
        time.sleep(0.1)  # the loop is busy: the thread must wait, not accumulate output
        ahead = len(sent) - before
        result = await handle.result()
    assert result.success
    assert len(sent) == 5_000
    assert ahead <= 100


async def test_emit_from_a_thread_of_the_tools_own(store: str) -> None:
    @tool
    def spawns(ctx: ToolContext) -> str:
        threads = [threading.Thread(target=ctx.emit, args=(str(i),)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "joined"

    async with make([spawns], store) as rt:
        record = await rt.get((await rt.call("spawns")).call_id)
    assert sorted(contents(record.events)) == sorted(str(i) for i in range(10))
    assert_sound(record)


async def test_an_async_generator_in_a_thread_of_its_own_streams_too(store: str) -> None:
    @tool(isolation="thread", timeout=20)
    async def count() -> AsyncIterator[int]:
        for i in range(500):
            await asyncio.sleep(0)
            yield i

    async with make([count], store) as rt:
        result = await asyncio.wait_for(rt.call("count"), PATIENCE)
    assert result.error is None
    assert result.output == list(range(500))
