"""Requests to authorization servers, through the address guard of REST tools. Redirects are not followed.

Secrets are in bodies and headers, never in a URL; errors have the server's error code and nothing else of its response.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.errors import ClicketError, RetryableError
from clicket.safety.certificates import load_ssl_context
from clicket.safety.credentials.provider import Provider, is_confidential
from clicket.safety.guard import AddressGuard, AddressRefused

if TYPE_CHECKING:
    import httpx2

__all__ = ["OAuthHttp", "ProviderMoved", "ProviderRefused", "ProviderUnreachable"]

_MAX_BODY = 256 * 1024
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class ProviderRefused(ClicketError):
    """The authorization server said no; `error` is its code (`invalid_grant`, …)."""

    code = "credential_missing"
    blames_tool = False

    def __init__(self, message: str, *, error: str = "") -> None:
        super().__init__(message)
        self.error = error


class ProviderMoved(ProviderRefused):
    """The authorization server is another one than the one that a secret is for. Nothing was sent."""


class ProviderUnreachable(RetryableError):
    """No answer, or one that cannot be used: the same may succeed later."""

    blames_tool = False


class OAuthHttp:
    """Keeps connections; one client for servers on the internet, one for those that may be private."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._opening = asyncio.Lock()

    async def get(self, provider: Provider, url: str) -> dict[str, Any] | None:
        """A JSON document; None: there is none at this URL."""
        status, _, body = await self._request(provider, "GET", url, {"accept": "application/json"}, None)
        if status in _TRANSIENT:
            raise ProviderUnreachable(f"provider {provider.name!r} answered {status} to a request for its metadata.")
        return _object(body) if status == 200 else None

    async def challenge(self, provider: Provider, url: str) -> str:
        """The `WWW-Authenticate` header of a resource that is asked for without a token; empty: it sent none."""
        headers = {"accept": "application/json, text/event-stream"}
        _, answered, _ = await self._request(provider, "GET", url, headers, None)
        return answered.get("www-authenticate", "")

    async def post(
        self, provider: Provider, url: str, content: bytes, headers: Mapping[str, str], *, what: str
    ) -> dict[str, Any]:
        """The JSON object of a response with a status of 2xx; `ProviderRefused`, or `ProviderUnreachable`."""
        given = {"accept": "application/json", **headers}
        status, _, body = await self._request(provider, "POST", url, given, content)
        answer = _object(body)
        error = answer.get("error") if answer is not None else None
        code = error if isinstance(error, str) and _CODE.fullmatch(error) else ""
        if status in _TRANSIENT or (status == 400 and code in ("temporarily_unavailable", "slow_down")):
            raise ProviderUnreachable(f"provider {provider.name!r} answered {status} to {what}.")
        if not 200 <= status < 300 or error is not None:  # some servers send their errors with status 200
            said = f" ({code})" if code else ""
            raise ProviderRefused(f"provider {provider.name!r} refused {what}: {status}{said}.", error=code)
        if answer is None:
            raise ProviderUnreachable(f"provider {provider.name!r} answered {what} with something that is not JSON.")
        return answer

    async def _request(
        self, provider: Provider, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        if not is_confidential(url, allow_private=provider.allow_private):
            raise ProviderRefused(f"provider {provider.name!r} has an address that does not begin with https://.")
        client = await self._client(provider.allow_private)
        import httpx2

        body = bytearray()
        try:
            async with (
                asyncio.timeout(provider.timeout),
                client.stream(method, url, headers=dict(headers), content=content) as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_BODY:
                        raise ProviderUnreachable(f"provider {provider.name!r} sent more than {_MAX_BODY} bytes.")
                found = {name.lower(): value for name, value in response.headers.items()}
                return response.status_code, found, bytes(body)
        except TimeoutError:
            raise ProviderUnreachable(
                f"provider {provider.name!r} did not answer within {provider.timeout:g} s."
            ) from None
        except AddressRefused:
            raise ProviderRefused(
                f"the address of provider {provider.name!r} is a private one. allow_private = true allows it."
            ) from None
        except RetryableError:
            raise
        except (ClicketError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise ProviderUnreachable(
                f"provider {provider.name!r} cannot be reached: {type(error).__name__}."
            ) from None

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


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None
