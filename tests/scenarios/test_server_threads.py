"""Seed 001's scenarios over HTTP: a chain of tools, a failing tool and its reset, monitoring; across a restart and two servers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import postgres_server
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, served
from tests.scenarios.server_tools import SEED

THREAD = "thread_123"
STATES = f"/agents/{THREAD}/tool-states"
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Turns:
    """`await turns.next()` is the server for the next turn of the conversation."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        self.stack = AsyncExitStack()
        self.servers: list[Api] = []

    async def next(self) -> Api:
        if self.kind == "restart":  # each turn has a new server; the previous one is closed
            await self.stack.aclose()
            self.stack = AsyncExitStack()
            return await self.stack.enter_async_context(served(SEED, self.url))
        wanted = 2 if self.kind == "two servers" else 1
        while len(self.servers) < wanted:
            self.servers.append(await self.stack.enter_async_context(served(SEED, self.url)))
        self.servers.append(self.servers.pop(0))
        return self.servers[0]


@pytest.fixture(params=["memory", "sqlite", "restart", "two servers"])
async def turns(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Turns]:
    kind = request.param
    with ExitStack() as stack:
        url = "memory://" if kind == "memory" else sqlite_url(tmp_path)
        if kind == "two servers":
            url = stack.enter_context(postgres_server()).url()
        made = Turns(kind, url)
        try:
            yield made
        finally:
            await made.stack.aclose()


async def states(it: Api) -> dict[str, Any]:
    answer = await it.get(STATES)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"success", "data"}
    assert body["success"] is True
    data = body["data"]
    assert set(data) == {"agentId", "toolStates", "timestamp"}
    assert data["agentId"] == THREAD
    assert ISO.fullmatch(data["timestamp"])
    assert set(data["toolStates"]) == {tool.name for tool in SEED}
    for state in data["toolStates"].values():
        assert set(state) == {"status", "reason", "lastUpdated"}
        assert ISO.fullmatch(state["lastUpdated"])
        assert state["reason"]
    found: dict[str, Any] = data["toolStates"]
    return found


async def test_dependency_chain(turns: Turns) -> None:
    it = await turns.next()
    early = (await it.call("dependent_tool", {"data": "x"}, thread=THREAD)).json()
    assert early["error"]["code"] == "tool_unavailable"
    assert "base_tool" in early["error"]["message"]
    it = await turns.next()
    assert (await it.call("base_tool", {"data": "x"}, thread=THREAD)).json()["output"] == "base(x)"
    it = await turns.next()
    assert (await it.call("dependent_tool", {"data": "x"}, thread=THREAD)).json()["output"] == "dependent(x)"
    other = (await it.call("dependent_tool", {"data": "x"}, thread="another")).json()
    assert other["error"]["code"] == "tool_unavailable"


async def test_failing_tool_and_its_reset(turns: Turns, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    for _ in range(2):
        it = await turns.next()
        failed = (await it.call("failing_tool", {"broken": str(broken)}, thread=THREAD)).json()
        assert failed["error"]["code"] == "tool_error"
    it = await turns.next()
    assert (await states(it))["failing_tool"]["status"] == "failed"
    broken.unlink()
    refused = (await it.call("failing_tool", {"broken": str(broken)}, thread=THREAD)).json()
    assert refused["error"]["code"] == "tool_unavailable"
    it = await turns.next()
    reset = await it.post(f"{STATES}/reset", json={"toolName": "failing_tool"})
    assert reset.status_code == 200
    assert reset.json()["data"]["toolStates"]["failing_tool"]["status"] == "available"
    it = await turns.next()
    assert (await it.call("failing_tool", {"broken": str(broken)}, thread=THREAD)).json()["output"] == "fine"
    assert (await states(it))["failing_tool"]["status"] == "available"


async def test_monitoring(turns: Turns) -> None:
    it = await turns.next()
    assert {state["status"] for state in (await states(it)).values()} == {"available"}
    put = await it.put(f"{STATES}/base_tool", json={"status": "maintenance", "reason": "new disks"})
    assert put.status_code == 200
    it = await turns.next()
    assert (await states(it))["base_tool"] | {"lastUpdated": ""} == {
        "status": "maintenance",
        "reason": "new disks",
        "lastUpdated": "",
    }
    refused = (await it.call("base_tool", thread=THREAD)).json()
    assert refused["error"]["code"] == "tool_unavailable"
    assert "new disks" in refused["error"]["message"]
    it = await turns.next()
    assert (await it.post(f"{STATES}/reset", json={})).status_code == 200  # all of them
    assert (await states(it))["base_tool"]["status"] == "available"
    assert (await it.call("base_tool", thread=THREAD)).json()["success"] is True


async def test_what_cannot_be_set() -> None:
    async with served(SEED) as it:
        assert (await it.post(f"{STATES}/reset", json={"toolName": "base_tol"})).status_code == 404
        assert (await it.put(f"{STATES}/nobody", json={"status": "maintenance"})).status_code == 404
        assert (await it.put(f"{STATES}/base_tool", json={"status": "broken"})).status_code == 422
        assert (await it.put(f"{STATES}/base_tool", json={})).status_code == 422
        assert (await it.post(f"{STATES}/reset", json={"tool": "base_tool"})).status_code == 422
        assert (await it.post(f"{STATES}/reset")).status_code == 200
        assert (await it.get("/agents/never%2Fseen/tool-states")).json()["data"]["agentId"] == "never/seen"
        # The table has no edge from unavailable to failed.
        await it.put(f"{STATES}/base_tool", json={"status": "unavailable"})
        refused = await it.put(f"{STATES}/base_tool", json={"status": "failed"})
        assert refused.status_code == 409
        assert refused.json()["code"] == "invalid_transition"
