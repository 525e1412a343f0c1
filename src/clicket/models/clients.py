"""One SDK client for each event loop: connections stay open between requests, and are closed before their loop.

A loop that shuts down closes its async generators first. Each client is held by such a generator, so it is closed without a
call of `close`, also in a program that uses many loops.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

__all__ = ["Clients"]

_held: dict[Any, Any] = {}
"""Open clients with their generators, and tasks that close them. The references keep them alive until they are closed."""


class Clients:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[Any, None]]] = {}

    async def get(self) -> Any:
        """The client of this loop. An error of the SDK's constructor is raised unchanged."""
        loop = asyncio.get_running_loop()
        known = self._open.get(loop)
        if known is not None and not known[0].is_closed():
            return known[0]
        for other in list(self._open):
            if other.is_closed():
                _held.pop(self._open.pop(other, (None,))[0], None)
        holder = _hold(self._make())
        client = await anext(holder)  # does not suspend, so no other task opens one for this loop meanwhile
        _held[client] = holder
        self._open[loop] = (client, holder)
        return client

    async def close(self) -> None:
        """Close this loop's client; the next request opens another. Clients of other loops are closed with their loops."""
        known = self._open.pop(asyncio.get_running_loop(), None)
        if known is not None:
            await known[1].aclose()

    def __del__(self) -> None:
        """Close the connections of a model that is dropped while its loop runs on."""
        for loop, (client, holder) in self._open.items():
            if loop.is_closed():
                _held.pop(client, None)
            elif client in _held:
                with contextlib.suppress(RuntimeError):  # the loop may be closing
                    loop.call_soon_threadsafe(_begin, loop, holder)


async def _hold(client: Any) -> AsyncGenerator[Any, None]:
    try:
        yield client
    finally:
        try:
            await client.close()
        finally:
            _held.pop(client, None)


async def _closed(holder: AsyncGenerator[Any, None]) -> None:
    await holder.aclose()


def _begin(loop: asyncio.AbstractEventLoop, holder: AsyncGenerator[Any, None]) -> None:
    task = loop.create_task(_closed(holder))
    _held[task] = holder
    task.add_done_callback(_held.pop)
