"""A small server for tests: `python serve.py PORT STORE [fixture]` serves tools at /mcp until it is told to stop."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from tests.mcp import fixture

from clicket import Runtime, tool
from clicket.mcp import McpEndpoint


class Server:
    def __init__(self, port: int, store: str) -> None:
        self.port = port
        self.runtime = Runtime(tools=[*fixture.TOOLS, *self._own_tools()], store=store)
        self.endpoint = McpEndpoint(
            lambda scope: self.runtime,
            extras=fixture.extras,
            task_after=0.5,
            allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*", "127.0.0.1", "localhost", "[::1]"],
            allowed_origins=[
                "http://127.0.0.1:*",
                "http://localhost:*",
                "http://[::1]:*",
                "http://localhost",
                "http://127.0.0.1",
            ],
        )

    def _own_tools(self) -> list[Any]:
        @tool
        async def test_trigger_tool_change() -> str:
            """Changes the list of tools."""
            await self.endpoint.changed("tools")
            return "changed"

        @tool
        async def test_trigger_prompt_change() -> str:
            """Changes the list of prompts."""
            await self.endpoint.changed("prompts")
            return "changed"

        return [test_trigger_tool_change, test_trigger_prompt_change]

    async def run(self) -> None:
        async with self.runtime, self.endpoint.running():
            app = Starlette(routes=[Route("/mcp", endpoint=self.endpoint)])
            config = uvicorn.Config(
                app, host="127.0.0.1", port=self.port, log_level="warning", timeout_graceful_shutdown=2
            )
            server = uvicorn.Server(config)
            await server.serve()


if __name__ == "__main__":
    asyncio.run(Server(int(sys.argv[1]), sys.argv[2]).run())
