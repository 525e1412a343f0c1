"""`/mcp`: the runtime as an MCP server over streamable HTTP, as a plain ASGI app. The server that mounts it authenticates requests.

2026-07-28 requests have no session. 2025-11-25 clients get a session, which belongs to the API key that opened it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from clicket.adapters.mcp.request_context import Access
from clicket.adapters.mcp.server import TASK_AFTER, RuntimeServer
from clicket.adapters.mcp.tool_definitions import header_schema
from clicket.errors import UsageError
from clicket.runtime.calls.approvals import Approver
from clicket.runtime.runtime import Runtime

__all__ = ["McpEndpoint"]

_MAX_BODY = 8 * 1024 * 1024
_MAX_SESSIONS = 10_000
_IDLE_SESSION = 3600.0
_request_runtime: ContextVar[Runtime] = ContextVar("clicket_mcp_request_runtime")


class McpEndpoint:
    """`McpEndpoint(runtime_for)` is the ASGI app; it answers inside `async with endpoint.running():`.

    `runtime_for(scope)` returns the runtime as the request's API key sees it (`rt.acting_for(...)`), `may_approve(scope)` whether
    the key may decide about approvals, `may_read(scope)` whether it may read calls, and `approver(scope)` is the person behind it, under
    all names. `allowed_hosts` and `allowed_origins` are checked when given, as
    `127.0.0.1:*` or `http://localhost:*`; a server that checks them itself leaves them out. `secret_key` (the setting's value)
    lets other servers, and the next process, read what this one sealed for its clients.
    """

    def __init__(
        self,
        runtime_for: Callable[[MutableMapping[str, Any]], Runtime],
        *,
        may_approve: Callable[[MutableMapping[str, Any]], bool] | None = None,
        may_read: Callable[[MutableMapping[str, Any]], bool] | None = None,
        approver: Callable[[MutableMapping[str, Any]], Approver] | None = None,
        extras: MCPServer[Any] | Server[Any] | None = None,
        name: str = "clicket",
        instructions: str | None = None,
        task_after: float = TASK_AFTER,
        secret_key: str | None = None,
        allowed_hosts: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        max_body_size: int = _MAX_BODY,
    ) -> None:
        self._runtime_for = runtime_for
        self._may_approve = may_approve or (lambda scope: True)
        self._may_read = may_read or (lambda scope: True)
        self._approver = approver
        self._handlers = RuntimeServer(
            self._access,
            extras=extras,
            name=name,
            instructions=instructions,
            task_after=task_after,
            secret_key=secret_key,
        )
        self._handlers.server.get_tool_input_schema = _header_schema
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=bool(allowed_hosts or allowed_origins),
            allowed_hosts=list(allowed_hosts),
            allowed_origins=list(allowed_origins),
        )
        self._manager = StreamableHTTPSessionManager(
            app=self._handlers.server,
            security_settings=security,
            max_request_body_size=max_body_size,
            session_idle_timeout=_IDLE_SESSION,
            max_sessions=_MAX_SESSIONS,
        )
        self._open = False

    def _access(self, request: Any) -> Access:
        scope = request.scope
        approver = None if self._approver is None else self._approver(scope)
        return Access(self._runtime_for(scope), self._may_approve(scope), self._may_read(scope), approver)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while inside. An endpoint runs once: a server that starts again makes a new one."""
        async with self._manager.run():
            self._open = True
            try:
                yield
            finally:
                self._open = False
                self.wind_down()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._open:
            raise UsageError("the MCP endpoint is not running; enter `endpoint.running()` in the server's lifespan.")
        # Header values may be padded with blanks, and not every HTTP parser strips them.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        runtime = self._runtime_for(scope)
        if runtime.caller is not None:
            # The SDK finds a session only for the user that opened it.
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=runtime.caller, scopes=[]))
        token = _request_runtime.set(runtime)
        try:
            await self._manager.handle_request(scope, receive, send)
        finally:
            _request_runtime.reset(token)

    async def changed(self, what: str = "tools") -> None:
        """Notify every stream that a list changed: `tools`, `prompts` or `resources`."""
        await self._handlers.changed(what)

    def wind_down(self) -> None:
        """The server stops: streams end in order, and a request that breaks off from now on does not cancel its call."""
        self._handlers.wind_down()


def _header_schema(name: str) -> Any:
    return header_schema(_request_runtime.get().registry.get(name))
