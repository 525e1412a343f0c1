"""Published bugs of durable runtimes and queues, as scenarios of calls. The table in `peers_bugs.py` says what each was."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field
from tests.crash.nest import Nest
from tests.kit.mortal_store import MortalStore
from tests.kit.waiting import PATIENCE, eventually, file_exists
from tests.redis_server import redis_server
from tests.scenarios.agent_kit import Gate
from tests.scenarios.kit import assert_sound, make, sqlite_url, types
from tests.scenarios.peers_bugs_child import (
    Effects,
    leaves_calls,
    sweeps_and_dies,
    tools_at,
    works,
)

from clicket import RetryableError, Runtime, State, StoreUnavailable, ToolContext, tool
from clicket.errors import Conflict, NotFound

LONG_AGO = -1e9


def reopened(folder: Path, **settings: Any) -> Runtime:
    return make(tools_at(folder), sqlite_url(folder), **settings)


async def result_of(rt: Runtime, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


# One id, one run -----------------------------------------------------------------------------------------------------


async def test_dbos_544_equal_ids_while_the_call_runs(sqlite: str) -> None:
    """Callers in one process, and in another one over the same store, send the same id before the first run has ended."""
    runs: list[int] = []
    gate = Gate()

    @tool(timeout=None)
    async def order() -> int:
        runs.append(1)
        await gate()
        return len(runs)

    async with make([order], sqlite) as rt, make([order], sqlite) as other:
        first = [asyncio.create_task(rt.call("order", id="o-1")) for _ in range(5)]
        await gate.reached.wait()
        second = [(await other.submit("order", id="o-1")).result()]
        gate.open()
        results = await asyncio.wait_for(asyncio.gather(*first, *second), PATIENCE)
        assert {(result.call_id, result.output) for result in results} == {("o-1", 1)}
        assert runs == [1]


async def test_dbos_541_two_workers_over_one_sqlite_file(tmp_path: Path, nest: Nest) -> None:
    """Two processes take calls from one queue; each call runs in one of them."""
    calls = 40
    child = asyncio.create_task(nest.raise_child(works, {"folder": str(tmp_path)}))
    await asyncio.wait_for(file_exists(tmp_path / "ready"), PATIENCE)
    async with reopened(tmp_path), make(tools_at(tmp_path), sqlite_url(tmp_path), engine="workers") as front:
        handles = [await front.submit("pay", {"n": n}) for n in range(calls)]
        results = await asyncio.wait_for(asyncio.gather(*(handle.result() for handle in handles)), PATIENCE)
        (tmp_path / "done").touch()
        workers = {(await front.get(handle.id)).attempts[0].worker for handle in handles}
    assert (await child).code == 0
    assert [result.output for result in results] == [f"paid {n}" for n in range(calls)]
    assert sorted(Effects(tmp_path).lines) == sorted(f"pay {n}" for n in range(calls))
    assert len(workers) <= 2


async def test_dbos_812_a_duplicate_execution_that_loses(tmp_path: Path) -> None:
    """A process lives on after it was taken for dead, and its execution ends second."""
    runs: list[int] = []
    gate = Gate()

    @tool(idempotent=True, timeout=None)
    async def work(ctx: ToolContext) -> str:
        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            await gate()
        return f"by attempt {ctx.attempt}"

    stores = [MortalStore(tmp_path / "calls.db") for _ in range(2)]
    async with Runtime([work], store=stores[0]) as slow, Runtime([work], store=stores[1]) as heir:
        caller = asyncio.create_task(slow.call("work", id="c"))
        await gate.reached.wait()
        await stores[0].expire(stores[1], LONG_AGO)
        assert (await heir.recover()).rerun == 1
        assert (await result_of(heir, "c")).output == "by attempt 2"
        gate.open()
        result = await asyncio.wait_for(caller, PATIENCE)  # the recorded result, no error of the store
        assert (result.state, result.output, runs) == (State.COMPLETED, "by attempt 2", [1, 2])
        await eventually(lambda: _has_late_result(heir, "c"))
        assert_sound(await heir.get("c"))


async def _has_late_result(rt: Runtime, id: str) -> bool:
    return "late_result" in types(await rt.get(id))


async def test_dbos_742_two_recoveries_of_one_dead_owner(tmp_path: Path, nest: Nest) -> None:
    """Both find the same calls of the dead process; each call has one new owner."""
    ending = await nest.raise_child(leaves_calls, {"folder": str(tmp_path), "tool": "put", "calls": 12})
    assert ending.signal == signal.SIGKILL
    async with AsyncExitStack() as stack:
        runtimes = [reopened(tmp_path) for _ in range(3)]
        await asyncio.gather(*(stack.enter_async_context(rt) for rt in runtimes))
        await asyncio.gather(*(rt.recover() for rt in runtimes))
        for n in range(12):
            assert (await result_of(runtimes[0], f"c{n}")).output == f"put {n}"
        records = [await runtimes[0].get(f"c{n}") for n in range(12)]
    runs = Counter(Effects(tmp_path).lines)
    assert runs == {"put 0": 2, **{f"put {n}": 1 for n in range(1, 12)}}  # c0 is the one that the process died in
    assert [len(record.attempts) for record in records] == [2, *[1] * 11]


# Recovery that ends --------------------------------------------------------------------------------------------------


async def test_dbos_716_the_store_goes_away_during_the_recovery(tmp_path: Path, nest: Nest) -> None:
    """Redis is killed when it has given a dead owner's calls to this process, before this process hears of it, and is started again."""
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        left = {"folder": str(tmp_path), "store": server.url, "tool": "put", "calls": 5}
        assert (await nest.raise_child(leaves_calls, left)).signal == signal.SIGKILL
        async with make([], server.url, lease=0.5) as rt:
            store: Any = rt.store
            claim = store.claim_orphans

            async def claim_without_an_answer(*given: Any) -> Any:
                store.claim_orphans = claim
                assert len(await claim(*given)) == 5
                server.kill()
                return await claim(*given)

            store.claim_orphans = claim_without_an_answer
            for each in tools_at(tmp_path):
                rt.add(each)
            with pytest.raises(StoreUnavailable):
                await rt.recover()
            server.start()
            assert [(await result_of(rt, f"c{n}")).output for n in range(5)] == [f"put {n}" for n in range(5)]
    assert sorted(Effects(tmp_path).lines) == ["put 0", *[f"put {n}" for n in range(5)]]


