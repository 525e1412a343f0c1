"""Figures agree with the journal however calls end: on every path, after restarts, and over many processes."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import breaks
from tests.kit.waiting import PATIENCE, eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.fleet import member, until_traced
from tests.scenarios.fleet_tools import POLICY, TOOLS
from tests.scenarios.kit import make
from tests.scenarios.test_telemetry_property import sums

from clicket import Policy, RetryableError, Runtime, ToolContext, tool
from clicket.errors import UsageError
from clicket.ports import Keep
from clicket.sync import Runtime as SyncRuntime
from clicket.telemetry import UNKNOWN, from_journal
from clicket.telemetry.journal_figures import of_journal

LEASE = 2.0


@tool
async def works(x: int = 0) -> int:
    return x


@tool(max_retries=2, retry_delay=0.001, failure_threshold=100)
async def flaky(ctx: ToolContext, times: int) -> int:
    if ctx.attempt <= times:
        raise RetryableError("not yet")
    return ctx.attempt


@tool
async def hangs() -> None:
    await asyncio.Event().wait()


@tool(cache=300)
async def cached(x: int) -> int:
    return x


@tool
async def odd() -> object:
    return object()


@tool
async def asked() -> int:
    return 1


TOOLBOX = [works, breaks, flaky, hangs, cached, odd, asked]


async def agree(rt: Runtime) -> None:
    """The store's sums equal those of its calls: page by page, from records, and for each caller."""
    store = rt.store
    stored = sums(await store.figures(None))
    assert stored == sums(await of_journal(store))
    items, cursor = [], None
    while True:
        page = await rt.history(limit=7, cursor=cursor)
        items += page.items
        if (cursor := page.cursor) is None:
            break
    assert stored == sums(from_journal(items))


async def every_way(rt: Runtime) -> None:
    """Every kind of outcome that one process can produce."""
    for x in range(3):
        await rt.call("works", {"x": x})
    await rt.call("works", {"x": "not a number"})
    await rt.call("workz", {})
    await rt.call("breaks")
    await rt.call("flaky", {"times": 1})
    await rt.call("flaky", {"times": 9})
    await rt.call("odd")
    for _ in range(3):
        await rt.call("cached", {"x": 1})
    await asyncio.gather(*(rt.call("cached", {"x": 2}) for _ in range(4)))
    await rt.call("hangs", timeout=0.01)
    await rt.call("hangs", deadline=0.01)
    handle = await rt.submit("hangs")
    await handle.cancel()
    await handle.result()
    denied, given, waits = [await rt.submit("asked") for _ in range(3)]
    await rt.deny(denied.id)
    await rt.approve(given.id)
    await waits.cancel()
    for each in (denied, given, waits):
        await each.result()
    await rt.submit("asked")  # still waits: a call that has not ended does not count


async def test_every_way_to_end_is_counted_as_the_journal_has_it(store: str) -> None:
    async with make(TOOLBOX, store, policy=Policy(ask=["asked"])) as rt:
        await every_way(rt)
        await agree(rt)
        report = await rt.report()
        found = {name: (t.total, t.success, t.failed, t.timeout, t.cancelled) for name, t in report.tools.items()}
        assert found == {
            UNKNOWN: (1, 0, 1, 0, 0),
            "asked": (3, 1, 1, 0, 1),
            "breaks": (1, 0, 1, 0, 0),
            "cached": (7, 7, 0, 0, 0),
            "flaky": (2, 1, 1, 0, 0),
            "hangs": (3, 0, 0, 2, 1),
            "odd": (1, 0, 1, 0, 0),
            "works": (4, 3, 1, 0, 0),
        }
        assert report.totals.total == 22
        assert report.tools["cached"].cached == 5
        assert report.tools["works"].errors == {"invalid_input": 1}
        assert report.tools["odd"].errors == {"result_unserializable": 1}
        assert report.tools[UNKNOWN].errors == {"tool_not_found": 1}
        assert report.tools["works"].error_types == {}  # its arguments were refused: the body raised nothing
        assert report.tools["breaks"].errors == {"tool_error": 1}
        assert report.tools["breaks"].error_types == {"ValueError": 1}


