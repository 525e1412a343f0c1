"""A POST for each change of a tool's status, with a few retries. Pending ones are lost when the process ends; the hub has the status."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from clicket.bridge import fulfil
from clicket.hub.hub import Change
from clicket.ports import Clock
from clicket.tools.certificates import ssl_context

__all__ = ["Webhook"]

logger = logging.getLogger("clicket.hub")

_TRIES = 4
_FIRST_WAIT = 0.5
_TIMEOUT = 5.0
_LAST = 2.0
_MAX_WAITING = 1_000


class Webhook:
    """`secret` signs the body: `X-Clicket-Signature: sha256=<hex>`, an HMAC that the receiver can check."""

    def __init__(
        self, url: str, secret: str | None, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock
        self._spawn = spawn
        self._client: Any = None
        self._waiting = 0
        self._sleepers: set[asyncio.Future[None]] = set()
        self._idle = asyncio.Event()
        self._closed = False

    def __call__(self, change: Change) -> None:
        if self._closed or self._waiting >= _MAX_WAITING:
            why = "the runtime closes" if self._closed else "it does not keep up"
            logger.warning("the webhook was not notified that %s is %s: %s", change.tool, change.after, why)
            return
        self._waiting += 1
        self._idle.clear()
        self._spawn(self._send(change))

    async def _send(self, change: Change) -> None:
        import httpx2

        try:
            if self._client is None:
                self._client = httpx2.AsyncClient(
                    timeout=_TIMEOUT, follow_redirects=False, verify=ssl_context(trust_env=True)
                )
            body = msgspec.json.encode({"type": "tool_status_changed", **msgspec.to_builtins(change)})
            headers = {"content-type": "application/json"}
            if self._secret:
                headers["x-clicket-signature"] = f"sha256={hmac.new(self._secret.encode(), body, 'sha256').hexdigest()}"
            problem = await self._try(body, headers, httpx2.HTTPError)
            if problem:
                logger.warning(
                    "the webhook could not be notified that %s is %s: %s", change.tool, change.after, problem
                )
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def _try(self, body: bytes, headers: dict[str, str], broken: type[Exception]) -> str:
        """POST with retries. Returns the last problem, or an empty text on success."""
        wait, problem = _FIRST_WAIT, ""
        for number in range(1, _TRIES + 1):
            try:
                response = await self._client.post(self._url, content=body, headers=headers)
                if response.status_code < 400:
                    return ""
                problem = f"it answered {response.status_code}"
                if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
                    break
            except broken as error:
                problem = f"{type(error).__name__}: {error}"
            if number < _TRIES and not self._closed:
                await self._sleep(wait)
                wait *= 2
            if self._closed:
                break
        return problem

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the runtime closes."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.add(woken)
        timer = self._clock.call_later(seconds, fulfil, woken)
        try:
            await woken
        finally:
            timer.cancel()
            self._sleepers.discard(woken)

    async def close(self) -> None:
        """Wait up to 2 seconds for requests under way; start no retry."""
        self._closed = True
        for sleeper in self._sleepers:
            fulfil(sleeper)
        if self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _LAST)
        if (
            self._client is not None and not self._waiting
        ):  # else the engine cancels the requests that are still under way
            await self._client.aclose()