async def test_dbos_546_one_call_of_a_batch_cannot_be_dispatched(sqlite: str) -> None:
    """The worker that takes the batch knows a newer tool, which refuses the recorded arguments of one call."""

    @tool(name="ship")
    async def ship_before(item: str) -> str:
        return item

    @tool(name="ship")
    async def ship(item: Annotated[str, Field(max_length=3)]) -> str:
        return f"shipped {item}"

    async with make([ship_before], sqlite, engine="workers") as front:
        for id, item in (("a", "tea"), ("b", "a parcel"), ("c", "pen")):
            await front.submit("ship", {"item": item}, id=id)
    async with make([ship], sqlite) as rt:
        results = [await result_of(rt, id) for id in "abc"]
        assert [result.state for result in results] == [State.COMPLETED, State.FAILED, State.COMPLETED]
        assert results[1].error is not None
        assert results[1].error.code == "tool_unavailable"
        assert not (await rt.history(active=True)).items


async def test_dbos_805_a_queue_of_one_after_a_crash(tmp_path: Path, nest: Nest) -> None:
    """The process died with the only slot of the tool; the calls behind it get the slot."""
    ending = await nest.raise_child(leaves_calls, {"folder": str(tmp_path), "tool": "alone", "calls": 4})
    assert ending.signal == signal.SIGKILL
    async with reopened(tmp_path) as rt:
        assert [(await result_of(rt, f"c{n}")).output for n in range(4)] == [f"alone {n}" for n in range(4)]
        assert rt.activity().slots_used == 0
    assert sorted(Effects(tmp_path).lines) == ["alone 0", *[f"alone {n}" for n in range(4)]]


