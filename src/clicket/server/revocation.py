"""Ends streams whose key or access token was revoked or has expired. While it has open streams, it is checked again once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clicket import system
from clicket.errors import ClicketError
from clicket.server.authentication import Authenticator, principal_of
from clicket.server.challenges import MCP
from clicket.server.problems import Refused
from clicket.server.request import route_path
from clicket.server.shutdown import end_task

__all__ = ["RevocationWatch"]

logger = logging.getLogger("clicket.server")
_CHECK_EVERY = 1.0
_KEY_HEADERS = (b"authorization", b"x-api-key")

Credentials = tuple[tuple[tuple[bytes, bytes], ...], Any, str, float | None]
"""The headers of a request that hold its key; without a key, the address of the client; the path, and when its token expires."""


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
        client = None if headers else scope.get("client")
        path = MCP if route_path(scope) == MCP else ""  # else each path would be a check of its own
        credentials: Credentials = (headers, client, path, principal_of(scope).expires_at)
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
        headers, client, path, expires_at = credentials
        try:
            await self._authenticator.authenticate(list(headers), client, path=path)
        except Refused as error:
            if error.code != "issuer_unavailable":
                return False
            return expires_at is None or system.now() < expires_at
        except ClicketError:  # the store does not answer: the key counts as valid until it does
            return True
        except Exception:  # the other keys must still be checked
            logger.exception("the key of an open stream could not be checked")
        return True
