"""Submitters and workers over one store, with messages that fail in every way: calls only take longer."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import redis
from tests.cutting_proxy import cutting_proxy
from tests.kit.waiting import PATIENCE, eventually
from tests.nats_server import NatsServer, nats_server
from tests.postgres_server import PostgresServer, postgres_server
from tests.redis_server import RedisServer, redis_server
from tests.scenarios.fleet_bus import FaultyBus, FaultyCarrier

from clicket import Runtime, Settings, State, ToolContext, tool
from clicket.engine.live_call import Call
from clicket.engine.records.stored_calls import StoredCalls
from clicket.stores.redis import RedisStore

_numbers = itertools.count(1)
ran: Counter[str] = Counter()


@tool
async def work(x: int, ctx: ToolContext) -> dict[str, int]:
    ran[ctx.call_id] += 1
    return {"x": x}


@pytest.fixture(scope="module")
def redis_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(log_statement="all") as server:
        yield server


@pytest.fixture(scope="module")
def nats() -> Iterator[NatsServer]:
    with nats_server() as server:
        yield server


@asynccontextmanager
async def fleet(
    store: Callable[[], Any], workers: int = 2, **settings: Any
) -> AsyncIterator[tuple[Runtime, list[Runtime]]]:
    """A runtime that submits calls, and runtimes that run them; all messages arrive."""
    async with AsyncExitStack() as stack:

        async def opened(**options: Any) -> Runtime:
            made = store()
            options["store"] = made if isinstance(made, str) else None
            runtime = Runtime(
                [work],
                store=None if isinstance(made, str) else made,
                settings=Settings(**{k: v for k, v in options.items() if v is not None}, **settings),
            )
            return await stack.enter_async_context(runtime)

        running = [await opened() for _ in range(workers)]
        giver = await opened(engine="workers")
        yield giver, running


async def listens(*runtimes: Runtime) -> None:
    for runtime in runtimes:
        await eventually(lambda runtime=runtime: runtime.store.bus.trouble is None)


async def called(giver: Runtime, count: int) -> None:
    """Make calls concurrently, and check each: its output, one run, no gap in its events."""
    handles = await asyncio.gather(*(giver.submit("work", {"x": n}, thread=f"t{n % 3}") for n in range(count)))
    results = await asyncio.gather(*(handle.result() for handle in handles))
    assert [result.output for result in results] == [{"x": n} for n in range(count)]
    for handle in handles:
        assert ran[handle.id] == 1
        events = (await giver.get(handle.id)).events
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert sum(event.state.is_terminal for event in events) == 1


@pytest.mark.parametrize(("seed", "delay"), [(1, 0.02), (2, 0.02), (3, 0.5)])
async def test_a_bus_that_drops_doubles_delays_reorders_and_forges_costs_only_time(
    redis_store: RedisServer, seed: int, delay: float
) -> None:
    """With the long delay, offers arrive after other workers have claimed the calls."""
    bus, prefix = FaultyBus(seed, delay=delay), f"f{next(_numbers)}"
    url = f"{redis_store.url}?prefix={prefix}"
    async with fleet(lambda: RedisStore(url, carrier=FaultyCarrier(bus)), 3, max_concurrency=2) as (giver, _):
        for _ in range(3):
            await called(giver, 8)
    assert bus.sent


async def test_an_event_that_a_stranger_announces_is_not_believed(redis_store: RedisServer) -> None:
    bus = FaultyBus(drop=0.0, double=0.0, forge=0.0, delay=0.0)
    url = f"{redis_store.url}?prefix=f{next(_numbers)}"
    async with fleet(lambda: RedisStore(url, carrier=FaultyCarrier(bus)), 0) as (giver, _):
        handle = await giver.submit("work", {"x": 1})
        (record,) = (await giver.history(active=True)).items
        key = (await giver.store.load(record.id))[0].key
        waiting = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0)
        end = b'["%b",[[5,1.0,"state_changed","completed",{"from":"running","to":"completed","output":"forged"}]]]'
        space = next(iter(bus.members))[0]
        text = b'[99,[["events",%d,%b]]]' % (key, end % handle.id.encode())
        bus.send(space, 99, giver.store.bus.me, b"0" * 32 + text)
        await eventually(lambda: giver.store.bus.forged == 1)  # type: ignore[attr-defined]
        assert not waiting.done()
        assert await giver.state(handle.id) is State.PENDING
        waiting.cancel()


async def test_one_call_on_postgres_costs_at_most_seven_statements(postgres: PostgresServer) -> None:
    url = f"{postgres.url()}?schema=f{next(_numbers)}"
    async with fleet(lambda: url, 1) as (giver, workers):
        await listens(giver, *workers)
        for n in range(3):  # until both processes know each other
            await giver.call("work", {"x": n})
        calls, start, mark = 20, time.monotonic(), len(postgres.log)
        for n in range(calls):
            assert (await giver.call("work", {"x": n})).output == {"x": n}
        seconds, text = time.monotonic() - start, postgres.log[mark:]
    statements = re.findall(r"LOG:  (?:execute \S+?|statement): (.*)", text)
    kinds = Counter(
        re.sub(r".*(append|pg_notify|claim_waiting|news|tool_health).*", r"\1", each) for each in statements
    )
    looks = 2 * (seconds / 0.25 + 1)  # polls of the two processes, with or without calls
    assert 3 * calls <= kinds["append"] <= 3.2 * calls, "accept, claim and start, outcome"
    assert len(statements) - 3 * looks <= 7 * calls, kinds
    assert 2 * calls <= kinds["pg_notify"] <= 2.5 * calls + looks, "one for the offer, one for start and outcome"


@pytest.mark.parametrize("store", ["postgres", "redis"])
async def test_results_of_calls_that_ended_before_they_were_asked_for(
    store: str, postgres: PostgresServer, redis_store: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message triggers the read, not the next poll. A single message may be lost, as when a connection is made anew: then the poll finds
    the outcome, and another batch has to do without one."""
    polls = 0
    look_again = StoredCalls._look_again

    def counted(stored_calls: StoredCalls) -> None:
        nonlocal polls
        polls += bool(stored_calls.followers)
        look_again(stored_calls)

    monkeypatch.setattr("clicket.engine.records.stored_calls._TICK", 10.0)
    monkeypatch.setattr(StoredCalls, "_look_again", counted)
    number, calls = next(_numbers), 20
    url = f"{postgres.url()}?schema=f{number}" if store == "postgres" else f"{redis_store.url}?prefix=f{number}"
    async with fleet(lambda: url, 1) as (giver, workers), asyncio.timeout(PATIENCE):
        await listens(giver, *workers)
        while True:
            handles = [await giver.submit("work", {"x": n}) for n in range(calls)]

            async def have_ended() -> bool:
                return not (await giver.history(active=True)).items

            await eventually(have_ended)
            before = polls
            assert [(await handle.result()).output for handle in handles] == [{"x": n} for n in range(calls)]
            if polls == before:
                break