async def test_dbos_804_a_process_that_drains_claims_nothing_again(sqlite: str) -> None:
    """A rolling restart: the old process is still there, draining, when the new one takes its work over."""
    gate = Gate()

    def tools(name: str) -> list[Any]:
        @tool(idempotent=True, timeout=None)
        async def job(n: int) -> str:
            if n == 0 and name == "old":
                await gate()
            return name

        return [job]

    async with make(tools("old"), sqlite) as old, make([], sqlite, engine="workers") as front:
        front.add(tools("front")[0])
        running = await front.submit("job", {"n": 0})
        await gate.reached.wait()
        old.stop_claiming()
        handles = [await front.submit("job", {"n": n}) for n in range(1, 6)]
        async with make(tools("new"), sqlite) as new:
            await new.recover()
            results = await asyncio.wait_for(asyncio.gather(*(handle.result() for handle in handles)), PATIENCE)
            assert [result.output for result in results] == ["new"] * 5
            gate.open()
            assert (await asyncio.wait_for(running.result(), PATIENCE)).output == "old"  # no second run of it
            assert not (await new.history(active=True)).items


# Ids that come again, and streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 3])
async def test_dbos_769_an_id_that_comes_again_after_its_call_was_removed(tmp_path: Path, nest: Nest, at: int) -> None:
    """The process is killed while it removes the old call; the new call with the same id runs, and finds no checkpoint of the old one."""

    @tool(idempotent=True)
    async def order(item: str, ctx: ToolContext) -> str:
        before = await ctx.checkpoints()
        await ctx.checkpoint("step", item.encode())
        await ctx.checkpoint("big", item.encode() * 5_000)
        return f"{item}, found {sorted(before)}"

    def shop(**settings: Any) -> Runtime:
        return make([order], sqlite_url(tmp_path), **settings)

    async with shop() as rt:
        for id, item in (("order-7", "tea"), ("order-8", "milk")):
            assert (await rt.call("order", {"item": item}, id=id)).output == f"{item}, found []"
    ending = await nest.raise_child(sweeps_and_dies, {"folder": str(tmp_path), "at": at})
    assert ending.signal == signal.SIGKILL
    async with shop(retention_calls=1, outcome_retention=0) as rt:
        assert len((await rt.get("order-7")).events) > 1  # the removal is one transaction: the kill undid all of it
        await rt.sweep()
        with pytest.raises(NotFound):
            await rt.get("order-7")
        assert (await rt.call("order", {"item": "rice"}, id="order-7")).output == "rice, found []"
    async with shop(retention_calls=1) as rt:  # by default the outcome stays, and belongs to the same request only
        await rt.call("order", {"item": "salt"}, id="order-9")
        await rt.sweep()
        assert (await rt.call("order", {"item": "rice"}, id="order-7")).output == "rice, found []"
        with pytest.raises(Conflict):
            await rt.call("order", {"item": "figs"}, id="order-7")


async def test_dbos_770_values_that_an_attempt_streamed_before_it_failed(sqlite: str) -> None:
    """The result has each value once. A reader of the events sees both attempts, and where the second begins."""

    @tool(retry_delay=0.0)
    async def count(ctx: ToolContext) -> Any:
        yield "a"
        yield "b"
        if ctx.attempt == 1:
            raise RetryableError("the connection broke")
        yield "c"

    async with make([count], sqlite) as rt:
        handle = await rt.submit("count")
        assert (await handle.result()).output == "abc"
        pieces: list[tuple[int, str]] = []
        async for event in handle.events():
            if event.type == "attempt_started":
                pieces.clear()  # what a reader does with the pieces of an attempt that failed
            elif event.type == "output":
                pieces.append((event.data["offset"], event.data["content"]))
        assert pieces == [(0, "a"), (1, "b"), (2, "c")]


async def test_vercel_1012_a_call_with_more_events_than_a_page(sqlite: str) -> None:
    """Another process reads all of them, in order."""

    @tool(timeout=None)
    async def long(ctx: ToolContext) -> Any:
        for n in range(900):
            ctx.note(f"step {n}")
            yield "."

    async with make([long], sqlite) as rt, make([], sqlite) as other:
        handle = await rt.submit("long")
        assert (await handle.result()).output == "." * 900
        seen = [event async for event in (await other.handle(handle.id)).events()]
        assert len([event for event in seen if event.type in ("note", "output")]) == 1_800
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
