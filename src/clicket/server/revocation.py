"""Ends streams whose key was revoked or has expired. While a key has open streams, it is checked again once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clicket.errors import ClicketError
from clicket.server.authentication import Authenticator
from clicket.server.problems import Refused
from clicket.server.shutdown import end_task

__all__ = ["RevocationWatch"]

logger = logging.getLogger("clicket.server")
_CHECK_EVERY = 1.0
_KEY_HEADERS = (b"authorization", b"x-api-key")

Credentials = tuple[tuple[tuple[bytes, bytes], ...], Any]
"""The headers of a request that hold its key; without a key, the address of the client."""


class RevocationWatch:
    """The open streams of a server, by their credentials."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.streams: dict[Credentials, dict[object, Callable[[], object]]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, scope: Any, end: Callable[[], object]) -> Iterator[None]:
        """Call `end` if the key of a request becomes invalid while the block runs."""
        headers = tuple((name, value) for name, value in scope["headers"] if name in _KEY_HEADERS)
        credentials: Credentials = (headers, None if headers else scope.get("client"))
        stream = object()
        self.streams.setdefault(credentials, {})[stream] = end
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._check_streams())
        try:
            yield
        finally:
            ends = self.streams[credentials]
            del ends[stream]
            if not ends:
                del self.streams[credentials]

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)

    async def _check_streams(self) -> None:
        while self.streams:
            await asyncio.sleep(_CHECK_EVERY)
            for credentials in list(self.streams):
                if not await self._is_valid(credentials):
                    for end in list(self.streams.get(credentials, {}).values()):
                        end()
        self._task = None

    async def _is_valid(self, credentials: Credentials) -> bool:
        headers, client = credentials
        try:
            await self._authenticator.authenticate(list(headers), client)
        except Refused:
            return False
        except ClicketError:  # the store does not answer: the key counts as valid until it does
            return True
        except Exception:  # the other keys must still be checked
            logger.exception("the key of an open stream could not be checked")
        return True
