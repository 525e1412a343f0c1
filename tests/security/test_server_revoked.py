"""Streams end when their key is revoked or expires, in this or another process, also while they are idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.mcp.kit import _end_watchers
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import TOOLS, Api, Sse, key_for, read_sse, served

from clicket import ToolContext, tool
from clicket.client import Client
from clicket.errors import PermissionDenied, StoreUnavailable
from clicket.server import keys

MODERN = {"mcp-protocol-version": "2026-07-28", "accept": "application/json, text/event-stream"}
LEGACY = {"mcp-protocol-version": "2025-11-25", "accept": "application/json, text/event-stream"}


@tool(timeout=None)
async def forever(ctx: ToolContext) -> None:
    """Emits one piece, and waits."""
    ctx.emit("here")
    await asyncio.Event().wait()


@asynccontextmanager
async def two_servers(folder: Path) -> AsyncIterator[tuple[Api, Api]]:
    """Over one store: a key is revoked in one, and streams are read in the other."""
    store = sqlite_url(folder)
    tools = [*TOOLS, forever]
    async with served(tools, store, close_timeout=0.2) as one, served(tools, store, close_timeout=0.2) as two:
        yield one, two


async def revoke(it: Api, headers: dict[str, str]) -> None:
    assert (await keys.revoke(it.runtime.store, headers["authorization"].split("_")[1], now=time.time()))[1]


class Reader:
    """The events of a stream, and whether it ended."""

    def __init__(self, it: Api, method: str, path: str, headers: dict[str, str], **more: Any) -> None:
        self.events: list[Sse] = []
        self.status = 0
        self._task = asyncio.create_task(self._read(it, method, path, headers, more))

    async def _read(self, it: Api, method: str, path: str, headers: dict[str, str], more: dict[str, Any]) -> None:
        async with it.stream(method, path, headers=headers, timeout=PATIENCE, **more) as response:
            self.status = response.status_code
            async for event in read_sse(response):
                self.events.append(event)  # tests read it while it grows

    async def __aenter__(self) -> Self:
        await eventually(lambda: self.status or self._task.done())
        assert self.status == 200, self.status
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def end(self) -> None:
        await eventually(lambda: self.is_over)


async def test_all_streams_of_a_revoked_key_end_and_no_others(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (one, two), AsyncExitStack() as stack:
        bad, good = await key_for(one, "bad", "read", "call"), await key_for(one, "good", "read", "call")
        made = {}
        for name, headers in (("bad", bad), ("good", good)):
            made[name] = (await two.post("/calls", json={"tool": "forever", "id": name}, headers=headers)).json()

        async def open(headers: dict[str, str], path: str) -> Reader:
            return await stack.enter_async_context(Reader(two, "GET", path, headers))

        ending = [await open(bad, "/events"), await open(bad, "/events"), await open(bad, "/calls/bad/events")]
        staying = [await open(good, "/events"), await open(good, "/calls/good/events")]
        await revoke(one, bad)
        for reader in ending:
            await reader.end()
            assert reader.events[-1]["event"] == "error"
            assert reader.events[-1]["data"]["code"] == "unauthorized"
        assert not any(reader.is_over for reader in staying)
        await two.call("add", {"a": 1, "b": 1}, headers=good)
        await eventually(lambda: any(event["data"].get("state") == "completed" for event in staying[0].events))
        assert (await two.get("/events", headers=bad)).status_code == 401
        assert len(two.parts.revocation.streams) == 1, "the server forgets ended streams"


async def test_a_busy_stream_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    """Events arrive more often than the server checks the key."""
    async with served(store=sqlite_url(tmp_path)) as it:
        admin, other = await key_for(it, "root", "admin"), await key_for(it, "other", "call")
        async with Reader(it, "GET", "/events", admin) as reader:
            await revoke(it, admin)
            calls = 0
            until = time.monotonic() + PATIENCE
            while not reader.is_over:
                assert time.monotonic() < until, "the stream does not end"
                await it.call("add", {"a": calls, "b": 1}, headers=other)
                calls += 1
            received = len(reader.events)
            await it.call("add", {"a": -1, "b": 1}, headers=other)
            assert len(reader.events) == received
            assert reader.events[-1]["event"] == "error"


async def test_a_key_whose_time_is_over_and_the_first_key_of_all() -> None:
    async with served() as it, Reader(it, "GET", "/events", {}) as anonymous:
        now = time.time()
        _, text = await keys.create(it.runtime.store, name="short", scopes=["read"], now=now, expires_at=now + 1.0)
        async with Reader(it, "GET", "/events", {"x-api-key": text}) as brief:
            await brief.end()
            assert time.time() >= now + 1.0
            await anonymous.end()  # keys are required now


async def test_an_unreachable_store_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as it:
        headers = await key_for(it, "a", "read", "call")
        async with Reader(it, "GET", "/events", headers) as reader:
            asked = 0

            async def authenticate(*_: Any, **__: Any) -> Any:
                nonlocal asked
                asked += 1
                raise StoreUnavailable("down") if asked < 3 else RuntimeError("a bug")

            with monkeypatch.context() as patched:
                patched.setattr(it.parts.authenticator, "authenticate", authenticate)
                await eventually(lambda: asked > 3)
            assert not reader.is_over
            await it.call("add", {"a": 1, "b": 1}, headers=headers)
            await eventually(lambda: reader.events)
            await revoke(it, headers)
            await reader.end()


async def test_mcp_streams_of_both_protocols_end(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (one, two), AsyncExitStack() as stack:
        stack.push_async_callback(_end_watchers)
        bad, good = await key_for(one, "bad", "call"), await key_for(one, "good", "call")

        async def listen(key: dict[str, str]) -> Reader:
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            headers = {**MODERN, **key, "mcp-method": "subscriptions/listen"}
            return await stack.enter_async_context(Reader(two, "POST", "/mcp", headers, json=body))

        async def session(key: dict[str, str]) -> Reader:
            start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
            opened = await two.post("/mcp", json=body, headers={**LEGACY, **key})
            named = {**LEGACY, **key, "mcp-session-id": opened.headers["mcp-session-id"]}
            await two.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=named)
            return await stack.enter_async_context(Reader(two, "GET", "/mcp", named))

        ending, staying = [await listen(bad), await session(bad)], [await listen(good), await session(good)]
        await eventually(lambda: ending[0].events and staying[0].events)
        await revoke(one, bad)
        for reader in ending:
            await reader.end()
        assert not any(reader.is_over for reader in staying)
        assert (await two.post("/mcp", json={}, headers={**MODERN, **bad})).status_code == 401


async def test_a_client_whose_key_is_revoked_gets_that_error() -> None:
    async with served([*TOOLS, forever], close_timeout=0.2) as it:
        headers = await key_for(it, "a", "read", "call")
        async with Client(it.url, key=headers["authorization"].removeprefix("Bearer ")) as client:
            handle = await client.submit("forever")
            seen: list[str] = []

            async def follow() -> None:
                async for event in handle.events():
                    seen.append(event.type)  # noqa: PERF401  # others look while it grows

            following = asyncio.create_task(follow())
            await eventually(lambda: "output" in seen)
            await revoke(it, headers)
            with pytest.raises(PermissionDenied, match="revoked"):
                async with asyncio.timeout(2 * PATIENCE):
                    await following
