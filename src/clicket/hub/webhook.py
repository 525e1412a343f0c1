"""A POST for each change of a tool's status. Tried a few times; lost with the process: the hub itself is the truth."""

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
        self._naps: set[asyncio.Future[None]] = set()
        self._idle = asyncio.Event()
        self._closed = False

    def __call__(self, change: Change) -> None:
        if self._closed or self._waiting >= _MAX_WAITING:
            why = "the runtime closes" if self._closed else "it does not keep up"
            logger.warning("the webhook was not told that %s is %s: %s", change.tool, change.after, why)
            return
        self._waiting += 1
        self._idle.clear()
        self._spawn(self._send(change))

    async def _send(self, change: Change) -> None:
        import httpx2

        try:
            if self._client is None:
                self._client = httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False)
            body = msgspec.json.encode({"type": "tool_status_changed", **msgspec.to_builtins(change)})
            headers = {"content-type": "application/json"}
            if self._secret:
                headers["x-clicket-signature"] = f"sha256={hmac.new(self._secret.encode(), body, 'sha256').hexdigest()}"
            problem = await self._try(body, headers, httpx2.HTTPError)
            if problem:
                logger.warning("the webhook could not be told that %s is %s: %s", change.tool, change.after, problem)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def _try(self, body: bytes, headers: dict[str, str], broken: type[Exception]) -> str:
        """What went wrong in the end, or nothing."""
        wait, problem = _FIRST_WAIT, ""
        for number in range(1, _TRIES + 1):
            try:
                answer = await self._client.post(self._url, content=body, headers=headers)
                if answer.status_code < 400:
                    return ""
                problem = f"it answered {answer.status_code}"
                if 400 <= answer.status_code < 500 and answer.status_code not in (408, 429):
                    break
            except broken as error:
                problem = f"{type(error).__name__}: {error}"
            if number < _TRIES and not self._closed:
                await self._nap(wait)
                wait *= 2
            if self._closed:
                break
        return problem

    async def _nap(self, seconds: float) -> None:
        """Until the time is over, or the runtime closes."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._naps.add(woken)
        timer = self._clock.call_later(seconds, fulfil, woken)
        try:
            await woken
        finally:
            timer.cancel()
            self._naps.discard(woken)

    async def close(self) -> None:
        """What is being sent gets a moment to arrive; nothing is tried again."""
        self._closed = True
        for nap in self._naps:
            fulfil(nap)
        if self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _LAST)
        if self._client is not None and not self._waiting:  # else whoever still sends is cancelled with the engine
            await self._client.aclose()
