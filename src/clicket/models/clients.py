"""One client of an SDK for each event loop: connections stay open between requests, and are closed before their loop is.

A loop that ends, ends its async generators first. Each client is held by one of its loop, so nobody needs to close it by hand,
and a program that asks from many loops leaves nothing open behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

__all__ = ["Clients"]

_held: dict[Any, Any] = {}
"""Clients that are open, with their holders, and tasks that close them: dropped, they would be left half-closed by a loop's end."""


class Clients:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[Any, None]]] = {}

    async def get(self) -> Any:
        """The client of this loop. Raises what the SDK raises when it cannot be made."""
        loop = asyncio.get_running_loop()
        known = self._open.get(loop)
        if known is not None and not known[0].is_closed():
            return known[0]
        for other in list(self._open):
            if other.is_closed():
                _held.pop(self._open.pop(other, (None,))[0], None)
        holder = _hold(self._make())
        client = await anext(holder)  # does not wait, so nobody else has opened one for this loop meanwhile
        _held[client] = holder
        self._open[loop] = (client, holder)
        return client

    async def close(self) -> None:
        """Close this loop's client; the next request opens another. Those of other loops end with them."""
        known = self._open.pop(asyncio.get_running_loop(), None)
        if known is not None:
            await known[1].aclose()

    def __del__(self) -> None:
        """A model that is dropped while its loop goes on keeps no connections."""
        for loop, (client, holder) in self._open.items():
            if loop.is_closed():
                _held.pop(client, None)
            elif client in _held:
                with contextlib.suppress(RuntimeError):  # it may be closing just now
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