async def test_a_tool_that_makes_up_types_without_end_is_counted_in_bounds(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.engine.stages.persist._MAX_TYPES", 3)

    @tool(max_retries=0, failure_threshold=100)
    async def invents(number: int) -> None:
        raise type(f"Error{number}", (Exception,), {})

    async with make([invents], store) as rt:
        for number in (0, 1, 2, 3, 4, 1):
            await rt.call("invents", {"number": number})
        report = (await rt.report()).tools["invents"]
        assert report.errors == {"tool_error": 6}
        assert report.error_types == {"(other)": 2, "Error1": 2, "Error0": 1, "Error2": 1}


async def test_a_report_of_a_while_is_the_journals(store: str) -> None:
    async with make(TOOLBOX, store) as rt:
        await rt.call("works")
        await rt.call("workz")
        between = time.time()
        await rt.call("breaks")
        whole, late = await rt.report(), await rt.report(since=between)
        assert list(late.tools) == ["breaks"]
        assert late.since == between
        assert (await rt.report(since=0.0)).tools == whole.tools
        assert list((await rt.report("works")).tools) == list((await rt.report("works", since=0.0)).tools) == ["works"]
        assert list((await rt.report(UNKNOWN, since=0.0)).tools) == [UNKNOWN]
        assert (await rt.report("none such")).totals.total == 0
        with pytest.raises(UsageError, match="since"):
            await rt.report(since=float("nan"))


@pytest.mark.parametrize("count", [100, 250])
async def test_every_page_of_the_journal_is_read(count: int) -> None:
    async with make(TOOLBOX) as rt:
        await rt.call_many([("works", {"x": x}) for x in range(count)], max_concurrency=10)
        assert (await rt.report(since=0.0)).totals.success == count
        await agree(rt)


async def test_a_caller_sees_its_own_figures(store: str) -> None:
    async with make(TOOLBOX, store) as rt:
        a, b = rt.acting_for("a"), rt.acting_for("b")
        await a.call("works")
        await b.call("breaks")
        await rt.call("works")
        assert list((await a.report()).tools) == list((await a.report(since=0.0)).tools) == ["works"]
        assert (await a.report()).totals.total == (await b.report()).totals.total == 1
        assert (await rt.report()).totals.total == 3
        await agree(rt)


async def test_anomalies_come_from_real_calls(store: str) -> None:
    async with make(TOOLBOX, store) as rt:
        for _ in range(5):
            await rt.call("breaks")
            await rt.call("works")
            await rt.call("works", {"x": "not a number"})
            await rt.call("workz")
        (ill,) = await rt.anomalies()
        assert (ill.tool, ill.kind, ill.value, ill.runs) == ("breaks", "success_rate", 0.0, 5)
        assert await rt.anomalies("works") == []
        assert await rt.anomalies(since=time.time() + 60) == []


@tool(timeout=0.05, failure_threshold=100)
def will_not_stop(ctx: ToolContext) -> str:
    RELEASE.wait(PATIENCE)
    return "late"


RELEASE = threading.Event()


async def test_an_abandoned_thread_counts_once_however_late_it_comes_back(store: str) -> None:
    RELEASE.clear()
    async with make([will_not_stop], store) as rt:
        result = await rt.call("will_not_stop")
        assert result.metadata["abandoned"]
        await agree(rt)
        RELEASE.set()

        async def is_late() -> bool:
            return (await rt.get(result.call_id)).events[-1].type == "late_result"

        await eventually(is_late)
        await agree(rt)
        assert (await rt.report()).tools["will_not_stop"].timeout == 1


async def test_the_same_after_a_restart_and_after_retention(sqlite: str) -> None:
    async with make(TOOLBOX, sqlite, policy=Policy(ask=["asked"])) as rt:
        await every_way(rt)
        before = await rt.report()
    async with make(TOOLBOX, sqlite, policy=Policy(ask=["asked"])) as rt:
        assert await rt.report() == before
        await rt.call("works")
        await agree(rt)
        assert (await rt.report()).totals.total == before.totals.total + 1
    async with make(TOOLBOX, sqlite, policy=Policy(ask=["asked"]), retention=1e-6) as rt:
        while (await rt.store.sweep(Keep(since=time.time() + 1), 100)).calls:
            pass
        assert (await rt.report(since=0.0)).totals.total == 0
        assert (await rt.report()).totals.total == before.totals.total + 1


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_over_many_processes_crashes_and_handovers(kind: str, sqlite: str, tmp_path: Path) -> None:
    servers: dict[str, Any] = {"redis": lambda: redis_server(tmp_path), "postgres": postgres_server}
    with servers.get(kind, nullcontext)() as place:
        url = sqlite if place is None else place.url() if kind == "postgres" else place.url
        folder = {"folder": str(tmp_path)}
        async with make(TOOLS, url, policy=POLICY, engine="workers", lease=LEASE) as front:
            async with member(url, lease=LEASE) as doomed, member(url, lease=LEASE) as other:
                await asyncio.gather(
                    *(front.call("note", folder) for _ in range(10)),
                    doomed.do("call_many", "note", 10, folder),
                    other.do("call_many", "shared", 5, folder),
                )
                await doomed.do("submit", "slow", folder, id="unknown")
                await doomed.do("submit", "again", folder, id="again")
                await until_traced(tmp_path, 1, "slow")
                await until_traced(tmp_path, 1, "again")
                await doomed.kill()
                await other.do("recover")
                handles = [await front.handle(id) for id in ("unknown", "again")]
                ends = await asyncio.wait_for(asyncio.gather(*(handle.result() for handle in handles)), PATIENCE)
                assert [end.state.value for end in ends] == ["failed", "completed"]
                await other.leave()
            await agree(front)
            report = await front.report()
            assert report.tools["note"].success == 20
            assert report.tools["slow"].errors == {"outcome_unknown": 1}
            assert report.tools["again"].success == 1
            assert report.tools["shared"].success == 5


async def test_what_a_closing_runtime_stops_is_counted_when_it_ends(sqlite: str) -> None:
    async with make(TOOLBOX, sqlite) as rt:
        await rt.submit("hangs")
        await rt.close(patience=0)
    async with make(TOOLBOX, sqlite) as rt:
        assert (await rt.report()).tools["hangs"].errors == {"outcome_unknown": 1}
        await agree(rt)


def test_the_blocking_face_reports_too() -> None:
    with SyncRuntime([works, breaks], store="memory://") as rt:
        for _ in range(5):
            rt.call("works")
            rt.call("breaks")
        assert rt.report().tools["works"].success == 5
        assert rt.report("works", since=0.0).totals.total == 5
        assert [each.tool for each in rt.anomalies()] == ["breaks"]
