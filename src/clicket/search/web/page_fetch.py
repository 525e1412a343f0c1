"""Downloads one web page. The address is checked at every redirect; size, time and content type are limited.

The request carries no cookies, no referrer and no credentials. The body is decompressed here, in small pieces, so that a small
response cannot become a large one in memory.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from clicket.errors import ClicketError
from clicket.model.version import version
from clicket.safety.guard import AddressRefused

if TYPE_CHECKING:
    import httpx2

__all__ = ["Fetched", "PageFailed", "fetch"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KINDS = frozenset({"text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/pdf"})
_MAX_URL = 2_000
_PIECE_SIZE = 64 * 1024


class PageFailed(ClicketError):
    """A page could not be read."""

    code = "page_failed"


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The downloaded body. `truncated`: the page is longer than `max_size`."""

    url: str
    kind: str
    charset: str | None
    body: bytes
    truncated: bool


async def fetch(
    client: httpx2.AsyncClient, url: str, *, max_size: int, timeout: float, max_redirects: int = 5
) -> Fetched:
    """Download the page at `url`. Raises `PageFailed`."""
    import httpx2

    try:
        async with asyncio.timeout(timeout):
            for _ in range(max_redirects + 1):
                _check(url)
                async with client.stream("GET", url, headers=_headers()) as response:
                    if response.status_code not in _REDIRECTS or "location" not in response.headers:
                        return await _read(response, max_size)
                    url = str(response.url.join(response.headers["location"]).copy_with(fragment=None))
            raise PageFailed(f"it was redirected more than {max_redirects} times")
    except TimeoutError:
        raise PageFailed(f"it took longer than {timeout:.1f} s", timeout=True) from None
    except AddressRefused as error:
        raise PageFailed(f"its address is not allowed: {error.message}") from None
    except PageFailed:
        raise
    except ClicketError as error:  # of the transport
        raise PageFailed(error.message) from None
    except (httpx2.InvalidURL, httpx2.HTTPError, ValueError, zlib.error) as error:
        raise PageFailed(f"it cannot be read: {error}"[:300]) from None


def _headers() -> dict[str, str]:
    return {
        "user-agent": f"clicket/{version()}",
        "accept": "text/html,application/xhtml+xml,text/plain;q=0.8,application/pdf;q=0.7,*/*;q=0.1",
        "accept-encoding": "gzip, deflate",
    }


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise PageFailed(f"its address cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise PageFailed(f"only http and https are followed, not {parts.scheme or 'an address without scheme'!r}")
    if "@" in parts.netloc:
        raise PageFailed("its address has a user or password in it")
    if len(url) > _MAX_URL:
        raise PageFailed(f"its address is longer than {_MAX_URL} characters")


async def _read(response: httpx2.Response, max_size: int) -> Fetched:
    if not 200 <= response.status_code < 300:
        raise PageFailed(f"its server answered {response.status_code} {response.reason_phrase}".rstrip())
    header = Message()
    header["content-type"] = response.headers.get("content-type", "")[:200] or "application/octet-stream"
    kind, charset = header.get_content_type(), header.get_content_charset()
    declared = "content-type" in response.headers
    if declared and kind not in _KINDS:
        raise PageFailed(f"it is {kind}, not a page or a text")
    parts: list[bytes] = []
    size = 0
    async for part in _decompressed(response, max_size):
        parts.append(part)
        size += len(part)
    body = b"".join(parts)
    if not declared:
        kind = "text/html" if body.lstrip()[:1] == b"<" else "text/plain"
    if kind.startswith("text/") and b"\0" in body[:1024] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PageFailed("it is not text")
    return Fetched(url=str(response.url), kind=kind, charset=charset, body=body[:max_size], truncated=size > max_size)


async def _decompressed(response: httpx2.Response, max_size: int) -> AsyncIterator[bytes]:
    """The body, at most one byte more than `max_size`: that byte shows that the page is longer."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise PageFailed(f"it has the content encoding {encoding[:40]}, which was not asked for")
    inflate = _Inflate(raw=False) if encoding not in ("", "identity") else None
    left = max_size + 1
    async for chunk in response.aiter_raw():
        pieces = [chunk] if inflate is None else inflate.feed(chunk, left)
        for piece in pieces:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return


class _Inflate:
    """gzip and deflate. Some servers send deflate without its header."""

    def __init__(self, *, raw: bool) -> None:
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
        self._begun = raw

    def feed(self, data: bytes, limit: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        while data and size < limit and not self._engine.eof:
            try:
                piece = self._engine.decompress(data, _PIECE_SIZE)
            except zlib.error:
                if self._begun:
                    raise
                self._engine, self._begun = zlib.decompressobj(-zlib.MAX_WBITS), True
                continue
            self._begun = True
            data = self._engine.unconsumed_tail
            size += len(piece)
            found.append(piece)
        return found
