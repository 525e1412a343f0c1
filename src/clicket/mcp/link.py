"""A connection to another MCP server, and the task that owns it. Opened when it is needed, opened again when it was lost.

The SDK's client lives in one task from its start to its end; whoever wants to send asks the link for it. A server that cannot
be reached is not tried more often than a growing delay allows: who comes earlier is told when to come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.session import IncomingMessage
from mcp.shared.exceptions import MCPError

from clicket.errors import RetryableError

__all__ = ["Link", "Opener", "Unreachable", "end_tasks"]

logger = logging.getLogger("clicket.mcp")

_FIRST_DELAY = 0.25
_MOST_DELAY = 30.0
_LISTEN_AGAIN = 5.0
_TOLD = frozenset(10**power for power in range(12))
"""Counts of broken messages that are logged."""
Opener = Callable[["Link"], AbstractAsyncContextManager[Client]]
"""Given the link that it is for: an async context manager that yields a connected client."""


class Unreachable(RetryableError):
    """There is no connection, so the server never saw the request."""


class Link:
    def __init__(self, name: str, opener: Opener, *, timeout: float, changed: Callable[[], None]) -> None:
        self.name = name
        self._opener = opener
        self._timeout = timeout
        self._changed = changed
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._leave = asyncio.Event()
        self._transport_open = asyncio.Event()
        self._failures = 0
        self._not_before = 0.0
        self._junk = 0
        self.sent: set[str] = set()
        """Idempotency keys of requests that the server may have seen."""

    async def client(self) -> Client:
        """The connected client. `Unreachable` when there is none to be had now."""
        if self._client is not None:
            return self._client
        async with self._lock:
            if self._client is None:
                await self._connect()
            assert self._client is not None
            return self._client

    async def _connect(self) -> None:
        wait = self._not_before - asyncio.get_running_loop().time()
        if wait > 0:
            raise Unreachable(f"MCP server {self.name!r} could not be reached just now.", retry_after=wait)
        await self._stop()
        self._leave = asyncio.Event()
        self._transport_open = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready), name=f"mcp {self.name}")
        try:
            async with asyncio.timeout(self._timeout):
                self._client = await asyncio.shield(ready)
        except BaseException as error:
            await self._give_up()
            if not isinstance(error, Exception):
                raise
            self._failures += 1
            delay = min(_FIRST_DELAY * 2.0 ** (self._failures - 1), _MOST_DELAY)
            self._not_before = asyncio.get_running_loop().time() + delay
            what = f"no answer within {self._timeout:g} s" if isinstance(error, TimeoutError) else _told(error)
            raise Unreachable(f"MCP server {self.name!r} cannot be reached: {what}.", retry_after=delay) from None
        self._failures = 0

    async def _own(self, ready: asyncio.Future[Client]) -> None:
        """The life of one connection, in one task."""
        try:
            async with self._opener(self) as client:
                if not ready.done():
                    ready.set_result(client)
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self._listen(client))
                    await self._leave.wait()
                    listening.cancel()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConnectionError("it was cancelled"))
                ready.exception()  # whoever waited may have left
            elif isinstance(error, Exception) and not self._leave.is_set():
                logger.info("the connection to MCP server %s ended: %s", self.name, _told(error))
            if not isinstance(error, Exception):
                raise
        finally:
            if self._owner is asyncio.current_task():
                self._client = None

    def transport_opened(self) -> None:
        """The opener says that its process runs, or its socket is there: from now on the task may be cancelled."""
        self._transport_open.set()

    async def heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()
        elif isinstance(message, Exception):
            self._junk += 1
            if self._junk in _TOLD:
                logger.warning(
                    "MCP server %s sends what is no message of MCP, %d times so far; it is ignored",
                    self.name,
                    self._junk,
                )

    async def _listen(self, client: Client) -> None:
        """Since 2026-07-28 a server tells of changes on a stream that is asked for. One that has none is left in peace."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or client.protocol_version < "2026-07-28":
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self._changed()  # nobody told us what happened before
                    async for _ in events:
                        self._changed()
            except Exception as error:
                logger.debug("MCP server %s tells of no changes: %s", self.name, _told(error))
            await asyncio.sleep(_LISTEN_AGAIN)

    def lose(self, client: Client | None = None) -> None:
        """The connection is of no use any more: the next request opens a new one."""
        if client is None or self._client is client:
            self._client = None
            self._leave.set()

    async def _stop(self) -> None:
        owner, self._owner, self._client = self._owner, None, None
        if owner is None:
            return
        self._leave.set()
        done, _ = await asyncio.wait([owner], timeout=self._timeout)
        if not done:
            owner.cancel()
            await asyncio.wait([owner])

    async def _give_up(self) -> None:
        """End the connection that no caller waits for any more, and the process that was started for it.

        The task is cancelled only after its process has started: asyncio waits for ever for a process whose start was cancelled
        before its pipes were connected.
        """
        owner, self._owner = self._owner, None
        if owner is None:
            return
        opened = asyncio.create_task(self._transport_open.wait())
        try:
            await _outlast_cancels([owner, opened], asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(owner, opened)

    async def close(self) -> None:
        """End the connection. Whoever still has a use for it, another runtime perhaps, opens it anew."""
        async with self._lock:
            await self._stop()


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel, and wait until they have cleaned up, which is bounded. Who is cancelled meanwhile leaves after that, not before."""
    for task in tasks:
        task.cancel()
    await _outlast_cancels(tasks, asyncio.ALL_COMPLETED)


async def _outlast_cancels(tasks: Collection[asyncio.Future[Any]], until: str) -> None:
    """Wait for tasks. A cancellation of the caller is raised after that, not before."""
    cancelled = False
    while True:
        try:
            await asyncio.wait(tasks, return_when=until)
            break
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _told(error: BaseException) -> str:
    """What went wrong, in a few words; groups of errors are looked into. Never a header, never a query."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return "it closed the connection"
    return (str(error).splitlines() or [""])[0][:300] or type(error).__name__
