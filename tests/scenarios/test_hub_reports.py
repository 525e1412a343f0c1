"""Runs that clicket did not make, reported to the hub: they count for health, breaker and dependencies as calls do."""

from __future__ import annotations

import pytest
from tests.scenarios.kit import make
from tests.scenarios.server_kit import served

from clicket import tool
from clicket.client import Client
from clicket.errors import ToolNotFound, UsageError
from clicket.sync import Runtime as SyncRuntime


@tool(failure_threshold=2)
async def fetch() -> str:
    return "fetched"


@tool(depends_on=["fetch"])
async def read() -> str:
    return "read"


@tool(breaker="shared", failure_threshold=2)
async def pool() -> str:
    return "pooled"


ALL = [fetch, read, pool]


async def test_a_reported_run_counts_as_a_call(store: str) -> None:
    async with make(ALL, store) as rt:
        hub = rt.hub("t")
        assert "read" not in await hub.available()
        state = await hub.report("fetch", ok=True)
        assert (state.completions, state.status) == (1, "available")
        assert (await rt.call("read", thread="t")).success
        await hub.report("fetch", ok=False, error="no network, key sk-abcdefghijklmnop1234")
        state = await hub.report("fetch", ok=False, error="no network, key sk-abcdefghijklmnop1234")
        assert (state.status, state.failures, state.consecutive_failures) == ("failed", 2, 2)
        assert "no network" in state.reason
        assert "abcdefghijklmnop" not in state.reason
        refused = await rt.call("fetch", thread="t")
        assert refused.error is not None
        assert refused.error.code == "tool_unavailable"
        assert (await rt.call("fetch", thread="u")).success, "each thread has its own"
        await hub.report("fetch", ok=True)
        assert (await rt.call("fetch", thread="t")).success
        assert (await rt.history(tool="fetch", thread="t")).items[-1].error is not None, "reports are no calls"
        for _ in range(2):
            await hub.report("pool", ok=False, error="down")
        assert (await rt.hub("other").status("pool")).status == "failed", "its breaker is that of all callers"
        with pytest.raises(ToolNotFound):
            await hub.report("nothing", ok=True)
        with pytest.raises(UsageError):
            await hub.report("fetch", ok="yes")  # type: ignore[arg-type]


async def test_over_http() -> None:
    async with served(ALL) as it, Client(it.url) as client:
        state = await client.hub("t").report("fetch", ok=False, error="down")
        assert state.failures == 1
        assert (await it.post("/agents/t/tool-states/fetch/report", json={})).status_code == 422
        assert (await it.post("/agents/t/tool-states/nothing/report", json={"ok": True})).status_code == 404


def test_without_a_loop() -> None:
    with SyncRuntime(ALL, store="memory://") as rt:
        assert rt.hub("t").report("fetch", ok=True).completions == 1
