"""The issuer's keys, as they are now: fetched when needed, kept for a bounded time, fetched again when a token names an unknown key.

From half of its time on, a set is renewed in the background while it is still used, so that a short outage of the issuer is not seen.
After its time it is not used any more, whatever the issuer answers: a key that was removed may be why it does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from clicket import system
from clicket.safety.oauth.key_set import KeySet
from clicket.safety.oauth.refusals import IssuerUnavailable

__all__ = ["KeyCache"]

logger = logging.getLogger("clicket.oauth")
_UNKNOWN_EVERY = 10.0
"""Seconds between two fetches for unknown keys. Anybody can name unknown keys, and must not make this server a source of requests."""
_RETRY_EVERY = 2.0
"""Seconds between two fetches while the issuer does not answer."""


class KeyCache:
    """`fetch` gets the set; it raises `IssuerUnavailable`. Requests that wait for the same fetch share it."""

    def __init__(
        self, fetch: Callable[[], Awaitable[KeySet]], *, max_age: float, clock: Callable[[], float] = system.monotonic
    ) -> None:
        self._fetch = fetch
        self._max_age = max_age
        self._clock = clock
        self._keys = KeySet()
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._unknown_at = float("-inf")
        self._problem: str | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def keys(self) -> KeySet:
        """The set to judge by; raises `IssuerUnavailable` if there is none that is young enough."""
        age = self._clock() - self._fetched_at
        if age > self._max_age / 2 and (self._problem is None or self._clock() - self._tried_at >= _RETRY_EVERY):
            self._begin()
        if age > self._max_age:
            if self._fetching is not None:
                await asyncio.shield(self._fetching)
            if self._clock() - self._fetched_at > self._max_age:
                raise IssuerUnavailable(self._problem or "the authorization server's keys are not known.")
        return self._keys

    async def after_unknown(self) -> KeySet:
        """The set after another fetch, if the last one for an unknown key is long enough ago: the issuer may have a new key."""
        if self._clock() - self._unknown_at >= _UNKNOWN_EVERY:
            self._unknown_at = self._clock()
            self._begin()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)
        return await self.keys()

    async def close(self) -> None:
        task, self._fetching = self._fetching, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _begin(self) -> None:
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        try:
            keys = await self._fetch()
            if not keys.keys:
                raise IssuerUnavailable("the authorization server has no key that can be used here.")
            self._keys, self._fetched_at, self._problem = keys, self._clock(), None
        except IssuerUnavailable as error:
            self._problem = error.message
            logger.warning("the keys of the authorization server could not be fetched: %s", error.message)
        finally:
            self._fetching = None
