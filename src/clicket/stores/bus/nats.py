"""Core NATS as the bus: one subject for all processes of a store, and one for each. Nothing is stored there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Sequence
from typing import Any

import nats.errors
from nats.aio.client import Client

from clicket.stores.bus.carrier import OnText

__all__ = ["NatsCarrier"]

logger = logging.getLogger("clicket.bus")

_WAIT_FIRST = 0.1
_WAIT_MOST = 2.0
_PING_EVERY = 10
_CANCEL_AGAIN = 0.05


class NatsCarrier:
    """Connects in the background. While the server is away nothing is sent or heard, and a warning says so once."""

    max_size = 256 * 1024  # servers take 1 MiB unless they are told otherwise

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        self.name = re.sub(r"(://)[^/@]*@", r"\1***@", url)
        self.trouble: str | None = "it is not connected yet"
        self._url = url
        self._timeout = timeout
        self._subjects: dict[str, int] = {}
        self._space = ""
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._warned = False

    def start(self, space: str, me: int, on_text: OnText) -> None:
        self._space = space
        self._subjects = {f"clicket.{space}.all": 0, f"clicket.{space}.{me}": me}
        self._task = asyncio.get_running_loop().create_task(self._connect(on_text), name="clicket-nats")

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        if self.trouble is not None:
            return
        try:
            async with asyncio.timeout(self._timeout):
                for to, text in messages:
                    await self._client.publish(f"clicket.{self._space}.{to or 'all'}", text)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self._fail(error)

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again, if need be: before Python 3.12 `asyncio.wait_for` in the client may lose it
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN)
        client = self._client
        if client is None:
            return
        if client.is_connected:
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await client.flush()
        with contextlib.suppress(nats.errors.Error, OSError):
            await client.close()  # also one that was still connecting: its socket and tasks must not outlive the loop

    async def _connect(self, on_text: OnText) -> None:
        """Until the first connection; from then on the client connects again by itself."""
        delay = _WAIT_FIRST
        while True:
            try:
                client: Any = Client()  # its types say that waits are whole seconds
                self._client = client
                await client.connect(
                    self._url,
                    name="clicket",
                    no_echo=True,
                    connect_timeout=self._timeout,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_WAIT_FIRST,
                    ping_interval=_PING_EVERY,
                    max_outstanding_pings=2,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_lost,
                    reconnected_cb=self._on_back,
                    allow_reconnect=True,
                )
            except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
                self._client = None
                self._fail(error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _WAIT_MOST)
                continue
            for subject, to in self._subjects.items():
                await client.subscribe(subject, cb=_receiver(to, on_text))
            await self._on_back()
            return

    async def _on_back(self) -> None:
        if self._warned:
            logger.warning("%s: messages arrive again", self.name)
        self._warned, self.trouble = False, None

    async def _on_lost(self) -> None:
        if self._client is None or not self._client.is_closed:
            self._fail(OSError("the connection was lost"))

    async def _on_error(self, error: Exception) -> None:
        if self._client is not None and not self._client.is_connected:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.trouble = f"the bus cannot be reached: {str(error) or type(error).__name__}"
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s: messages are not carried (%s). Calls go on, and are found by looking at the store, a quarter of a second "
                "later; clicket connects again by itself.",
                self.name,
                str(error) or type(error).__name__,
            )


def _receiver(to: int, on_text: OnText) -> Any:
    async def receive(message: Any) -> None:
        on_text(to, message.data)

    return receive
