"""The connection to another MCP server. It is opened when it is needed, and again after it was lost.

The SDK's client must be opened and closed in one task, which the connection owns. After a failure, no new attempt is made before
a growing delay is over; requests that come earlier fail with `retry_after`.
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

from clicket.adapters.mcp.open_calls import clean_context
from clicket.errors import RetryableError

__all__ = ["Connection", "Opener", "Unreachable", "end_tasks"]

logger = logging.getLogger("clicket.mcp")

_FIRST_DELAY = 0.25
_MAX_DELAY = 30.0
_RESUBSCRIBE_AFTER = 5.0
_LOGGED_COUNTS = frozenset(10**power for power in range(12))
"""Counts of invalid messages at which a warning is logged."""
Opener = Callable[["Connection"], AbstractAsyncContextManager[Client]]
"""Opens the transport of a connection: an async context manager that yields a connected client."""


class Unreachable(RetryableError):
    """There is no connection, so the server never saw the request."""


class Connection:
    def __init__(self, name: str, opener: Opener, *, timeout: float, changed: Callable[[], None]) -> None:
        self.name = name
        self._opener = opener
        self._timeout = timeout
        self._changed = changed
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._close_requested = asyncio.Event()
        self._transport_open = asyncio.Event()
        self._failures = 0
        self._not_before = 0.0
        self._invalid = 0
        self.sent: set[str] = set()
        """Idempotency keys of requests that the server may have seen."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connected client now."""
        return self._client is not None

    async def client(self) -> Client:
        """The connected client. Raises `Unreachable` when the server cannot be reached now."""
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
        self._close_requested = asyncio.Event()
        self._transport_open = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(ready), name=f"mcp {self.name}", context=clean_context())
        try:
            async with asyncio.timeout(self._timeout):
                self._client = await asyncio.shield(ready)
        except BaseException as error:
            await self._give_up()
            if not isinstance(error, Exception):
                raise
            self._failures += 1
            delay = min(_FIRST_DELAY * 2.0 ** (self._failures - 1), _MAX_DELAY)
            self._not_before = asyncio.get_running_loop().time() + delay
            what = f"no answer within {self._timeout:g} s" if isinstance(error, TimeoutError) else _reason(error)
            raise Unreachable(f"MCP server {self.name!r} cannot be reached: {what}.", retry_after=delay) from None
        self._failures = 0

    async def _run(self, ready: asyncio.Future[Client]) -> None:
        """Opens, keeps and closes the client, in one task."""
        try:
            async with self._opener(self) as client:
                if not ready.done():
                    ready.set_result(client)
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(self._watch_tool_list(client))
                    await self._close_requested.wait()
                    watching.cancel()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConnectionError("it was cancelled"))
                ready.exception()  # retrieved here, because the waiter may be gone
            elif isinstance(error, Exception) and not self._close_requested.is_set():
                logger.info("the connection to MCP server %s ended: %s", self.name, _reason(error))
            if not isinstance(error, Exception):
                raise
        finally:
            if self._task is asyncio.current_task():
                self._client = None

    def transport_opened(self) -> None:
        """Called by the opener once its process runs or its socket is open: from now on the task may be cancelled."""
        self._transport_open.set()

    async def on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()
        elif isinstance(message, Exception):
            self._invalid += 1
            if self._invalid in _LOGGED_COUNTS:
                logger.warning(
                    "MCP server %s has sent %d messages that are not MCP; they are ignored",
                    self.name,
                    self._invalid,
                )

    async def _watch_tool_list(self, client: Client) -> None:
        """Subscribe to changes of the tool list, if the server offers that (since 2026-07-28)."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or client.protocol_version < "2026-07-28":
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self._changed()  # changes before the subscription are unknown
                    async for _ in events:
                        self._changed()
            except Exception as error:
                logger.debug("MCP server %s: the subscription to its tool list ended: %s", self.name, _reason(error))
            await asyncio.sleep(_RESUBSCRIBE_AFTER)

    def lose(self, client: Client | None = None) -> None:
        """Give up the connection: the next request opens a new one."""
        if client is None or self._client is client:
            self._client = None
            self._close_requested.set()

    async def _stop(self) -> None:
        task, self._task, self._client = self._task, None, None
        if task is None:
            return
        self._close_requested.set()
        done, _ = await asyncio.wait([task], timeout=self._timeout)
        if not done:
            task.cancel()
            await asyncio.wait([task])

    async def _give_up(self) -> None:
        """End a connection that was not established in time, and the process that was started for it.

        The task is cancelled only after its process has started: asyncio waits for ever for a process whose start was cancelled
        before its pipes were connected.
        """
        task, self._task = self._task, None
        if task is None:
            return
        opened = asyncio.create_task(self._transport_open.wait())
        try:
            await _outlast_cancels([task, opened], asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(task, opened)

    async def close(self) -> None:
        """End the connection. A later request, of another runtime perhaps, opens it again."""
        async with self._lock:
            await self._stop()


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have cleaned up. A cancellation of the caller is raised after that, not before."""
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


def _reason(error: BaseException) -> str:
    """The first line of an error, or of the first error in a group. It never contains a header or a query."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return "it closed the connection"
    return (str(error).splitlines() or [""])[0][:300] or type(error).__name__
