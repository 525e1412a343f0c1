"""Limits per tool, per thread and for the whole runtime; the queue before them is bounded, fair and has priorities."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import assert_loop_is_free, make

from clicket import QueueFull, State, ToolCall, tool


class Gauge:
    """How many run now, and the maximum so far."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


async def turns(n: int = 5) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def test_the_runtime_runs_at_most_its_limit_at_once(store: str) -> None:
    gauge, gate = Gauge(), asyncio.Event()

    @tool
    async def work(i: int) -> int:
        with gauge:
            await gate.wait()
            await turns()
        return i

    async with make([work], store, max_concurrency=7) as rt:
        handles = [await rt.submit("work", {"i": i}) for i in range(60)]
        await eventually(lambda: gauge.now == 7)
        gate.set()
        outputs = [(await h.result()).output for h in handles]
    assert outputs == list(range(60))
    assert gauge.most == 7


async def test_ten_is_the_default(store: str) -> None:
    gauge, gate = Gauge(), asyncio.Event()

    @tool
    async def work() -> None:
        with gauge:
            await gate.wait()

    async with make([work], store) as rt:
        handles = [await rt.submit("work") for _ in range(15)]
        await eventually(lambda: gauge.now == 10)
        assert [await rt.state(h.id) for h in handles].count(State.PENDING) == 5
        gate.set()
        assert all([(await h.result()).success for h in handles])
    assert gauge.most == 10


async def test_a_tools_own_limit_leaves_room_for_others(store: str) -> None:
    gauge, gate = Gauge(), asyncio.Event()

    @tool(max_concurrency=2)
    async def narrow() -> None:
        with gauge:
            await gate.wait()

    @tool
    async def wide() -> str:
        return "through"

    async with make([narrow, wide], store, max_concurrency=5) as rt:
        handles = [await rt.submit("narrow") for _ in range(8)]
        await eventually(lambda: gauge.now == 2)
        assert (await rt.call("wide")).output == "through"  # calls that wait for `narrow` do not block others
        gate.set()
        assert all([(await h.result()).success for h in handles])
    assert gauge.most == 2


async def test_a_threads_limit_leaves_room_for_other_threads(store: str) -> None:
    gauges = {"a": Gauge(), "b": Gauge()}
    gate = asyncio.Event()

    @tool
    async def work(thread: str) -> None:
        with gauges[thread]:
            await gate.wait()

    async with make([work], store, max_concurrency=10, max_thread_concurrency=2) as rt:
        handles = [await rt.submit("work", {"thread": "a"}, thread="a") for _ in range(6)]
        handles += [await rt.submit("work", {"thread": "b"}, thread="b") for _ in range(6)]
        await eventually(lambda: gauges["a"].now == gauges["b"].now == 2)
        gate.set()
        assert all([(await h.result()).success for h in handles])
    assert (gauges["a"].most, gauges["b"].most) == (2, 2)


async def test_sync_tools_pass_through_the_same_limits(store: str) -> None:
    gauge = Gauge()

    @tool
    def work() -> None:
        with gauge:
            time.sleep(0.005)

    async with make([work], store, max_concurrency=3, worker_threads=8) as rt:
        results = await rt.call_many([("work", {})] * 20, max_concurrency=20)
        assert all(r.success for r in results)
        assert gauge.most <= 3
    async with make([work], store, max_concurrency=20, worker_threads=2) as rt:
        gauge.most = 0
        assert all(r.success for r in await rt.call_many([("work", {})] * 20, max_concurrency=20))
        assert gauge.most <= 2


