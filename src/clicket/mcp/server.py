"""The runtime as an MCP server, built on the SDK's: its handlers are ours, its wire is the SDK's.

Prompts, resources and completions are no business of a runtime that runs tools. Who has some registers them on an `MCPServer`
of the SDK and hands it over as `extras`; its tools are left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from clicket.errors import ClicketError
from clicket.mcp.calling import Calling
from clicket.mcp.listen import Listen
from clicket.mcp.listing import list_tools
from clicket.mcp.logs import Levels
from clicket.mcp.results import told
from clicket.mcp.tasks import TaskParams, Tasks, UpdateParams
from clicket.mcp.visit import TASKS, Access, Context, caller_of, visit
from clicket.model.version import version

__all__ = ["TASK_AFTER", "Serving"]

TASK_AFTER = 2.0
_ANSWER_TIME = 24 * 3600.0
"""Seconds that a person has for an answer, before a request must be made anew."""
_FROM_EXTRAS = (
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
)
_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}


class Serving:
    """Everything that serves one runtime over MCP, whatever carries the messages."""

    def __init__(
        self,
        access: Access,
        *,
        extras: MCPServer[Any] | Server[Any] | None = None,
        name: str = "clicket",
        instructions: str | None = None,
        task_after: float = TASK_AFTER,
        secret_key: str | None = None,
    ) -> None:
        self._access = access
        # Changes that the SDK's server is told of reach our streams, too. Neither this nor its handlers can be had in public.
        self._bus: SubscriptionBus = (
            extras._subscriptions if isinstance(extras, MCPServer) else InMemorySubscriptionBus()
        )
        self._listen = Listen(access, self._bus)
        levels, tasks = Levels(), Tasks(access)
        self._calling = Calling(access, levels, task_after=task_after)
        base = extras._lowlevel_server if isinstance(extras, MCPServer) else extras
        self.server: Server[Any] = Server(
            name,
            version=version(),
            instructions=instructions,
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
            lifespan=base.lifespan if base is not None else _nothing,
            on_list_tools=self._list_tools,
            on_subscriptions_listen=self._listen,
        )
        add = self.server.add_request_handler
        add("tools/call", types.CallToolRequestParams, self._calling)
        add("logging/setLevel", types.SetLevelRequestParams, levels)
        add("tasks/get", TaskParams, tasks.get)
        add("tasks/update", UpdateParams, tasks.update)
        add("tasks/cancel", TaskParams, tasks.cancel)
        self.server.extensions[TASKS] = {}
        for method in _FROM_EXTRAS:
            entry = base.get_request_handler(method) if base is not None else None
            if entry is not None:
                add(method, entry.params_type, entry.handler)
        self.server.middleware.append(_in_words)
        self.server.middleware.append(RequestStateBoundary(self._security(secret_key), default_audience=name))

    def _security(self, secret: str | None) -> RequestStateSecurity:
        """Answers of earlier rounds come back from the client sealed, and bound to its key.

        Without a secret that all servers share, they are of use to this process alone.
        """
        given = [part.strip() for part in (secret or "").split(",") if part.strip()]
        keys = [hashlib.sha256(b"clicket mcp request state:" + part.encode()).digest() for part in given]
        return RequestStateSecurity(keys=keys or [os.urandom(32)], ttl=_ANSWER_TIME, bind_principal=self._principal)

    def _principal(self, ctx: Context) -> str | None:
        return caller_of(self._access(ctx.request).runtime)

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await list_tools(visit(ctx, self._access)))

    async def changed(self, what: str = "tools") -> None:
        """Tell every stream that a list changed: `tools`, `prompts` or `resources`."""
        await self._bus.publish(_EVENTS[what]())

    def wind_down(self) -> None:
        """The server stops: streams end in good order, and a request that breaks off now does not end its call."""
        self._calling.closing = True
        self._listen.close()


async def _in_words(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Errors of ours that no handler took are told as JSON-RPC errors."""
    try:
        return await call_next(ctx)
    except ClicketError as error:
        raise MCPError(types.INTERNAL_ERROR, told(error), {"code": error.code}) from error


@contextlib.asynccontextmanager
async def _nothing(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
    yield {}