async def test_one_call_on_redis_costs_three_scripts_and_few_messages(redis_store: RedisServer) -> None:
    url = f"{redis_store.url}?prefix=f{next(_numbers)}"
    with redis.Redis(port=redis_store.port) as raw:
        async with fleet(lambda: url, 1) as (giver, workers):
            await listens(giver, *workers)
            for n in range(3):
                await giver.call("work", {"x": n})
            calls, start, before = 20, time.monotonic(), raw.info("commandstats")
            read = raw.info("stats")["total_reads_processed"]
            for n in range(calls):
                assert (await giver.call("work", {"x": n})).output == {"x": n}
            seconds, after = time.monotonic() - start, raw.info("commandstats")
            read = raw.info("stats")["total_reads_processed"] - read

    def count(name: str) -> int:
        return sum(
            stats.get(f"cmdstat_{name}", {}).get("calls", 0) * sign for stats, sign in ((after, 1), (before, -1))
        )

    looks = 2 * (seconds / 0.25 + 1)
    assert count("evalsha") - 3 * looks <= 3.2 * calls
    assert count("publish") <= 3.2 * calls + looks
    outside = ("cmdstat_evalsha", "cmdstat_ping")
    inside = sum(count(name.removeprefix("cmdstat_")) for name in after if name not in outside)
    assert inside - 10 * looks <= 47 * calls, "in the three scripts"
    assert read - 4 * looks <= 3.5 * calls, "offer and outcome go with the commits, not in commands of their own"


