"""Two runtimes over one store share one hub: an outcome in one changes the availability in the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime, State, tool
from clicket.hub import Change
from clicket.kernel import ToolStatus


@pytest.fixture(scope="module", autouse=True)  # before the first check for leaked resources
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("servers")
    with redis_server(folder, "--appendonly", "yes") as redis, postgres_server() as postgres:
        yield {"redis": redis.url, "postgres": postgres.url()}


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return str(request.getfixturevalue("remote")[request.param])


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    """A new thread: tests share the servers."""
    return str(request.node.name)


RUNS: list[str] = []


@tool
async def base() -> str:
    return "base"


@tool(depends_on={"sequence": ["base", "flaky"]})
async def last() -> str:
    return "last"


def tools(cooldown: float, gate: asyncio.Event | None = None) -> list[Any]:
    @tool(max_retries=0, cooldown=cooldown)
    async def flaky(ok: bool = False) -> str:
        RUNS.append("flaky")
        if gate is not None:
            await gate.wait()
        if ok:
            return "fine"
        raise ValueError("boom")

    return [base, flaky, last]


TOOLS = tools(0.2)


async def fail(rt: Runtime, thread: str) -> str:
    result = await rt.call("flaky", thread=thread)
    assert result.error is not None
    return result.error.code


async def test_dependencies_and_failures_count_together(place: str, thread: str) -> None:
    given = tools(cooldown=3600)
    async with make(given, place) as one, make(given, place) as two:
        assert (await two.call("last", thread=thread)).error is not None
        await one.call("base", thread=thread)
        await two.call("flaky", {"ok": True}, thread=thread)
        assert (await one.call("last", thread=thread)).success
        assert [await fail(rt, thread) for rt in (one, two, one)] == ["tool_error"] * 3
        assert await fail(two, thread) == await fail(one, thread) == "tool_unavailable"
        for rt in (one, two):
            state = await rt.hub(thread).status("flaky")
            assert (state.status, state.consecutive_failures, state.completions) == (ToolStatus.FAILED, 3, 1)
        await two.hub(thread).reset("flaky")
        assert await fail(one, thread) == "tool_error"


async def test_a_hand_on_one_is_a_hand_on_both(place: str, thread: str) -> None:
    async with make(TOOLS, place) as one, make(TOOLS, place) as two:
        await two.call("base", thread=thread)  # its health is known there
        seen: list[Change] = []

        async def watch() -> None:
            async for change in two.hub(thread).watch():
                seen.append(change)  # noqa: PERF401  # as they come

        watching = asyncio.create_task(watch())
        await eventually(lambda: bool(two.engine.hub.watchers))
        await two.hub(thread).set("flaky", "maintenance")
        await eventually(lambda: len(seen) == 1)  # now it has read where it begins: what follows is a change
        await one.hub(thread).set("base", "maintenance", "moving")
        await eventually(lambda: len(seen) == 2)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert (seen[1].tool, str(seen[1].before), str(seen[1].after)) == ("base", "available", "maintenance")

        async def refused() -> bool:
            return (await two.call("base", thread=thread)).error is not None

        await eventually(refused)


async def test_one_trial_among_both(place: str, thread: str) -> None:
    gate = asyncio.Event()
    gate.set()
    given = tools(0.2, gate)
    async with make(given, place) as one, make(given, place) as two:
        for _ in range(3):
            await fail(one, thread)

        async def rested() -> bool:
            return (await one.hub(thread).status("flaky")).should_rebind

        await eventually(rested)
        before = len(RUNS)
        gate.clear()
        calls = [
            asyncio.create_task(rt.call("flaky", {"ok": False}, thread=thread)) for rt in (one, two) for _ in range(5)
        ]
        await eventually(
            lambda: sum(call.done() for call in calls) == 9
        )  # the trial runs, and a new cooldown has not begun
        gate.set()
        codes = sorted(str(result.error and result.error.code) for result in await asyncio.gather(*calls))
        assert codes == ["tool_error"] + ["tool_unavailable"] * 9
        assert len(RUNS) == before + 1


async def test_sqlite_is_never_behind(tmp_path: Path) -> None:
    """A file is read synchronously, so a status set in one process applies to the next call in another."""
    place = sqlite_url(tmp_path)
    async with make(TOOLS, place) as one, make(TOOLS, place) as two:
        for number in range(20):
            assert (await two.call("base", thread="t")).success, number
            await one.hub("t").set("base", "maintenance", "moving")
            assert not (await two.call("base", thread="t")).success, number
            await one.hub("t").reset("base")


async def test_a_trial_that_is_handed_to_workers_is_the_only_one_until_it_has_ended(tmp_path: Path) -> None:
    place, gate = sqlite_url(tmp_path), asyncio.Event()

    @tool(max_retries=0, cooldown=0.2, name="flaky")
    async def slowly(ok: bool = False) -> str:
        RUNS.append("slowly")
        await gate.wait()
        return "fine"

    async with make(TOOLS, place, engine="workers") as front:
        async with make(TOOLS, place) as worker:
            for _ in range(3):
                await fail(worker, "t")

        async def rested() -> bool:
            return (await front.hub("t").status("flaky")).should_rebind

        await eventually(rested)
        handles = [await front.submit("flaky", {"ok": True}, thread="t") for _ in range(5)]
        async with make([base, slowly, last], place) as worker:
            refused = [handle for handle in handles if (await front.get(handle.id)).state is State.FAILED]
            assert len(refused) == 4
            gate.set()
            left = next(handle for handle in handles if handle not in refused)
            assert (await left.result()).success
        assert (await front.hub("t").status("flaky")).status is ToolStatus.AVAILABLE
