"""Responses: a whole small body, a large one in chunks, or one that was sent already. All have security headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from clicket.model.codec import encode

__all__ = ["JSON", "AlreadySent", "ChunkedResponse", "Response", "abort", "json_response"]

JSON = b"application/json"
Headers = list[tuple[bytes, bytes]]

_SECURITY: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NO_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class Response:
    """A response with its whole body. `policy` is the content security policy of a page; all others may load nothing."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        kind: bytes | None = JSON,
        *headers: tuple[bytes, bytes],
        policy: bytes = b"",
    ) -> None:
        csp = (b"content-security-policy", policy) if policy else _NO_CONTENT_POLICY
        self.status = status
        self.body = body
        self.headers: Headers = [*_SECURITY, csp, *headers]
        if kind is not None and status not in (204, 304):
            self.headers.append((b"content-type", kind))
        if status != 204:
            self.headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else self.body})


class AlreadySent:
    """Nothing is left to send: the handler has sent a stream itself."""

    __slots__ = ("status",)

    def __init__(self, status: int = 200) -> None:
        self.status = status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        return


class ChunkedResponse:
    """A response of known size, sent in chunks. A client that reads nothing for `patience` seconds is disconnected."""

    __slots__ = ("chunks", "headers", "patience", "status")

    def __init__(
        self,
        status: int,
        chunks: AsyncIterator[bytes],
        size: int,
        kind: bytes,
        *headers: tuple[bytes, bytes],
        patience: float,
    ) -> None:
        self.status = status
        self.chunks = chunks
        self.patience = patience
        length = (b"content-length", b"%d" % size)
        self.headers: Headers = [*_SECURITY, _NO_CONTENT_POLICY, *headers, (b"content-type", kind), length]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            async for chunk in self.chunks:
                async with asyncio.timeout(self.patience):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            async with asyncio.timeout(self.patience):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            abort(scope)


def json_response(value: Any, status: int = 200, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, encode(value), JSON, *headers)


def abort(scope: Any) -> None:
    """Drop the connection of a client that does not read. An orderly close would wait for it."""
    transport = scope.get("clicket.transport")
    if transport is not None:
        transport.abort()
