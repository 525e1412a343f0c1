"""What is kept of ended calls: by age, number and bytes, in all and per thread; what goes, goes whole and in small steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import echo_value
from tests.kit.waiting import eventually
from tests.scenarios.cache_kit import stepped
from tests.scenarios.kit import assert_sound, make

from clicket import Policy, Runtime, State, tool
from clicket.engine.recovery import chores
from clicket.errors import NotFound
from clicket.testing import StepClock

BIG = 20_000


@tool(cache=3600)
async def known() -> str:
    return "known"


@tool(max_result_size=1000)
async def big() -> str:
    return "b" * BIG


async def run(rt: Runtime, ids: str, clock: StepClock | None = None, tool: str = "echo", **options: Any) -> None:
    """One call for each letter, each ended a second after the one before."""
    for id in ids:
        assert (await rt.call(tool, id=id, **options)).success
        if clock is not None:
            clock.advance(1)


async def kept(rt: Runtime, **query: Any) -> str:
    return "".join(sorted(record.id for record in (await rt.history(limit=1000, **query)).items))


async def swept(rt: Runtime) -> Any:
    return await rt.sweep()


# Bounds ---------------------------------------------------------------------------------------------------------------


async def test_by_age_counted_from_the_end(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value], store, clock, retention=3600.0) as rt:
        await run(rt, "ab")
        clock.advance(1800)
        await run(rt, "cd")
        clock.advance(1800)
        assert (await swept(rt)).calls == 0  # not a moment too early
        clock.advance(1)
        assert (await swept(rt)).calls == 2
        assert await kept(rt) == "cd"
        with pytest.raises(NotFound):
            await rt.get("a")
        clock.advance(1800)
        assert (await swept(rt)).calls == 2
        assert await kept(rt) == ""


async def test_by_number_the_oldest_end_goes_first(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value], store, clock, retention_calls=3) as rt:
        await run(rt, "abc", clock)
        assert (await swept(rt)).calls == 0
        await run(rt, "de", clock)
        assert (await swept(rt)).calls == 2
        assert await kept(rt) == "cde"
        assert (await swept(rt)).calls == 0


async def test_by_bytes_of_events_and_artifacts_together(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value, big], store, clock, retention_bytes=3 * BIG) as rt:
        await run(rt, "abcdef", clock, tool="big")
        report = await swept(rt)
        assert await kept(rt) == "ef"  # three with their events are more than three alone
        assert report.calls == 4
        assert report.bytes >= 4 * BIG


async def test_per_thread_by_number_and_bytes(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value, big], store, clock, thread_retention_calls=2, thread_retention_bytes=3 * BIG) as rt:
        await run(rt, "abcd", clock, thread="many")
        await run(rt, "e", clock, thread="few")
        await run(rt, "fg", clock, thread="big", tool="big")
        assert (await swept(rt)).calls == 2
        assert await kept(rt) == "cdefg"
    async with stepped([echo_value, big], "memory://", clock, thread_retention_bytes=BIG // 2) as rt:
        await run(rt, "ab", clock, thread="big", tool="big")
        await run(rt, "cd", clock, thread="few")
        await swept(rt)
        assert await kept(rt) == "cd"


async def test_bounds_together_keep_what_breaks_none(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value], store, clock, retention=100.0, retention_calls=6, thread_retention_calls=2) as rt:
        await run(rt, "ab", clock, thread="old")
        clock.advance(100)
        await run(rt, "cdef", clock, thread="one")
        await run(rt, "ghi", clock, thread="two")
        await swept(rt)
        assert await kept(rt) == "efhi"


async def test_calls_that_have_not_ended_are_never_swept(store: str) -> None:
    clock, gate = StepClock(), asyncio.Event()

    @tool(timeout=None)
    async def slow() -> None:
        await gate.wait()

    @tool
    async def asked() -> str:
        return "asked"

    settings: dict[str, Any] = {"retention": 1.0, "retention_calls": 1, "retention_bytes": 1, "max_concurrency": 1}
    rt = stepped([echo_value, slow, asked], store, clock, queue_timeout=None, **settings)
    rt.policy = Policy(ask=["asked"])
    async with rt:
        await run(rt, "abc", clock)
        for id, name in (("running", "slow"), ("queued", "slow"), ("waiting", "asked")):
            await rt.submit(name, id=id)
        await eventually(lambda: rt.state("running"))
        clock.advance(7200)
        assert (await swept(rt)).calls == 3
        assert sorted(record.id for record in (await rt.history()).items) == ["queued", "running", "waiting"]
        gate.set()
        for id in ("running", "queued"):
            assert (await (await rt.handle(id)).result()).success
        assert await rt.approve("waiting")
        assert (await (await rt.handle("waiting")).result()).output == "asked"


async def test_the_runtime_sweeps_by_itself(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value], store, clock, retention_calls=2) as rt:
        await run(rt, "abcd", clock)
        clock.advance(chores.SWEEP_EVERY + 1)

        async def done() -> bool:
            return await kept(rt) == "cd"

        await eventually(done)


async def test_what_is_swept_goes_whole_and_its_id_is_free(store: str) -> None:
    clock = StepClock()
    settings = {"retention": 10.0, "outcome_retention": 0.0}
    async with stepped([echo_value, big, known], store, clock, **settings) as rt:
        await run(rt, "a", tool="big")
        await run(rt, "k", tool="known")
        clock.advance(11)
        await swept(rt)
        for look in (rt.get("a"), rt.state("a"), rt.handle("a"), rt.cancel("a"), rt.approve("a")):
            with pytest.raises(NotFound):
                await look
        assert (await rt.call("echo", {"value": 2}, id="a")).output == 2  # another tool, other arguments: no conflict
        assert_sound(await rt.get("a"))
        assert (await rt.call("known")).cached  # the cache has bounds of its own


# Readers --------------------------------------------------------------------------------------------------------------


def hold_news(rt: Runtime) -> asyncio.Lock:
    """A lock under which followers of calls read nothing from the store: a poll would find the outcome before it is swept."""
    held, news = asyncio.Lock(), rt.store.news

    async def read(known: Any) -> Any:
        async with held:
            return await news(known)

    rt.store.news = read  # type: ignore[method-assign]
    return held


async def test_a_reader_in_the_middle_gets_a_clear_end_not_a_gap(sqlite: str) -> None:
    gate = asyncio.Event()

    @tool
    async def slow() -> None:
        await gate.wait()

    async with make([slow], sqlite) as rt, make([slow], sqlite) as other:
        news = hold_news(other)
        await rt.submit("slow", id="s")
        reader = (await other.handle("s")).events()
        seen = [await anext(reader)]
        while seen[-1].type != "attempt_started":
            seen.append(await anext(reader))
        async with news:
            gate.set()
            await (await rt.handle("s")).result()
            await other.sweep(other.retention(2e9))
        with pytest.raises(NotFound, match="swept"):
            while True:
                seen.append(await anext(reader))
        with pytest.raises(NotFound):
            await (await other.handle("s")).result()
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


async def test_a_reader_never_slides_into_another_call_of_the_same_name(sqlite: str) -> None:
    gates = {1: asyncio.Event(), 2: asyncio.Event()}

    @tool
    async def slow(x: int) -> int:
        await gates[x].wait()
        return x

    async with make([slow], sqlite) as rt, make([slow], sqlite, outcome_retention=0.0) as other:
        news = hold_news(other)
        await rt.submit("slow", {"x": 1}, id="s")
        handle = await other.handle("s")
        reader = handle.events()
        seen = [await anext(reader)]
        while seen[-1].type != "attempt_started":
            seen.append(await anext(reader))
        async with news:
            gates[1].set()
            await (await rt.handle("s")).result()
            await other.sweep(other.retention(2e9))
            await rt.submit("slow", {"x": 2}, id="s")
            gates[2].set()
            await (await rt.handle("s")).result()
        with pytest.raises(NotFound):
            while True:
                seen.append(await anext(reader))
        with pytest.raises(NotFound):
            await handle.result()
    assert not any(event.is_terminal for event in seen)


async def test_a_call_that_is_swept_just_after_its_end_was_seen_is_not_found(sqlite: str) -> None:
    async with make([echo_value], sqlite) as rt:
        await run(rt, "a")
        handle = await rt.handle("a")
        store = rt.store
        events = store.events

        async def swept_meanwhile(key: int, id: str, after: int) -> Any:
            found = await events(key, id, after)
            await rt.sweep(rt.retention(2e9))
            return found

        store.events = swept_meanwhile
        try:
            result = await handle.result()  # what it has read is enough to tell
        except NotFound:
            return
    assert result.state is State.COMPLETED


async def test_a_result_already_delivered_stays_readable(store: str) -> None:
    clock = StepClock()
    async with stepped([echo_value], store, clock, retention=10.0) as rt:
        handle = await rt.submit("echo", {"value": 1}, id="a")
        assert (await handle.result()).output == 1
        clock.advance(11)
        assert (await swept(rt)).calls == 1
        assert (await handle.result()).output == 1
        assert [event.seq async for event in handle.events()][-1] > 1


# Steps ----------------------------------------------------------------------------------------------------------------


async def test_a_long_sweep_goes_in_steps_and_says_how_far_it_is(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "STEPS", (30, 30, 30))
    async with make([echo_value], store, retention_calls=5) as rt:
        await rt.call_many([("echo", None)] * 100)
        told: list[int] = []
        total = await rt.sweep(progress=lambda so_far: told.append(so_far.calls))
    assert total.calls == 95
    assert told == [30, 60, 90, 95]


async def test_writers_go_on_between_the_steps(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is made while thousands are swept ends before the sweep does."""
    monkeypatch.setattr(chores, "STEPS", (10, 10, 10))
    async with make([echo_value], sqlite) as rt:
        await rt.call_many([("echo", None)] * 800, max_concurrency=50)
        begun = asyncio.Event()
        sweeping = asyncio.create_task(rt.sweep(rt.retention(2e9), progress=lambda _: begun.set()))
        await begun.wait()
        assert (await rt.call("echo", {"value": 1})).success
        assert not sweeping.done()
        assert (await sweeping).calls >= 800


async def test_thousands_of_calls_leave_a_file_of_bounded_size(sqlite: str) -> None:
    sizes = []
    for rounds in (2, 8):  # measured when the store is closed: how long its log is meanwhile depends on the machine
        async with make([echo_value], sqlite, retention_calls=200, max_concurrency=50) as rt:
            for number in range(rounds):
                values = [("echo", {"value": f"{number}:{i}"}) for i in range(500)]
                done = await rt.call_many(values, max_concurrency=50)
                assert all(result.success for result in done)
                await swept(rt)
                assert len((await rt.history(limit=1000)).items) == 200
            [newest] = (await rt.history(limit=1)).items
            assert_sound(newest)
        sizes.append(Path(sqlite.removeprefix("sqlite:///")).stat().st_size)
    assert sizes[1] <= 1.5 * sizes[0]
