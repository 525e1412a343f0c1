"""Tokens that only the authorization server can read: it is asked about each (RFC 7662), and its answer is used for a short time.

A revoked token is therefore refused after `introspection_cache` seconds at the latest. What the answer says is judged as strictly as
a signed token: issuer, audience, subject and times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import msgspec

from clicket import system
from clicket.safety.oauth.claims import Claims, check_claims, check_times, decode_claims
from clicket.safety.oauth.config import OAuthConfig
from clicket.safety.oauth.refusals import IssuerUnavailable, TokenRefused

__all__ = ["Introspection"]

_MAX_CACHED = 10_000
_MAX_AT_ONCE = 16
_MAX_WAITING = 256
"""Questions that wait for others. Anybody can send unknown tokens; those beyond this are answered with 503 at once."""


class Introspection:
    """`ask(token)` gets the authorization server's answer; it raises `IssuerUnavailable`."""

    def __init__(
        self,
        config: OAuthConfig,
        ask: Callable[[str], Awaitable[dict[str, Any]]],
        *,
        clock: Callable[[], float] = system.monotonic,
        now: Callable[[], float] = system.now,
    ) -> None:
        self._config = config
        self._ask = ask
        self._clock = clock
        self._now = now
        self._answers: dict[bytes, tuple[float, Claims]] = {}
        self._asking: dict[bytes, asyncio.Task[Claims]] = {}
        self._slots = asyncio.Semaphore(_MAX_AT_ONCE)

    async def validate(self, token: str) -> Claims:
        """The claims of a valid token. Raises `TokenRefused` or `IssuerUnavailable`."""
        digest = sha256(token.encode()).digest()
        kept_until, claims = self._answers.get(digest, (float("-inf"), None))
        if claims is None or self._clock() >= kept_until:
            claims = await self._answer(digest, token)
        if claims.active is not True:
            raise TokenRefused("the authorization server does not know the token, or it was revoked or has expired.")
        check_claims(claims, self._config.issuer)
        if claims.token_type is not None and claims.token_type.lower() != "bearer":
            raise TokenRefused("the token is not a bearer access token.")
        check_times(claims, self._now(), self._config.leeway)
        return claims

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, digest: bytes, token: str) -> Claims:
        """The answer; requests with the same token share one question."""
        task = self._asking.get(digest)
        if task is None:
            if len(self._asking) >= _MAX_WAITING:
                raise IssuerUnavailable("too many tokens wait for the authorization server. Try again in a moment.")
            task = self._asking[digest] = asyncio.get_running_loop().create_task(self._ask_and_keep(digest, token))
            task.add_done_callback(_seen)
        return await asyncio.shield(task)

    async def _ask_and_keep(self, digest: bytes, token: str) -> Claims:
        try:
            async with asyncio.timeout(2 * self._config.timeout), self._slots:
                given = await self._ask(token)
            claims = _claims(given, self._config.issuer)
        except TimeoutError:
            raise IssuerUnavailable("the authorization server did not answer in time.") from None
        finally:
            del self._asking[digest]
        if self._config.introspection_cache:
            if len(self._answers) >= _MAX_CACHED:
                self._answers.clear()
            self._answers[digest] = (self._clock() + self._config.introspection_cache, claims)
        return claims


def _claims(given: dict[str, Any], issuer: str) -> Claims:
    """An answer without `iss` is of the issuer that was asked. Answers about tokens that are not active say nothing else."""
    if given.get("active") is not True:
        return Claims(active=False)
    try:
        claims = decode_claims(given)
    except TokenRefused:
        raise IssuerUnavailable("the authorization server's answer about the token is malformed.") from None
    return claims if claims.iss is not None else msgspec.structs.replace(claims, iss=issuer)


def _seen(task: asyncio.Task[Claims]) -> None:
    """Marks the error as retrieved: all waiters may be gone."""
    if not task.cancelled():
        task.exception()
