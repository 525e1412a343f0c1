"""How another MCP server is reached: over HTTP, or by starting it. Both tell their link what left, and when the line went dead."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TextIO, cast

import anyio
import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from clicket.mcp.client_logs import guard_client_logs
from clicket.mcp.lineage import handed_down
from clicket.mcp.link import Link, Opener

__all__ = ["KEY_META", "over_http", "over_stdio"]

KEY_META = "io.clicket/idempotencyKey"
"""In a request's `_meta`: the same for every attempt of a call. A server that knows it does the work once."""
_KEY = re.compile(rb'"io\.clicket/idempotencyKey":\s*"([^"]+)"')
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)
"""How long a call may take is its tool's affair; a server that streams may be silent for long."""


class _Road(httpx2.AsyncHTTPTransport):
    """Takes note of requests that did not leave after all, because nobody was there to take them."""

    def __init__(self, sent: set[str]) -> None:
        super().__init__(retries=0)
        self._sent = sent

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            found = _KEY.search(request.content) if request.method == "POST" else None
            if found is not None:
                self._sent.discard(found[1].decode())
            raise


@asynccontextmanager
async def _watched(transport: AbstractAsyncContextManager[Any], link: Link) -> AsyncIterator[tuple[Any, Any]]:
    """A process that ends while nobody asks it anything is noticed, so that the next request finds a new one."""
    guard_client_logs()
    async with transport as (incoming, outgoing):
        link.transport_opened()
        yield _Ear(incoming, link.lose), _Mouth(outgoing, link.sent)


class _Mouth:
    """A stream that takes note of the calls that go out on it."""

    def __init__(self, stream: Any, sent: set[str]) -> None:
        self._stream = stream
        self._sent = sent

    async def send(self, item: Any) -> None:
        params = getattr(item.message, "params", None)
        key = (params.get("_meta") or {}).get(KEY_META) if isinstance(params, Mapping) else None
        if key is not None:
            self._sent.add(key)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Ear:
    """A stream that says when it has ended."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """What the SDK hands from the sender to the handler."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def over_http(url: str, headers: Mapping[str, str]) -> Opener:
    @asynccontextmanager
    async def opened(link: Link) -> AsyncIterator[Client]:
        async with AsyncExitStack() as stack:
            http: httpx2.AsyncClient = await stack.enter_async_context(
                httpx2.AsyncClient(headers=dict(headers), timeout=_HTTP_TIMEOUT, transport=_Road(link.sent))
            )
            wire = _watched(streamable_http_client(url, http_client=http), link)
            client = Client(wire, message_handler=link.heard, cache=None)
            yield await stack.enter_async_context(client)

    return opened


def over_stdio(command: list[str], env: Mapping[str, str], cwd: str | None, mark: Callable[[], str]) -> Opener:
    """The process is the first of its own group. Whoever leaves closes its stdin, and ends the group if that is not enough."""

    @asynccontextmanager
    async def opened(link: Link) -> AsyncIterator[Client]:
        whole = {**env, **handed_down(mark())}
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=whole, cwd=cwd)
        async with AsyncExitStack() as stack:
            log = _stderr(stack)
            yield await stack.enter_async_context(
                Client(_watched(stdio_client(parameters, errlog=log), link), message_handler=link.heard, cache=None)
            )

    return opened


def _stderr(stack: AsyncExitStack) -> TextIO:
    """The child's stderr is ours, if ours is a file that a child can have."""
    try:
        sys.stderr.fileno()
        return sys.stderr
    except (OSError, ValueError, AttributeError):
        return cast("TextIO", stack.enter_context(open(os.devnull, "w")))
