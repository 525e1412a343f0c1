"""Callers with sessions of their own at one server (2025-11-25): a question on a session is one to the caller of that session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.kit.waiting import eventually
from tests.mcp.far import asked
from tests.mcp.kit import listening

from clicket import Runtime
from clicket.mcp import McpServer

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
MESSAGE = types.SamplingMessage(role="user", content=types.TextContent(text="hello"))
SAMPLING = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[MESSAGE], max_tokens=9))


class Sessions:
    """`of[TOKEN]` is the session of a caller who has called a tool. A `hold` ends when `release` is set."""

    def __init__(self) -> None:
        self.of: dict[str, Any] = {}
        self.streams = 0
        """Open streams for messages that belong to no request."""
        self.release = asyncio.Event()
        self.holding = self.replies = 0

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("greet", "hold")]
        return types.ListToolsResult(tools=tools)

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.of[ctx.request.headers["authorization"].removeprefix("Bearer ")] = ctx.session
        if params.name == "hold":
            self.holding += 1
            await self.release.wait()
        return types.CallToolResult(content=[types.TextContent(text="done")])

    async def _sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.replies += 1
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="reply"))

    @asynccontextmanager
    async def joined(self, rt: Runtime, **options: Any) -> AsyncIterator[None]:
        manager = StreamableHTTPSessionManager(app=Server("far", on_list_tools=self._list, on_call_tool=self._call))

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            async def passed(message: Any) -> None:
                await send(message)
                if scope["method"] == "GET" and message.get("status") == 200:
                    self.streams += 1

            await manager.handle_request(scope, receive, passed)

        async with manager.run(), listening(Starlette(routes=[Mount("/mcp", app=counted)])) as address:
            url = f"{address}/mcp/"
            server = McpServer(
                "far", url=url, credentials="far", protocol="2025-11-25", sampling=self._sample, **options
            )
            try:
                await server.join(rt)
                for caller in ("ann", "ben"):
                    await rt.credentials.put("far", f"{caller}-t0ken", caller=caller)
                    assert (await rt.acting_for(caller).call("greet", {})).success
                await eventually(lambda: self.streams == 3)  # theirs, and the one of the list
                yield
            finally:
                self.release.set()
                await server.close()


def a_runtime() -> Runtime:
    return Runtime(store="memory://", secret_key="the key of sessions of callers")


async def test_a_question_on_an_idle_session_is_not_put_to_another_caller() -> None:
    far = Sessions()
    async with a_runtime() as rt, far.joined(rt, question_timeout=0.05):
        handle = await rt.acting_for("ben").submit("hold", {})
        await eventually(lambda: far.holding == 1)
        with pytest.raises(MCPError, match="belongs to no call that is under way"):
            await far.of["ann-t0ken"].elicit_form("Your name?", FORM)
        with pytest.raises(MCPError, match="belongs to no call that is under way"):
            await far.of["ann-t0ken"].send_request(SAMPLING, types.CreateMessageResult)
        assert (await rt.get(handle.id)).approval is None
        assert far.replies == 0
        far.release.set()
        assert (await handle.result()).output == "done"


async def test_a_question_is_put_to_the_caller_of_its_session() -> None:
    far = Sessions()
    async with a_runtime() as rt, far.joined(rt):
        ann, ben = [await rt.acting_for(caller).submit("hold", {}) for caller in ("ann", "ben")]
        await eventually(lambda: far.holding == 2)
        asking = asyncio.create_task(far.of["ann-t0ken"].elicit_form("Your name?", FORM))
        await asked(rt, ann.id)
        assert (await rt.get(ben.id)).approval is None
        await rt.respond(ann.id, {"name": "Ann"})
        assert (await asking).content == {"name": "Ann"}
        far.release.set()
        assert [(await handle.result()).output for handle in (ann, ben)] == ["done", "done"]
