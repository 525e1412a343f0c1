"""The runtime as an MCP server: clicket's handlers on the SDK's `Server`, which speaks the protocol.

A runtime has tools only. To serve prompts, resources and completions too, register them on an `MCPServer` of the SDK and pass it
as `extras`; its tools are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.caching import CacheableMethod, CacheHint
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

from clicket import system
from clicket.adapters.mcp.apps import APPS, AppResources, tool_meta
from clicket.adapters.mcp.log_levels import LogLevels
from clicket.adapters.mcp.request_context import TASKS, AccessFor, SdkContext, read_context
from clicket.adapters.mcp.results import client_message
from clicket.adapters.mcp.subscriptions import SubscriptionHandler
from clicket.adapters.mcp.tasks import TaskParams, Tasks, UpdateParams
from clicket.adapters.mcp.tool_calls import ToolCallHandler
from clicket.adapters.mcp.tool_definitions import list_tools
from clicket.errors import ClicketError
from clicket.model.version import version

__all__ = ["TASK_AFTER", "RuntimeServer"]

TASK_AFTER = 2.0
_ANSWER_TIMEOUT = 24 * 3600.0
"""Seconds that a person has for an answer before the client must repeat the request from its start."""
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
_PRIVATE: tuple[CacheableMethod, ...] = ("tools/list", "resources/list", "resources/templates/list", "resources/read")
"""Their results are those of one API key, as they are now."""
_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}


class RuntimeServer:
    """All handlers of one runtime, independent of the transport."""

    def __init__(
        self,
        access_for: AccessFor,
        *,
        extras: MCPServer[Any] | Server[Any] | None = None,
        name: str = "clicket",
        instructions: str | None = None,
        task_after: float = TASK_AFTER,
        secret_key: str | None = None,
    ) -> None:
        self._access_for = access_for
        # Changes that the program announces on the SDK's server reach our streams, too. The SDK has no public way to this, nor to its
        # handlers.
        self._bus: SubscriptionBus = (
            extras._subscriptions if isinstance(extras, MCPServer) else InMemorySubscriptionBus()
        )
        self._subscriptions = SubscriptionHandler(access_for, self._bus)
        levels = LogLevels()
        tasks = Tasks(access_for)
        self._calls = ToolCallHandler(access_for, levels, task_after=task_after)
        base = extras._lowlevel_server if isinstance(extras, MCPServer) else extras
        self.server: Server[Any] = Server(
            name,
            version=version(),
            instructions=instructions,
            cache_hints=dict.fromkeys(_PRIVATE, CacheHint(ttl_ms=0, scope="private")),
            lifespan=base.lifespan if base is not None else _no_lifespan,
            on_list_tools=self._list_tools,
            on_subscriptions_listen=self._subscriptions,
        )
        add = self.server.add_request_handler
        add("tools/call", types.CallToolRequestParams, self._calls)
        add("logging/setLevel", types.SetLevelRequestParams, levels)
        add("tasks/get", TaskParams, tasks.get)
        add("tasks/update", UpdateParams, tasks.update)
        add("tasks/cancel", TaskParams, tasks.cancel)
        self.server.extensions[TASKS] = {}
        self.server.extensions[APPS] = {}
        found = {} if base is None else {method: base.get_request_handler(method) for method in _FROM_EXTRAS}
        own = {method: entry for method, entry in found.items() if entry is not None}
        for method, entry in own.items():
            add(method, entry.params_type, entry.handler)
        pages = AppResources(access_for, {method: entry.handler for method, entry in own.items()})
        add("resources/list", types.PaginatedRequestParams, pages.resources)
        add("resources/templates/list", types.PaginatedRequestParams, pages.templates)
        add("resources/read", types.ReadResourceRequestParams, pages.read)
        self.server.middleware.append(_translate_errors)
        self.server.middleware.append(RequestStateBoundary(self._security(secret_key), default_audience=name))

    def _security(self, secret: str | None) -> RequestStateSecurity:
        """Answers of earlier rounds come back from the client sealed, and bound to its API key.

        Without a secret that all servers share, only this process can read them.
        """
        given = [part.strip() for part in (secret or "").split(",") if part.strip()]
        keys = [hashlib.sha256(b"clicket mcp request state:" + part.encode()).digest() for part in given]
        return RequestStateSecurity(
            keys=keys or [system.random_bytes(32)], ttl=_ANSWER_TIMEOUT, bind_principal=self._principal
        )

    def _principal(self, ctx: SdkContext) -> str | None:
        return self._access_for(ctx.request).runtime.caller

    async def _list_tools(self, ctx: SdkContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await list_tools(read_context(ctx, self._access_for), tool_meta(ctx)))

    async def changed(self, what: str = "tools") -> None:
        """Notify every stream that a list changed: `tools`, `prompts` or `resources`."""
        await self._bus.publish(_EVENTS[what]())

    def wind_down(self) -> None:
        """The server stops: streams end in order, and a request that breaks off from now on does not cancel its call."""
        self._calls.closing = True
        self._subscriptions.close()


async def _translate_errors(ctx: SdkContext, call_next: Callable[[SdkContext], Awaitable[Any]]) -> Any:
    """Turns errors of clicket that no handler caught into JSON-RPC errors."""
    try:
        return await call_next(ctx)
    except ClicketError as error:
        raise MCPError(types.INTERNAL_ERROR, client_message(error), {"code": error.code}) from error


@contextlib.asynccontextmanager
async def _no_lifespan(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
    yield {}
