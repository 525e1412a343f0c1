"""Transports to another MCP server: HTTP, or a process that is started. Both report to the connection what was sent, and its end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Self, TextIO, cast

import anyio
import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clicket.adapters.mcp.caller_connections import Bearer
from clicket.adapters.mcp.client_logs import guard_client_logs
from clicket.adapters.mcp.connection import Connection, Opener
from clicket.adapters.mcp.process_ancestry import child_environment
from clicket.safety.certificates import ssl_context

__all__ = ["KEY_META", "ClientOptions", "over_http", "over_stdio"]

KEY_META = "io.clicket/idempotencyKey"
"""In a request's `_meta`: the same for every attempt of a call. A server that honours it does the work once."""
ClientOptions = Callable[[], dict[str, Any]]
"""Further arguments of the SDK's client, made for each connection."""
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)
"""No read timeout: the tool's own timeout limits a call, and a server that streams may be silent for long."""


class _HttpTransport(httpx2.AsyncHTTPTransport):
    """Removes the key of a request that the server has not taken: no connection could be made, or it refused the token. Sends the token
    of the connection; after a 401 the request is sent once more, with another token."""

    def __init__(self, sent: set[str], bearer: Bearer | None) -> None:
        super().__init__(verify=ssl_context(trust_env=True), retries=0)
        self._sent = sent
        self._bearer = bearer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        bearer = self._bearer
        if bearer is None or not bearer.token:
            return await self._send(request)
        used = bearer.token
        request.headers["authorization"] = f"Bearer {used}"
        response = await self._send(request)
        if response.status_code != 401:
            return response
        token = await bearer.renewed(used)
        if token is None:
            self._not_taken(request)
            return response
        await response.aclose()
        request.headers["authorization"] = f"Bearer {token}"
        return await self._send(request)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            self._not_taken(request)
            raise

    def _not_taken(self, request: httpx2.Request) -> None:
        if request.method == "POST":
            params = json.loads(request.content).get("params") or {}
            self._sent.discard((params.get("_meta") or {}).get(KEY_META, ""))


@asynccontextmanager
async def _tracked(
    transport: AbstractAsyncContextManager[Any], connection: Connection
) -> AsyncIterator[tuple[Any, Any]]:
    """The transport's streams, tracked: the end of an idle process is noticed, so that the next request starts a new one."""
    guard_client_logs()
    async with transport as (incoming, outgoing):
        connection.transport_opened()
        yield _ReadStream(incoming, connection.lose), _WriteStream(outgoing, connection.sent)


class _Stream:
    """A stream of the SDK, wrapped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _WriteStream(_Stream):
    """Records the idempotency keys of the calls that are sent."""

    def __init__(self, stream: Any, sent: set[str]) -> None:
        super().__init__(stream)
        self._sent = sent

    async def send(self, item: Any) -> None:
        params = getattr(item.message, "params", None)
        key = (params.get("_meta") or {}).get(KEY_META) if isinstance(params, Mapping) else None
        if key is not None:
            self._sent.add(key)
        await self._stream.send(item)


class _ReadStream(_Stream):
    """Reports the end of the stream."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        super().__init__(stream)
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        """The SDK passes its context from the sender to the handler here."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def over_http(
    url: str,
    headers: Mapping[str, str],
    options: ClientOptions,
    bearer: Bearer | None = None,
    *,
    list_first: bool = False,
) -> Opener:
    """`bearer`: the token that every request carries. `list_first`: have the SDK read the tool list now. Else it does so after a tool's
    first result, to check that; if the token were refused then, the result would be lost."""

    @asynccontextmanager
    async def opened(connection: Connection) -> AsyncIterator[Client]:
        async with AsyncExitStack() as stack:
            http: httpx2.AsyncClient = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers=dict(headers), timeout=_HTTP_TIMEOUT, transport=_HttpTransport(connection.sent, bearer)
                )
            )
            transport = _tracked(streamable_http_client(url, http_client=http), connection)
            client = Client(transport, message_handler=connection.on_message, cache=None, **options())
            _leave_results_to_us(await stack.enter_async_context(client))
            if list_first:
                with suppress(MCPError, ValidationError):  # the call will tell
                    await client.list_tools()
            yield client

    return opened


def over_stdio(
    command: list[str],
    env: Mapping[str, str],
    cwd: str | None,
    declaration: Callable[[], str],
    options: ClientOptions,
) -> Opener:
    """The process leads its own process group. Closing the connection closes its stdin, and kills the group if that is not enough."""

    @asynccontextmanager
    async def opened(connection: Connection) -> AsyncIterator[Client]:
        environment = {**env, **child_environment(declaration())}
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=cwd)
        async with AsyncExitStack() as stack:
            transport = _tracked(stdio_client(parameters, errlog=_stderr(stack)), connection)
            client = Client(transport, message_handler=connection.on_message, cache=None, **options())
            _leave_results_to_us(await stack.enter_async_context(client))
            yield client

    return opened


def _leave_results_to_us(client: Client) -> None:
    """The SDK checks results by the server's output schema without bounds: a small schema can take minutes. `ImportedTool` checks them."""

    async def unchecked(name: str, result: Any) -> None: ...

    client.session.validate_tool_result = unchecked  # type: ignore[method-assign]


def _stderr(stack: AsyncExitStack) -> TextIO:
    """The stderr for the child: ours if it is a file, else the null device."""
    try:
        sys.stderr.fileno()
        return sys.stderr
    except (OSError, ValueError, AttributeError):
        return cast("TextIO", stack.enter_context(open(os.devnull, "w")))
