"""Responses to HEAD have the headers and no body, whatever server runs the application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from clicket.server.responses import ChunkedResponse, Response


async def _never() -> AsyncIterator[bytes]:
    raise AssertionError("HEAD must not read the body")
    yield b""


def _whole() -> Response:
    return Response(200, b"some bytes", b"text/plain")


def _pieces() -> ChunkedResponse:
    return ChunkedResponse(200, _never(), 10, b"text/plain", patience=1.0)


@pytest.mark.parametrize("make", [_whole, _pieces])
async def test_head_sends_no_body(make: Any) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await make()({"method": "HEAD"}, None, send)
    start, body = sent
    assert (b"content-length", b"10") in start["headers"]
    assert body == {"type": "http.response.body", "body": b""}
