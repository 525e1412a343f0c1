"""MCP over real sockets: a runtime behind uvicorn, clients of both protocol versions, and requests written by hand."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self

import httpx2
import tests.kit.servers  # noqa: F401  # servers that end at once
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Route
from tests.kit.waiting import PATIENCE, eventually

from clicket import Runtime
from clicket.mcp import McpEndpoint

MODERN, LEGACY = "2026-07-28", "legacy"
BOTH = (MODERN, LEGACY)
TASKS = "io.modelcontextprotocol/tasks"
_ids = count(1)


@asynccontextmanager
async def serving(
    runtime: Runtime, *, runtime_for: Callable[[Any], Runtime] | None = None, port: int = 0, **options: Any
) -> AsyncIterator[str]:
    """The runtime at a URL, until the block ends."""
    endpoint = McpEndpoint(runtime_for or (lambda scope: runtime), **options)
    async with endpoint.running(), listening(Starlette(routes=[Route("/mcp", endpoint=endpoint)]), port) as address:
        try:
            yield f"{address}/mcp"
        finally:
            endpoint.wind_down()  # as a server does when it stops


@asynccontextmanager
async def listening(app: Any, port: int = 0) -> AsyncIterator[str]:
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        task = asyncio.create_task(server.serve(sockets=[sock]))
        await eventually(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
            await _end_watchers()


async def _end_watchers() -> None:
    """The SSE library of the SDK's older transport leaves a watcher task in an event loop that outlives its server."""
    left = [each for each in asyncio.all_tasks() if getattr(each.get_coro(), "__name__", "") == "_shutdown_watcher"]
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@asynccontextmanager
async def connected(url: str, mode: str = MODERN, *, key: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """The SDK's own client."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


class Hand:
    """2026-07-28 requests, written by hand: those that the SDK's client cannot send."""

    def __init__(self, url: str, *, capabilities: dict[str, Any] | None = None, key: str | None = None) -> None:
        self.url = url
        self.capabilities = {"elicitation": {}, "extensions": {TASKS: {}}} if capabilities is None else capabilities
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.AsyncClient(timeout=PATIENCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer: `result` or `error`."""
        response = await self._http.post(self.url, **self._request(method, params))
        text = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def listen(self, seen: list[dict[str, Any]], **filters: Any) -> None:
        """Open a stream, and collect its notifications in a list."""
        request = self._request("subscriptions/listen", {"notifications": filters})
        async with self._http.stream("POST", self.url, **request) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    seen.append(json.loads(line.removeprefix("data:")))  # noqa: PERF401  # others look while it grows

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            **params.pop("meta", {}),
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            **self._headers,
        }
        name = params.get("name") or params.get("taskId")
        if name is not None:
            headers["mcp-name"] = name
        headers.update(params.pop("headers", {}))
        body = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": {**params, "_meta": meta}}
        return {"json": body, "headers": headers}

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.ask(method, **params)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def task(self, id: str, *statuses: str) -> dict[str, Any]:
        """The task, once it has one of these statuses."""

        async def look() -> dict[str, Any] | None:
            task = await self.result("tasks/get", taskId=id)
            return task if not statuses or task["status"] in statuses else None

        found: dict[str, Any] = await eventually(look)
        return found

    async def answer(self, id: str, **responses: Any) -> dict[str, Any]:
        return await self.result("tasks/update", taskId=id, inputResponses=responses)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}
