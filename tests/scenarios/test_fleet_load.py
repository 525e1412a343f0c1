"""A fleet under load: one caller's queue delays no other caller, a worker that is added takes work, a cancel reaches it."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import eventually
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.scenarios.fleet import member, until_traced
from tests.scenarios.fleet_tools import TOOLS
from tests.scenarios.kit import make

from clicket import Runtime, State, tool

_numbers = count(1)


@pytest.fixture(params=["postgres", "redis"])
def served(request: pytest.FixtureRequest, postgres: PostgresServer, redis: RedisServer) -> str:
    """A store on a server, new for each test."""
    name = f"l{next(_numbers)}"
    return f"{postgres.url()}?schema={name}" if request.param == "postgres" else f"{redis.url}?prefix={name}"


def work(begun: list[str], gate: asyncio.Event) -> Any:
    """A tool whose bodies say that they run, and wait."""

    @tool(name="work")
    async def body(who: str) -> None:
        begun.append(who)
        await gate.wait()

    return body


async def waiting_calls(rt: Runtime) -> int:
    return sum([queue.count for queue in await rt.store.backlog()])


async def a_thousand_waiting_calls_of_one_caller_do_not_delay_the_call_of_another(store: str) -> None:
    begun: list[str] = []
    gate = asyncio.Event()
    body = work(begun, gate)
    async with make([body], store, engine="workers", max_queue=2_000) as submitter:
        ann, bob = submitter.acting_for("ann"), submitter.acting_for("bob")
        await asyncio.gather(*(ann.submit("work", {"who": "ann"}) for _ in range(1_000)))
        handle = await bob.submit("work", {"who": "bob"})
        async with make([body], store, max_concurrency=3, close_timeout=0.1):
            await eventually(lambda: len(begun) == 3)
            assert sorted(begun) == ["ann", "ann", "bob"]
            gate.set()
            assert (await handle.result()).success


async def test_fair_shares_on_a_file(sqlite: str) -> None:
    await a_thousand_waiting_calls_of_one_caller_do_not_delay_the_call_of_another(sqlite)


@pytest.mark.slow
async def test_fair_shares_on_a_server(served: str) -> None:
    await a_thousand_waiting_calls_of_one_caller_do_not_delay_the_call_of_another(served)


async def a_worker_that_is_added_takes_work_while_the_queue_is_long(store: str) -> None:
    """How soon, `benchmarks/run.py --only reach` measures."""
    first: list[str] = []
    second: list[str] = []
    gate = asyncio.Event()
    async with (
        make([work([], gate)], store, engine="workers") as submitter,
        make([work(first, gate)], store, max_concurrency=2),
    ):
        handles = [await submitter.submit("work", {"who": "ann"}) for _ in range(40)]
        await eventually(lambda: len(first) == 2)
        async with make([work(second, gate)], store, max_concurrency=3):
            await eventually(lambda: len(second) == 3)
            assert len(first) == 2
            assert await waiting_calls(submitter) >= 30
            gate.set()
            results = await asyncio.gather(*(handle.result() for handle in handles))
    assert all(result.success for result in results)
    assert len(first) + len(second) == 40


async def test_a_worker_that_is_added_over_a_file(sqlite: str) -> None:
    await a_worker_that_is_added_takes_work_while_the_queue_is_long(sqlite)


@pytest.mark.slow
async def test_a_worker_that_is_added_over_a_server(served: str) -> None:
    await a_worker_that_is_added_takes_work_while_the_queue_is_long(served)


@pytest.mark.slow
async def test_a_cancel_from_any_service_ends_a_tool_with_its_own_process(served: str, tmp_path: Path) -> None:
    """On SQLite: test_many_processes.py."""
    async with (
        make(TOOLS, served, engine="workers") as submitter,
        make([], served) as third,
        member(served),
    ):
        handle = await submitter.submit("tree", {"folder": str(tmp_path)})
        (line,) = await until_traced(tmp_path, 1)
        assert await third.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        await eventually(lambda: not any(is_running(int(pid)) for pid in line[2:]))
