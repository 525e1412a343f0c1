"""`/mcp`: the runtime as an MCP server, behind the same middleware as all routes. A key needs the scope `call`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from clicket.errors import UsageError
from clicket.server.authentication import principal_of, with_challenge
from clicket.server.challenges import MCP, Challenges
from clicket.server.problems import Refused, problem_of_error
from clicket.server.request import in_trace
from clicket.server.request_body import too_large
from clicket.server.revocation import RevocationWatch
from clicket.server.shutdown import Shutdown

__all__ = ["McpRoute", "mcp_route"]


class McpRoute:
    """An ASGI application. `make` makes the MCP endpoint, which runs as long as the application.

    `max_body_size` in bytes; `body_timeout` in seconds, for each chunk of a body.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        revocation: RevocationWatch,
        shutdown: Shutdown,
        challenges: Challenges,
        *,
        max_body_size: int,
        body_timeout: float,
    ) -> None:
        self._make = make
        self._revocation = revocation
        self._shutdown = shutdown
        self._challenges = challenges
        self._max_body_size = max_body_size
        self._body_timeout = body_timeout
        self._endpoint: Any = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        made = self._make(
            lambda scope: principal_of(scope).own,
            may_approve=lambda scope: principal_of(scope).may("approve"),
            may_read=lambda scope: principal_of(scope).may("read"),
            approver=lambda scope: principal_of(scope).approver,
        )
        async with made.running():
            self._endpoint = made
            remove = self._shutdown.on_begin(made.wind_down)
            try:
                yield
            finally:
                remove()
                self._endpoint = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["clicket.route"] = "/mcp"
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_of_error(with_challenge(refusal, scope, self._challenges, MCP))(scope, receive, send)
        else:
            bounded = _bounded(receive, max_size=self._max_body_size, timeout=self._body_timeout)
            with in_trace(scope["headers"]):  # the `_meta` of a message overrides these
                await _Exchange(self._revocation, bounded, send).run(self._endpoint, scope)

    def _refusal(self, scope: Any) -> Refused | None:
        if not principal_of(scope).may("call"):
            return Refused("missing_scope", "the key lacks the scope call. Use one that has it.", needed=("call",))
        limit = self._max_body_size
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(value.isdigit() and int(value[:20]) > limit for value in lengths):
            return too_large(limit)
        return None


class _Exchange:
    """One request and its response. When its key is revoked, the endpoint sees a disconnect, which ends a stream."""

    def __init__(self, revocation: RevocationWatch, receive: Any, send: Any) -> None:
        self._revocation = revocation
        self._receive = receive
        self._send = send
        self._over = False
        self._timeout: asyncio.Timeout | None = None
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
                self._watched.enter_context(self._revocation.over(scope, self._end))
        elif not message.get("more_body", False):
            self._has_ended = True
        await self._send(message)

    async def receive(self) -> Any:
        """The next message of the client; a disconnect once its key is no longer valid."""
        if not self._over:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as timeout:
                    self._timeout = timeout
                    return await self._receive()
        return {"type": "http.disconnect"}

    def _end(self) -> None:
        """End the endpoint's wait for the client, by giving a time to its timeout, which had none."""
        self._over = True
        if self._timeout is not None:
            with suppress(RuntimeError):  # the endpoint does not wait
                self._timeout.reschedule(0.0)


def _bounded(receive: Any, *, max_size: int, timeout: float) -> Any:
    """Limits a body: one that is too large or too slow looks like a disconnect."""
    size, whole = 0, False

    async def bounded() -> Any:
        nonlocal size, whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(timeout):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        return {"type": "http.disconnect"} if size > max_size else message

    return bounded


def mcp_route(
    mcp: bool | Mapping[str, Any] | None,
    revocation: RevocationWatch,
    shutdown: Shutdown,
    challenges: Challenges,
    *,
    secret_key: str | None,
    max_body_size: int,
    body_timeout: float,
) -> McpRoute | None:
    """`mcp`: None serves MCP if its extra is installed; a mapping has options of `McpEndpoint`."""
    if mcp is False:
        return None
    try:
        from clicket.adapters.mcp import McpEndpoint
    except (ModuleNotFoundError, UsageError):
        if mcp is not None:
            raise UsageError("MCP needs its extra. Install it with: pip install 'clicket[mcp]'.") from None
        return None
    more = {"secret_key": secret_key, **(mcp if isinstance(mcp, Mapping) else {})}
    return McpRoute(
        partial(McpEndpoint, **more),
        revocation,
        shutdown,
        challenges,
        max_body_size=max_body_size,
        body_timeout=body_timeout,
    )
