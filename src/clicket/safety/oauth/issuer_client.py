"""Requests to the authorization server, through the address guard of REST tools. Redirects are not followed; time and size are bounded.

Whatever it answers ends as a JSON object or as `IssuerUnavailable`. Its text is never repeated: it may hold a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

import msgspec

from clicket.errors import ClicketError
from clicket.safety.certificates import load_ssl_context
from clicket.safety.guard import AddressGuard, AddressRefused
from clicket.safety.oauth.config import OAuthConfig, is_loopback_url
from clicket.safety.oauth.refusals import IssuerUnavailable

if TYPE_CHECKING:
    import httpx2

__all__ = ["IssuerClient"]

_MAX_SIZE = 256 * 1024
"""Bytes of a response. Key sets of the large providers have 2 to 20 KiB."""


class IssuerClient:
    """Keeps connections. `close` it when the server ends."""

    def __init__(self, config: OAuthConfig) -> None:
        self._timeout = config.timeout
        self._allow_private = config.allow_private
        given = (
            config.issuer,
            config.jwks_uri or "",
            config.introspection if isinstance(config.introspection, str) else "",
        )
        # The operator named these hosts. What the issuer's metadata names may not lead to this machine, unless the issuer is on it.
        self._local = frozenset(urlsplit(url).hostname or "" for url in given if url and is_loopback_url(url))
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def get(self, url: str) -> dict[str, Any]:
        return await self._exchange("GET", url, None, {})

    async def post(self, url: str, form: Mapping[str, str], user: str, password: str) -> dict[str, Any]:
        """Post a form, with HTTP Basic credentials (RFC 6749, section 2.3.1)."""
        from base64 import b64encode

        credentials = b64encode(f"{quote_plus(user)}:{quote_plus(password)}".encode()).decode()
        return await self._exchange("POST", url, form, {"authorization": f"Basic {credentials}"})

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _exchange(self, method: str, url: str, form: Any, headers: dict[str, str]) -> dict[str, Any]:
        named = f"the authorization server's {urlsplit(url).path or '/'}"
        if not url.startswith("https://") and not (is_loopback_url(url) and self._local):
            raise IssuerUnavailable(f"{named} is not at an https address, and is not used.")
        client = await self._open()
        import httpx2

        # A compressed body may grow a thousandfold in one step, so none is asked for.
        headers = {"accept": "application/json", "accept-encoding": "identity", **headers}
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream(method, url, data=form, headers=headers) as response,
            ):
                return _object(named, await _body(named, response))
        except TimeoutError:
            raise IssuerUnavailable(f"{named} did not answer within {self._timeout:g} s.") from None
        except AddressRefused as error:
            why = error.message.partition(" If this tool")[0]
            raise IssuerUnavailable(f"{named} is not used: {why} allow_private = true of [oauth] allows it.") from None
        except IssuerUnavailable:
            raise
        except ClicketError as error:  # of the transport
            raise IssuerUnavailable(f"{named} cannot be reached: {error.message}") from None
        except (httpx2.InvalidURL, httpx2.HTTPError, ValueError) as error:
            raise IssuerUnavailable(f"{named} cannot be used: {type(error).__name__}.") from None

    async def _open(self) -> httpx2.AsyncClient:
        async with self._opening:
            if self._client is None:
                context = await load_ssl_context()
                from clicket.safety.transport import open_client

                guard = AddressGuard(allow_private=self._allow_private, allow_hosts=self._local)
                self._client = open_client(guard, context)
        return self._client


async def _body(named: str, response: httpx2.Response) -> bytes:
    if response.status_code != 200:
        said = "; redirects are not followed" if 300 <= response.status_code < 400 else ""
        raise IssuerUnavailable(f"{named} answered {response.status_code}{said}.", status=response.status_code)
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise IssuerUnavailable(f"{named} answered with a compressed body, which was not asked for.")
    read = bytearray()
    async for part in response.aiter_raw():
        read += part
        if len(read) > _MAX_SIZE:
            raise IssuerUnavailable(f"{named} answered with more than {_MAX_SIZE // 1024} KiB.")
    return bytes(read)


def _object(named: str, body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise IssuerUnavailable(f"{named} did not answer with a JSON object.")
    return found
