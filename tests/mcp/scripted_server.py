"""A 2026-07-28 server that answers whatever its test says, true or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.mcp.kit import MODERN, listening

from clicket.mcp import McpServer

Answer = Callable[[dict[str, Any]], Any]
CACHE = {"ttlMs": 0, "cacheScope": "private"}
DONE: dict[str, Any] = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def listed(*tools: dict[str, Any], cursor: str | None = None) -> dict[str, Any]:
    more = {} if cursor is None else {"nextCursor": cursor}
    return {"resultType": "complete", "tools": list(tools), **more, **CACHE}


def definition(name: str = "do", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def task(id: str, status: str, **more: Any) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    times = {"createdAt": at, "lastUpdatedAt": at, "ttlMs": 60_000, "pollIntervalMs": 50}
    return {"resultType": "complete", "taskId": id, "status": status, **times, **more}


def form(schema: Any, message: str = "Name?") -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


class ScriptedServer:
    """`on[METHOD]` takes the params, and returns a result. `asked` has all requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.on: dict[str, Answer] = {
            "server/discover": lambda params: {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                **CACHE,
            },
            "tools/list": lambda params: listed(definition()),
            "tools/call": lambda params: DONE,
        }

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)

    async def _answer(self, request: Request) -> JSONResponse:
        body = await request.json()
        self.asked.append((body["method"], body.get("params", {})))
        head = {"jsonrpc": "2.0", "id": body["id"]}
        answer = self.on.get(body["method"])
        if answer is None:
            return JSONResponse({**head, "error": {"code": -32601, "message": "Method not found"}})
        result = answer(body.get("params", {}))
        if isinstance(result, JSONResponse):
            return result
        return JSONResponse({**head, **(result if "error" in result else {"result": result})})

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[McpServer]:
        app = Starlette(routes=[Route("/mcp", self._answer, methods=["POST", "GET", "DELETE"])])
        async with listening(app) as address:
            server = McpServer("far", url=f"{address}/mcp", protocol=MODERN, **options)
            try:
                yield server
            finally:
                await server.close()
