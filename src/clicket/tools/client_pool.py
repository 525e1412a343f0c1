"""The HTTP clients of a tool: one for each event loop, opened by the first request. They connect to checked addresses only."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from clicket.safety.certificates import ssl_context
from clicket.safety.guard import AddressGuard
from clicket.system.bridge import ThreadPool

if TYPE_CHECKING:
    import httpcore2
    import httpx2

__all__ = ["ClientPool"]


class ClientPool:
    """A client cannot outlive the loop of its sockets, so there is one for each loop."""

    def __init__(
        self,
        guard: AddressGuard,
        ssl_context: ssl.SSLContext | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._guard = guard
        self._ssl_context = ssl_context
        self._network = network
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}

    @property
    def is_open(self) -> bool:
        return any(not loop.is_closed() for loop in list(self._clients))

    def __len__(self) -> int:
        return len(self._clients)

    async def client(self) -> httpx2.AsyncClient:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is not None:
            return client
        # The first request pays for importing httpx2 and reading certificates, a fifth of a second: not on the loop.
        thread_pool = ThreadPool(1, "clicket-rest")
        try:
            context = await thread_pool.run(lambda: _load(self._ssl_context))
        finally:
            thread_pool.close(patience=0)
        from clicket.safety.transport import open_client

        # Nothing waits between here and the end, and no other thread touches this loop's entry.
        for other in [known for known in list(self._clients) if known.is_closed()]:
            self._clients.pop(other, None)
        if loop not in self._clients:
            self._clients[loop] = open_client(self._guard, context, self._network)
        return self._clients[loop]

    async def close(self) -> None:
        """Close the client of the running loop, not those of other loops. A later `client` opens a new one."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def _load(given: ssl.SSLContext | None) -> ssl.SSLContext:
    from clicket.tools import exchange as _  # noqa: F401  the import is the point

    return given or ssl_context()
