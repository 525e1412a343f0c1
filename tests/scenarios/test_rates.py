"""A tool with a rate: calls beyond it wait, without blocking others, over all processes of a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.kit.waiting import eventually

from clicket import Runtime, State, ToolContext, system, tool
from clicket.ports import Query, TakenTokens
from clicket.testing import memory_runtime

STARTS: list[int] = []


@tool(rate="20/s")
async def metered(n: int, ctx: ToolContext) -> int:
    STARTS.append(n)
    return n


@tool(rate="1/h")
async def rare() -> str:
    return "done"


@tool(rate="1000/s burst 1", max_concurrency=2)
async def both(n: int) -> int:
    return n


@tool
async def free() -> str:
    return "free"


class Grants:
    """Tokens that a store granted: for each, a time before the store looked at its clock, and one after it."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def watch(self, rt: Runtime) -> None:
        take = rt.engine.store.take

        async def noted(name: str, rate: float, burst: int, count: int) -> TakenTokens:
            before = system.uptime()
            grant = await take(name, rate, burst, count)
            if grant.count and count:
                self.times.append((before, system.uptime()))
            return grant

        rt.engine.store.take = noted  # type: ignore[method-assign]

    def are_within(self, rate: float, burst: int) -> bool:
        """In no span of time there are more tokens than the burst plus the refill, however long anything waited to go on."""
        return all(
            sum(first <= before and after <= last for before, after in self.times)
            <= burst + rate * (last - first) + 1e-6
            for first, _ in self.times
            for _, last in self.times
            if first < last
        )


async def test_calls_over_the_rate_wait_and_say_so_and_others_do_not() -> None:
    async with memory_runtime([rare, free], max_concurrency=1) as rt:
        assert (await rt.call("rare")).output == "done"
        waiting = await rt.submit("rare")
        await eventually(lambda: waits_for_rate(rt, waiting.id))
        later = await rt.submit("rare")  # the process knows already that there is no token
        assert (await rt.get(later.id)).waiting_for == "rate"
        assert (await rt.get(waiting.id)).state is State.PENDING
        assert (await rt.call("free")).output == "free"
        assert {s.id for s in await rt.engine.store.history(Query(waiting_for="rate"))} == {waiting.id, later.id}
        assert await rt.cancel(waiting.id)
        assert (await waiting.result()).state is State.CANCELLED
        record = await rt.get(waiting.id)
        assert (record.waiting_for, record.attempts) == (None, [])


async def waits_for_rate(rt: Runtime, id: str) -> bool:
    return (await rt.get(id)).waiting_for == "rate"


async def test_a_deadline_ends_the_wait() -> None:
    async with memory_runtime([rare]) as rt:
        await rt.call("rare")
        result = await rt.call("rare", deadline=0.05)
        assert (result.state, result.error and result.error.code) == (State.TIMEOUT, "timeout")


async def test_a_limit_and_a_rate_hold_together() -> None:
    async with memory_runtime([both]) as rt:
        results = await asyncio.gather(*(rt.call("both", {"n": n}) for n in range(20)))
        assert [result.output for result in results] == list(range(20))


async def test_a_rate_holds_over_two_workers(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    STARTS.clear()
    grants = Grants()
    async with (
        Runtime([metered], store=store, engine="workers") as submitter,
        Runtime([metered], store=store) as one,
        Runtime([metered], store=store) as two,
    ):
        grants.watch(one)
        grants.watch(two)
        handles = [await submitter.submit("metered", {"n": n}) for n in range(14)]
        results = await asyncio.gather(*(handle.result() for handle in handles))
        direct = await asyncio.gather(*(rt.call("metered", {"n": 99}) for rt in (one, two)))
        assert [result.output for result in (*results, *direct)] == [*range(14), 99, 99]
    assert sorted(STARTS) == [*range(14), 99, 99]
    assert len(grants.times) == 16
    assert grants.are_within(20.0, 2)


async def test_a_worker_does_not_claim_calls_of_a_tool_whose_rate_is_used_up(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime([rare, free], store=store, engine="workers") as submitter:
        async with Runtime([rare, free], store=store) as worker:
            assert (await submitter.call("rare")).output == "done"
            waiting = await submitter.submit("rare")
            assert (await submitter.call("free")).output == "free"
            await worker.recover()
            assert [(each.queue, each.count) for each in await submitter.engine.store.backlog()] == [("rare", 1)]
        await submitter.cancel(waiting.id)
