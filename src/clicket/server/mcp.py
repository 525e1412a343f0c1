"""`/mcp`: the runtime as an MCP server, behind the same door as everything else. A key needs the scope `call`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

from clicket.errors import UsageError
from clicket.server.auth import principal_of
from clicket.server.context import Context
from clicket.server.options import Options
from clicket.server.problems import Refused, problem_of_error
from clicket.server.traces import traced

__all__ = ["Mcp", "mcp_endpoint"]


class Mcp:
    """ASGI. The endpoint behind it lives as long as the application runs."""

    def __init__(self, make: Callable[..., Any], more: Mapping[str, Any]) -> None:
        self._make = make
        self._more = more
        self._endpoint: Any = None
        self._context: Context | None = None
        self._options = Options()

    @asynccontextmanager
    async def running(self, context: Context) -> AsyncIterator[None]:
        self._context, self._options = context, context.options
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
            assert self._context is not None, "it answers only while it runs"
            with traced(scope["headers"]):  # what a message's own `_meta` says goes before that
                await _Exchange(self._context, _bounded(receive, self._options), send).run(self._endpoint, scope)

    def _refusal(self, scope: Any) -> Refused | None:
        if not principal_of(scope).may("call"):
            return Refused("missing_scope", "the key lacks the scope call. Use one that has it.")
        limit = self._options.max_body_size
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(value.isdigit() and int(value[:20]) > limit for value in lengths):
            close = (b"connection", b"close")
            return Refused("too_large", f"the body is over the limit of {limit:,} bytes. Send less.", close)
        return None


class _Exchange:
    """One request and its answer. When that is a stream, it ends with its key: the endpoint is told that its client left."""

    def __init__(self, context: Context, receive: Any, send: Any) -> None:
        self._context = context
        self._receive = receive
        self._send = send
        self._over = False
        self._patience: asyncio.Timeout | None = None
        self._watched = ExitStack()
        self._has_ended = False

    async def run(self, endpoint: Any, scope: Any) -> None:
        with self._watched:
            await endpoint(scope, self.receive, lambda message: self.send(scope, message))
            if self._over and not self._has_ended:
                await self._send({"type": "http.response.body", "body": b""})

    async def send(self, scope: Any, message: Any) -> None:
        if self._over:
            return
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name.lower() == b"content-type"]
            if any(kind.startswith(b"text/event-stream") for kind in kinds):
                self._watched.enter_context(self._context.watch.over(scope, self._end))
        elif not message.get("more_body", False):
            self._has_ended = True
        await self._send(message)

    async def receive(self) -> Any:
        """What the client says, or that it left when its key did."""
        if not self._over:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as patience:
                    self._patience = patience
                    return await self._receive()
        return {"type": "http.disconnect"}

    def _end(self) -> None:
        """Whoever waits for the client waits no more. (A timeout without a time costs nothing until it is given one.)"""
        self._over = True
        if self._patience is not None:
            with suppress(RuntimeError):  # nobody waits
                self._patience.reschedule(0.0)


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
