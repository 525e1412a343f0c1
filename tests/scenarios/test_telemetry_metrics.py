"""`/metrics` of a running runtime: figures of the journal, stats of the process, and whether the store answers."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.tools import breaks
from tests.kit.waiting import eventually
from tests.scenarios.kit import make
from tests.unit.telemetry.test_prometheus import promtool, samples

from clicket import Policy, Runtime, StoreUnavailable, tool
from clicket.telemetry import process_stats
from clicket.telemetry.prometheus import scrape


@tool
async def works() -> int:
    return 1


@tool
async def waits() -> None:
    await asyncio.Event().wait()


@tool(cache=300)
async def cached() -> int:
    return 1


@tool
async def asked() -> int:
    return 1


TOOLS = [works, breaks, waits, cached, asked]


async def counted(rt: Runtime) -> dict[tuple[str, ...], float]:
    """Ended calls by state and tool on the page, without zeros."""
    page, _ = await scrape(rt)
    promtool(page)
    return {key: count for key, count in samples(page, "clicket_tool_executions_total").items() if count}


async def in_journal(rt: Runtime) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for record in (await rt.history(limit=1_000)).items:
        if record.state.is_terminal:
            name = record.tool if record.tool_version else "(unknown)"
            found[record.state.value, name] = found.get((record.state.value, name), 0) + 1
    return found


async def test_counts_are_the_journals_also_after_a_restart(sqlite: str) -> None:
    for _ in range(2):
        async with make(TOOLS, sqlite) as rt:
            for _ in range(3):
                await rt.call("works")
                await rt.call("breaks")
                await rt.call("cached")
            await rt.call("nothing")
            await rt.call("waits", timeout=0.01)
            assert await counted(rt) == await in_journal(rt)
            assert sum((await counted(rt)).values()) in (11, 22)
            page, _ = await scrape(rt)
            hits, misses = (samples(page, f"clicket_cache_{kind}_total")[()] for kind in ("hits", "misses"))
            assert (hits, misses) in ((2, 1), (5, 1))


async def test_the_moment_is_seen(store: str) -> None:
    async with make(TOOLS, store, policy=Policy(ask=["asked"]), max_concurrency=2) as rt:
        for id in ("a", "b", "c"):
            await rt.submit("waits", id=id)
        await rt.submit("asked", id="d")

        async def running() -> bool:
            page, _ = await scrape(rt)
            return samples(page, "clicket_calls_active")[("running",)] == 2

        await eventually(running)
        page, _ = await scrape(rt)
        promtool(page)
        active = samples(page, "clicket_calls_active")
        assert (active[("running",)], active[("pending",)], active[("streaming",)]) == (2, 2, 0)
        assert samples(page, "clicket_calls_waiting_for_approval")[()] == 1
        assert (samples(page, "clicket_queue_depth")[()], samples(page, "clicket_queue_limit")[()]) == (1, 50_000)
        assert (samples(page, "clicket_slots_used")[()], samples(page, "clicket_slots_limit")[()]) == (2, 2)
        assert samples(page, "clicket_store_up")[()] == 1
        assert samples(page, "clicket_store_latency_seconds")[()] > 0
        for id in ("a", "b", "c", "d"):
            await rt.cancel(id)
            await (await rt.handle(id)).result()
        page, _ = await scrape(rt)
        assert sum(samples(page, "clicket_calls_active").values()) == samples(page, "clicket_slots_used")[()] == 0


async def test_a_caller_gets_its_own_counters_and_nothing_of_the_process() -> None:
    async with make(TOOLS) as rt:
        await rt.acting_for("a").call("works")
        await rt.acting_for("b").call("breaks")
        assert await counted(rt.acting_for("a")) == {("completed", "works"): 1}
        page, _ = await scrape(rt.acting_for("a"))
        assert b"breaks" not in page
        assert b"clicket_slots" not in page


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
async def test_a_store_that_does_not_answer_is_reported_and_nothing_hangs(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_stats, "_STORE_TIMEOUT", 0.05)
    async with make(TOOLS) as rt:

        async def figures(caller: str | None = None) -> list[object]:
            if trouble == "hangs":
                await asyncio.Event().wait()
            raise StoreUnavailable("gone")

        monkeypatch.setattr(rt.store, "figures", figures)
        page, _ = await scrape(rt)
        promtool(page)
        assert samples(page, "clicket_store_up")[()] == 0
        assert samples(page, "clicket_slots_limit")[()] == 10