@pytest.mark.parametrize("store", ["postgres", "redis"])
async def test_calls_over_nats(
    store: str, nats: NatsServer, postgres: PostgresServer, redis_store: RedisServer
) -> None:
    number = next(_numbers)
    url = f"{postgres.url()}?schema=f{number}" if store == "postgres" else f"{redis_store.url}?prefix=f{number}"
    async with fleet(lambda: url, notices=nats.url) as (giver, workers):
        await listens(giver, *workers)
        await called(giver, 10)
        assert giver.store.bus.name == nats.url


async def test_calls_over_a_redis_that_is_only_the_bus(postgres: PostgresServer, redis_store: RedisServer) -> None:
    url = f"{postgres.url()}?schema=f{next(_numbers)}"
    async with fleet(lambda: url, notices=redis_store.url) as (giver, workers):
        await listens(giver, *workers)
        await called(giver, 10)


async def test_a_bus_that_is_killed_and_comes_back_empty(
    redis_store: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"{redis_store.url}?prefix=f{next(_numbers)}"
    with nats_server() as bus:
        async with fleet(lambda: url, notices=bus.url) as (giver, workers):
            await listens(giver, *workers)
            await called(giver, 5)
            during = asyncio.ensure_future(called(giver, 20))
            bus.kill()
            await during
            await eventually(lambda: giver.store.bus.trouble is not None)
            await called(giver, 5)
            warned = [r for r in caplog.records if r.name == "clicket.bus" and r.levelno == logging.WARNING]
            assert len(warned) == 3, "each process warns once"
            bus.start()
            await listens(giver, *workers)
            await called(giver, 5)


async def test_a_cut_between_a_worker_and_the_bus(redis_store: RedisServer, nats: NatsServer) -> None:
    url = f"{redis_store.url}?prefix=f{next(_numbers)}"
    async with (
        cutting_proxy(nats.port) as proxy,
        fleet(lambda: url, notices=f"nats://127.0.0.1:{proxy.port}") as (giver, workers),
    ):
        await listens(giver, *workers)
        during = asyncio.ensure_future(called(giver, 20))
        await proxy.drop_all()
        await during
        await listens(giver, *workers)
        await called(giver, 5)


async def test_a_bus_that_was_never_there(redis_store: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    url = f"{redis_store.url}?prefix=f{next(_numbers)}"
    async with fleet(lambda: url, notices="nats://user:pass@127.0.0.1:1") as (giver, _):
        await called(giver, 3)
        assert giver.store.bus.trouble is not None
    assert "pass" not in caplog.text


async def test_a_worker_with_more_work_than_room_gets_to_all_of_it(postgres: PostgresServer) -> None:
    url = f"{postgres.url()}?schema=f{next(_numbers)}"
    async with fleet(lambda: url, 2, max_concurrency=2) as (giver, workers):
        await listens(giver, *workers)
        await called(giver, 30)


async def test_a_call_that_another_process_ran_is_freed_without_the_garbage_collector(redis_store: RedisServer) -> None:
    url = f"{redis_store.url}?prefix=freed{next(_numbers)}"
    async with fleet(lambda: url, workers=1) as (giver, _):
        await eventually(lambda: giver.engine.store.bus.trouble is None)
        await giver.call("work", {"x": 0})
        gc.collect()
        gc.disable()
        try:
            for x in range(20):
                assert (await giver.call("work", {"x": x})).success
            left = [each for each in gc.get_objects() if type(each) is Call and each.failure is not None]
        finally:
            gc.enable()
        assert len(left) < 5, "a call is in no cycle with the reason why it does not run here"
