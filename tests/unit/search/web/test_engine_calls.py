"""An engine's queries are calls of a runtime: retries, the breaker, deadlines, the rate limit, connections."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.search.web.engines import MAKE, QUICK
from tests.unit.search.web.kit import KEY, SERVICES, Request, answer, searxng, serving

from clicket.testing import StepClock, memory_runtime
from clicket.web import EngineFailed, SearXNG


async def test_busy_services_are_retried_and_then_failures_open_the_breaker() -> None:
    answers = [
        answer({"detail": {"error": "slow down"}}, "429 Too Many Requests", retry_after="0"),
        answer({}, "503 Service Unavailable"),
    ]
    async with serving(lambda request: answers.pop(0) if answers else searxng(request)) as web:
        engine = SearXNG(web.url, retry_delay=0.001, max_retries=2, failure_threshold=2, cooldown=60)
        assert len(await engine.search("x")) == 10
        assert len(web.seen) == 3

        web.handle = lambda _: answer({}, "503 Service Unavailable")
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"503.*tried 3 times.*Try again later"):
                await engine.search("x")
        assert len(web.seen) == 9
        with pytest.raises(EngineFailed, match="2 failures in a row") as failed:
            await engine.search("x")
        assert failed.value.details["reason"] == "tool_unavailable"
        assert len(web.seen) == 9  # the breaker sent no further request


async def test_the_breaker_lets_one_try_when_the_cool_down_is_over() -> None:
    clock = StepClock()
    async with serving(lambda _: answer({}, "500 Oops")) as web:
        engine = SearXNG(web.url, failure_threshold=1, cooldown=30, clock=clock)
        for _ in range(2):
            with pytest.raises(EngineFailed):
                await engine.search("x")
        assert len(web.seen) == 1
        web.handle = searxng
        clock.advance(31)
        assert await engine.search("x")
        assert await engine.search("x")


async def test_a_service_that_wants_an_hour_is_not_waited_for() -> None:
    async with serving(lambda _: answer({}, "429 Too Many Requests", retry_after="3600")) as web:
        with pytest.raises(EngineFailed, match=r"3600 s.*lower rate"):
            await SearXNG(web.url).search("x")
        assert len(web.seen) == 1


async def test_a_service_that_is_not_there_is_named() -> None:
    async with serving(searxng) as web:
        pass
    with pytest.raises(EngineFailed, match=r"127\.0\.0\.1 could not be reached.*tried 2 times"):
        await SearXNG(web.url, **QUICK).search("x")


async def test_a_deadline_ends_a_search_that_hangs() -> None:
    async def never(_: Request) -> Any:
        await asyncio.Event().wait()
        yield b""

    async with serving(never) as web:
        with pytest.raises(EngineFailed, match="searxng"):
            await asyncio.wait_for(SearXNG(web.url).search("x", deadline=0.1), PATIENCE)


async def test_the_rate_is_kept() -> None:
    clock = StepClock()
    async with serving(searxng) as web:
        engine = SearXNG(web.url, rate="2/s", clock=clock)
        for _ in range(2):
            await engine.search("x")
        waiting = [asyncio.ensure_future(engine.search("x")) for _ in range(2)]
        await clock.settle()
        assert clock.pending == [0.5, 1.0]
        with pytest.raises(EngineFailed, match=r"wait 1\.5 s"):
            await engine.search("x", deadline=1.0)
        assert len(web.seen) == 2
        clock.advance(0.5)
        await waiting[0]
        assert not waiting[1].done()
        clock.advance(0.5)
        await waiting[1]
        assert len(web.seen) == 4


async def test_with_a_runtime_every_query_is_a_call_on_record() -> None:
    async with serving(SERVICES["tavily"]) as web, memory_runtime() as runtime:
        engine = MAKE["tavily"](web, runtime=runtime)
        await engine.search("first", k=2)
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(engine.search(f"more {n}"))
        calls = (await runtime.history(tool="search_tavily")).items
        record = await runtime.get(calls[-1].id)
        assert len(calls) == 4
        assert record.arguments == {"query": "first", "k": 2}
        assert KEY not in msgspec.json.encode([await runtime.get(call.id) for call in calls]).decode()
        assert [one["title"] for one in record.output] == ["Page 1", "Page 2"]


async def test_searches_side_by_side_share_connections_and_leave_none() -> None:
    async with serving(searxng) as web:
        async with SearXNG(web.url, max_concurrency=2) as engine:
            await asyncio.gather(*(engine.search(f"q{n}") for n in range(8)))
        assert len(web.seen) == 8
    assert len(asyncio.all_tasks()) <= 2


async def test_a_search_that_is_given_up_leaves_nothing_behind() -> None:
    arrived = asyncio.Event()

    async def never(_: Request) -> Any:
        arrived.set()
        await asyncio.Event().wait()
        yield b""

    async with serving(never) as web:
        engine = SearXNG(web.url)
        search = asyncio.ensure_future(engine.search("x"))
        await arrived.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        web.handle = searxng
        assert await engine.search("x")


def test_an_engine_outlives_its_loop() -> None:
    engines: list[SearXNG] = []

    async def once(port: int) -> int:
        async with serving(searxng) as web:
            engines.append(SearXNG(web.url, **QUICK))
            return sum([len(await engine.search("x")) for engine in engines[port:]])

    assert asyncio.run(once(0)) == 10
    assert asyncio.run(once(1)) == 10

    async def again() -> None:
        with pytest.raises(EngineFailed, match="could not be reached"):
            await engines[0].search("x", deadline=5)

    asyncio.run(again())
