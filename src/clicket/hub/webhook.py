"""A POST for each change of a tool's status. Tried a few times; lost with the process: the hub itself is the truth."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket.hub.hub import Change
from clicket.ports import Clock, sleep

__all__ = ["Webhook"]

logger = logging.getLogger("clicket.hub")

_TRIES = 4
_FIRST_WAIT = 0.5
_TIMEOUT = 5.0
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

    def __call__(self, change: Change) -> None:
        if self._waiting >= _MAX_WAITING:
            logger.warning("the webhook does not keep up; a change of %s was not sent", change.tool)
            return
        self._waiting += 1
        self._spawn(self._send(change))

    async def _send(self, change: Change) -> None:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False)
        body = msgspec.json.encode({"type": "tool_status_changed", **msgspec.to_builtins(change)})
        headers = {"content-type": "application/json"}
        if self._secret:
            headers["x-clicket-signature"] = f"sha256={hmac.new(self._secret.encode(), body, 'sha256').hexdigest()}"
        try:
            wait, problem = _FIRST_WAIT, ""
            for number in range(1, _TRIES + 1):
                try:
                    answer = await self._client.post(self._url, content=body, headers=headers)
                    if answer.status_code < 400:
                        return
                    problem = f"it answered {answer.status_code}"
                    if 400 <= answer.status_code < 500 and answer.status_code not in (408, 429):
                        break
                except httpx2.HTTPError as error:
                    problem = f"{type(error).__name__}: {error}"
                if number < _TRIES:
                    await sleep(self._clock, wait)
                    wait *= 2
            logger.warning("the webhook could not be told that %s is %s: %s", change.tool, change.after, problem)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
