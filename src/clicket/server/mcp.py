"""`/mcp`: the runtime as an MCP server, behind the same door as everything else. A key needs the scope `call`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from clicket.errors import UsageError
from clicket.server.auth import principal_of
from clicket.server.context import Context
from clicket.server.options import Options
from clicket.server.problems import Refused, problem_of_error

__all__ = ["Mcp", "mcp_endpoint"]


class Mcp:
    """ASGI. The endpoint behind it lives as long as the application runs."""

    def __init__(self, make: Callable[..., Any], more: Mapping[str, Any]) -> None:
        self._make = make
        self._more = more
        self._endpoint: Any = None
        self._options = Options()

    @asynccontextmanager
    async def running(self, context: Context) -> AsyncIterator[None]:
        self._options = context.options
        made = self._make(
            lambda scope: principal_of(scope).own,
            may_approve=lambda scope: principal_of(scope).may("approve"),
            **{"secret_key": context.runtime.settings.secret_key, **self._more},
        )
        async with made.running():
            self._endpoint = made
            context.leaving.append(made.wind_down)
            try:
                yield
            finally:
                self._endpoint = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["clicket.route"] = "/mcp"
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_of_error(refusal)(scope, receive, send)
        else:
            await self._endpoint(scope, _bounded(receive, self._options), send)

    def _refusal(self, scope: Any) -> Refused | None:
        if not principal_of(scope).may("call"):
            return Refused("missing_scope", "the key lacks the scope call. Use one that has it.")
        limit = self._options.max_body_size
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(value.isdigit() and int(value[:20]) > limit for value in lengths):
            close = (b"connection", b"close")
            return Refused("too_large", f"the body is over the limit of {limit:,} bytes. Send less.", close)
        return None


def _bounded(receive: Any, options: Options) -> Any:
    """A body that grows or drips beyond its bounds is taken for a client that left."""
    size, whole = 0, False

    async def bounded() -> Any:
        nonlocal size, whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(options.body_timeout):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        return {"type": "http.disconnect"} if size > options.max_body_size else message

    return bounded


def mcp_endpoint(wanted: bool | Mapping[str, Any] | None) -> Mcp | None:
    """None: if its extra is installed. A mapping is what the endpoint is made with beyond the usual."""
    if wanted is False:
        return None
    try:
        from clicket.mcp import McpEndpoint
    except (ModuleNotFoundError, UsageError):
        if wanted is not None:
            raise UsageError("MCP needs its extra. Install it with: pip install 'clicket[mcp]'.") from None
        return None
    return Mcp(McpEndpoint, wanted if isinstance(wanted, Mapping) else {})
