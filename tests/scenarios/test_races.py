"""Of a race between complete, fail, time out and cancel, one wins; and every process reads the same outcome."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, types

from clicket import Runtime, State, ToolContext, tool
from clicket.errors import UsageError

CONTESTS = ["complete-cancel", "fail-cancel", "complete-timeout", "cancel-cancel", "cancel-timeout"]


class Barrier:
    """Holds the body of a call until the race starts."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()


async def let_go(barrier: Barrier, chance: random.Random, *, about: float) -> None:
    """Release the body after a seeded delay; `about` is when its timeout is due."""
    if about:
        await asyncio.sleep(about * chance.uniform(0.8, 1.2))
    for _ in range(chance.randrange(5)):
        await asyncio.sleep(0)
    barrier.open.set()


async def cancel(rt: Runtime, id: str, chance: random.Random) -> bool:
    for _ in range(chance.randrange(8)):
        await asyncio.sleep(0)
    return await rt.cancel(id)


@pytest.mark.parametrize("contest", CONTESTS)
async def test_of_all_that_race_one_wins(store: str, contest: str) -> None:
    """Both sides are released in one iteration of the loop, in an order and with delays that the seed decides."""
    barriers: dict[str, Barrier] = {}

    @tool(max_retries=0, failure_threshold=10_000)
    async def body(ctx: ToolContext, detours: int) -> str:
        barriers[ctx.call_id].reached.set()
        await barriers[ctx.call_id].open.wait()
        for _ in range(detours):
            await asyncio.sleep(0)
        if contest.startswith("fail"):
            raise ValueError("lost")
        return "won"

    limit = 0.01 if contest.endswith("timeout") else 0.0
    async with make([body], store, max_concurrency=1) as rt:
        for seed in range(150 if store == "memory://" else 60):
            chance, id = random.Random(seed), f"c{seed}"
            barrier = barriers[id] = Barrier()
            handle = await rt.submit("body", {"detours": chance.randrange(5)}, id=id, timeout=limit or 30)
            await barrier.reached.wait()
            rivals = [let_go(barrier, chance, about=limit)]
            rivals += [cancel(rt, id, chance) for _ in range(contest.count("cancel"))]
            if contest.startswith("cancel"):
                rivals.reverse()
            answers = await asyncio.gather(*rivals)
            result = await handle.result()
            record = await rt.get(id)
            assert_sound(record)
            assert record.state is result.state
            assert [e.is_terminal for e in record.events].count(True) == 1
            if True in answers and not limit:
                assert result.state is State.CANCELLED
        assert not any(rt.engine.limiter.used.values())  # no slot was lost or given twice


@pytest.mark.parametrize("seed", range(10))
async def test_thread_bodies_race_with_their_timeout(store: str, seed: int) -> None:
    chance = random.Random(seed)

    @tool(timeout=0.02, max_retries=0, failure_threshold=10_000)
    def body(wait: float) -> str:
        time.sleep(wait)
        return "won"

    async with make([body], store, max_concurrency=8, worker_threads=4) as rt:
        results = await rt.call_many(
            [("body", {"wait": chance.uniform(0.012, 0.028)}) for _ in range(12)], max_concurrency=4
        )
        records = [await rt.get(r.call_id) for r in results]
        for result, record in zip(results, records, strict=True):
            assert_sound(record)
            assert record.state is result.state
            assert result.state in (State.COMPLETED, State.TIMEOUT)
        await eventually(lambda: not any(rt.engine.limiter.used.values()))


async def test_a_second_cancel_waits_for_the_first(store: str) -> None:
    started = asyncio.Event()

    @tool
    async def slow_to_stop() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.03)

    async with make([slow_to_stop], store) as rt:
        handle = await rt.submit("slow_to_stop")
        await started.wait()
        assert await asyncio.gather(*(handle.cancel() for _ in range(3))) == [True, True, True]
        record = await rt.get(handle.id)
    assert types(record).count("cancel_requested") == 1
    assert_sound(record)


async def test_cancel_from_another_process_reaches_the_body(sqlite: str) -> None:
    """Two runtimes over one file stand for two processes: the second only writes a request."""
    started, stopped = asyncio.Event(), []

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], sqlite) as owner, make([endless], sqlite) as other:
        handle = await owner.submit("endless", id="e")
        await started.wait()
        assert await other.cancel("e", reason="from afar")
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        assert result.state is State.CANCELLED
        assert result.error is not None
        assert "from afar" in result.error.message
        assert stopped == [True]
        record = await other.get("e")
        assert_sound(record)
        assert (await (await other.handle("e")).result()) == result


async def test_cancel_needs_thread_only_when_two_threads_share_the_id(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([hold], store) as rt:
        one = await rt.submit("hold", id="same", thread="a")
        two = await rt.submit("hold", id="same", thread="b")
        for ask in (rt.cancel, rt.get, rt.state, rt.handle):
            with pytest.raises(UsageError, match="thread="):
                await ask("same")
        assert await rt.cancel("same", thread="b")
        assert (await two.result()).state is State.CANCELLED
        gate.set()
        assert (await one.result()).success