async def test_higher_priority_leaves_the_queue_first_and_equals_in_order(store: str) -> None:
    gate, order = asyncio.Event(), []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool
    async def work(name: str) -> None:
        order.append(name)

    @tool(max_concurrency=5)
    async def other(name: str) -> None:
        order.append(name)

    async with make([hold, work, other], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        handles = []
        for name, priority, which in [
            ("low", -1, "work"), ("a", 0, "work"), ("b", 0, "other"), ("high", 5, "work"), ("c", 0, "work"), ("top", 9, "other"),
        ]:  # fmt: skip
            handles.append(await rt.submit(which, {"name": name}, priority=priority))
        gate.set()
        for handle in [first, *handles]:
            assert (await handle.result()).success
    assert order == ["top", "high", "a", "b", "c", "low"]


async def test_a_full_queue_refuses_and_makes_no_call(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([hold], store, max_concurrency=1, max_queue=2) as rt:
        handles = [await rt.submit("hold", id=str(i)) for i in range(3)]
        for ask in (rt.submit, rt.call):
            with pytest.raises(QueueFull) as refused:
                await ask("hold", id="refused")
            assert refused.value.code == "queue_full"
        assert sorted(r.id for r in (await rt.history()).items) == ["0", "1", "2"]
        [refused_result] = await rt.call_many([ToolCall("hold", id="refused")])
        assert refused_result.error is not None
        assert refused_result.error.code == "queue_full"
        # A cancelled call frees its place in the queue.
        assert await rt.cancel("2")
        handles[2] = await rt.submit("hold", id="later")
        gate.set()
        for handle in handles:
            assert (await handle.result()).success
        assert (await rt.call("hold", id="refused")).success  # the id is still free


async def test_a_full_queue_does_not_refuse_what_needs_no_queue(store: str) -> None:
    gate = asyncio.Event()

    @tool(max_concurrency=1)
    async def hold() -> None:
        await gate.wait()

    @tool
    async def free() -> str:
        return "free"

    async with make([hold, free], store, max_queue=1) as rt:
        handles = [await rt.submit("hold") for _ in range(2)]
        assert (await rt.call("free")).output == "free"
        bad = await rt.call("free", {"unknown": 1})
        assert bad.error is not None
        assert bad.error.code == "invalid_input"
        gate.set()
        for handle in handles:
            await handle.result()


async def test_a_sync_tool_never_blocks_the_loop(store: str) -> None:
    @tool
    def sleepy() -> str:
        time.sleep(0.3)
        return "awake"

    async with make([sleepy], store) as rt:
        await assert_loop_is_free(lambda: rt.call("sleepy"))
        assert (await rt.call("sleepy")).output == "awake"


async def flood(rt: Any, count: int) -> None:
    handles = await asyncio.gather(*(rt.submit("work", {"i": i}) for i in range(count)))
    results = await asyncio.gather(*(h.result() for h in handles))
    assert [r.output for r in results] == list(range(count))


@pytest.mark.parametrize("count", [1_100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_flood_of_calls_all_end_and_leave_nothing(store: str, kind: str, count: int) -> None:
    gauge = Gauge()

    @tool(name="work")
    async def by_loop(i: int) -> int:
        with gauge:
            await asyncio.sleep(0)
        return i

    @tool(name="work")
    def by_thread(i: int) -> int:
        with gauge:
            return i

    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    async with make([by_loop if kind == "async" else by_thread], store, max_concurrency=100) as rt:
        await flood(rt, count)
        engine, now = rt.engine, rt.activity()
        assert rt.held_calls() == []
        assert (now.abandoned, now.queued) == (0, 0)
        assert not any(engine.limiter.used.values())
        await turns()
        assert len(asyncio.all_tasks()) - len(engine.tasks.running) <= tasks
        page = await rt.history(state=State.COMPLETED, limit=1_000)
        assert len(page.items) == 1_000
    assert gauge.most <= (100 if kind == "async" else 4)
    await eventually(lambda: threading.active_count() <= threads)
    assert len(asyncio.all_tasks()) <= tasks


async def test_cancelled_and_expired_calls_in_the_line_give_their_places_back(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool(max_concurrency=1)
    async def narrow() -> None:
        await gate.wait()

    async with make([hold, narrow], store, max_concurrency=2, max_queue=50) as rt:
        holders = [await rt.submit("hold"), await rt.submit("narrow")]
        for _ in range(3):
            line = [
                await rt.submit("hold" if i % 2 else "narrow", deadline=0.02 if i % 3 == 0 else None) for i in range(40)
            ]
            for i, handle in enumerate(line):
                if i % 3:
                    assert await handle.cancel()
                else:
                    assert (await handle.result()).state is State.TIMEOUT
        assert rt.activity().queued == 0
        gate.set()
        for handle in holders:
            assert (await handle.result()).success
        assert all(r.success for r in await rt.call_many([("hold", {}), ("narrow", {})] * 5))
        assert not any(rt.engine.limiter.used.values())
