"""One signed POST to an endpoint, through the address guard of REST tools. Redirects are not followed; responses are not read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from clicket.errors import ClicketError
from clicket.model.version import version
from clicket.safety.certificates import load_ssl_context
from clicket.safety.guard import AddressGuard, AddressRefused
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.facts import clipped
from clicket.telemetry.webhooks.signature import signed_headers

if TYPE_CHECKING:
    import httpx2

__all__ = ["Answer", "HttpSender", "Sender"]

_GONE = 410
_BUSY = (429, 503)
_MAX_RETRY_AFTER = 24 * 3600.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoint said. `problem` is empty if it accepted the notice."""

    status: int | None = None
    problem: str = ""
    retry_after: float | None = None
    gone: bool = False
    """It wants no more notices."""


class Sender(Protocol):
    async def send(self, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer: ...
    async def close(self) -> None: ...


class HttpSender:
    """Keeps connections; one client for endpoints on the internet, one for those that may be private."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._opening = asyncio.Lock()

    async def send(self, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer:
        client = await self._client(endpoint.allow_private)
        import httpx2

        headers = {
            "content-type": "application/json",
            "user-agent": f"clicket/{version()}",
            **signed_headers(endpoint.secrets, id, at, body),
        }
        try:
            async with (
                asyncio.timeout(endpoint.timeout),
                client.stream("POST", endpoint.url, content=body, headers=headers) as response,
            ):
                return _answer(response, at)
        except TimeoutError:
            return Answer(problem=f"it did not answer within {endpoint.timeout:g} s")
        except AddressRefused as error:
            why = error.message.partition(" If this tool")[0].rstrip(".")
            return Answer(problem=clipped(f"its address is not allowed: {why}. allow_private = true allows it", 300))
        except ClicketError as error:  # of the transport
            return Answer(problem=clipped(error.message, 300))
        except (httpx2.InvalidURL, httpx2.HTTPError, ValueError) as error:
            return Answer(problem=clipped(f"the request failed: {type(error).__name__}", 300))

    async def _client(self, private: bool) -> httpx2.AsyncClient:
        async with self._opening:
            if private not in self._clients:
                context = await load_ssl_context()
                from clicket.safety.transport import open_client

                self._clients[private] = open_client(AddressGuard(allow_private=private), context)
        return self._clients[private]

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


def _answer(response: httpx2.Response, now: float) -> Answer:
    from clicket.tools.response import retry_after

    status = response.status_code
    if 200 <= status < 300:
        return Answer(status=status)
    wait = retry_after(response.headers.get("retry-after"), now) if status in _BUSY else None
    said = "redirects are not followed" if 300 <= status < 400 else ""
    return Answer(
        status=status,
        problem=f"it answered {status}" + (f": {said}" if said else ""),
        retry_after=None if wait is None else min(max(wait, 0.0), _MAX_RETRY_AFTER),
        gone=status == _GONE,
    )
