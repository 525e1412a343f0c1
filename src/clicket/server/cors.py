"""CORS for pages of allowed origins: which request headers they may send, and which response headers they may read.

Browsers send and show only the headers that are listed here, beside a few that need no list. A test compares `REQUEST_HEADERS` with the
headers that the server's code reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["EXPOSED_HEADERS", "REQUEST_HEADERS", "preflight_headers", "with_cors"]

REQUEST_HEADERS = (
    "authorization", "x-api-key", "content-type", "idempotency-key", "last-event-id",
    "range", "if-range", "if-none-match",
    "traceparent", "tracestate",
    "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name",
    "a2a-version",
)  # fmt: skip
EXPOSED_HEADERS = (
    "location", "retry-after", "www-authenticate",
    "content-range", "accept-ranges", "content-disposition", "etag",
    "mcp-session-id",
)  # fmt: skip
_TOOL_PARAMETER = re.compile(r"mcp-param-[a-z0-9!#$%&'*+.^_`|~-]{1,200}")
"""MCP clients repeat arguments of some tools in headers: their names depend on the tools."""
_MAX_TOOL_PARAMETERS = 50
_EXPOSED = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())


def preflight_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of the response to a preflight request. `headers`: those of the request."""
    asked = [value.decode("latin-1") for name, value in headers if name == b"access-control-request-headers"]
    names = [name.strip().lower() for text in asked for name in text.split(",")]
    parameters = [name for name in names if _TOOL_PARAMETER.fullmatch(name)][:_MAX_TOOL_PARAMETERS]
    return (
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", ", ".join((*REQUEST_HEADERS, *parameters)).encode()),
        (b"access-control-max-age", b"600"),
    )


def with_cors(send: Any, origin: bytes) -> Any:
    """Adds the headers that let a page of another, allowed origin read the response. `send`: ASGI's."""

    async def send_with_cors(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message["headers"] if name != b"cross-origin-resource-policy"]
            allowed = (b"access-control-allow-origin", origin)
            message = {**message, "headers": [*headers, allowed, _EXPOSED, (b"vary", b"origin")]}
        await send(message)

    return send_with_cors
