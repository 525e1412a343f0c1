"""Streams live longer than the look at their key that let them in. So each key that has one open is looked at once a second, and
when it was revoked, or its time is over, its streams end. A key is looked at once, however many streams it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError
from clicket.server.problems import Refused

if TYPE_CHECKING:
    from clicket.server.context import Context

__all__ = ["Watch"]

logger = logging.getLogger("clicket.server")
_LOOK_EVERY = 1.0
_WHO = (b"authorization", b"x-api-key")

Shown = tuple[tuple[tuple[bytes, bytes], ...], Any]
"""What a request showed of itself: the headers that hold its key, and without any where it came from."""


class Watch:
    """The open streams of a server, by what they showed at the door."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streams: dict[Shown, dict[object, Callable[[], object]]] = {}
        self._looker: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, scope: Any, end: Callable[[], object]) -> Iterator[None]:
        """Call `end` if the key of a request becomes worthless while the block runs."""
        headers = tuple((name, value) for name, value in scope["headers"] if name in _WHO)
        shown: Shown = (headers, None if headers else scope.get("client"))
        stream = object()
        self._streams.setdefault(shown, {})[stream] = end
        if self._looker is None:
            self._looker = asyncio.get_running_loop().create_task(self._look_around())
        try:
            yield
        finally:
            ends = self._streams[shown]
            del ends[stream]
            if not ends:
                del self._streams[shown]

    async def stop(self) -> None:
        looker, self._looker = self._looker, None
        if looker is not None:
            looker.cancel()
            with suppress(asyncio.CancelledError):
                await looker

    async def _look_around(self) -> None:
        while self._streams:
            await asyncio.sleep(_LOOK_EVERY)
            for shown in list(self._streams):
                if not await self._is_welcome(shown):
                    for end in list(self._streams.get(shown, {}).values()):
                        end()
        self._looker = None

    async def _is_welcome(self, shown: Shown) -> bool:
        headers, client = shown
        try:
            await self._context.doorkeeper.admit(list(headers), client)
        except Refused:
            return False
        except ClicketError:  # the store cannot be asked: nobody can say that the key was revoked
            return True
        except Exception:  # the others must be looked at, too
            logger.exception("the key of an open stream could not be looked at")
        return True
