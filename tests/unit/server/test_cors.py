"""Pages of other origins may send every header that the server reads. What it reads is taken from its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from mcp.server.streamable_http import LAST_EVENT_ID_HEADER, MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER
from tests.kit.imports import parsed

import clicket
from clicket.server.cors import REQUEST_HEADERS, preflight_headers

BY_THE_BROWSER = {"accept", "accept-language", "accept-encoding", "content-length", "host", "origin"}
"""The browser writes these, or lets pages write them without a permission."""


def read_headers() -> Iterator[str]:
    """The names in `….header(b"name")` of the server, and in `headers.get("name")` of MCP."""
    root = Path(clicket.__file__).parent
    for folder, method in (("server", "header"), ("adapters/mcp", "get")):
        for file in (root / folder).rglob("*.py"):
            for node in ast.walk(parsed(file.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                    continue
                owner, first = node.func.value, node.args[0]
                if node.func.attr != method or not isinstance(owner, ast.Name) or not isinstance(first, ast.Constant):
                    continue
                if owner.id == ("request" if method == "header" else "headers"):
                    yield first.value.decode() if isinstance(first.value, bytes) else str(first.value)


def test_every_header_that_is_read_may_be_sent() -> None:
    found = set(read_headers())
    assert {"last-event-id", "idempotency-key", "a2a-version", "mcp-session-id"} <= found, "the code is read"
    protocol = {
        LAST_EVENT_ID_HEADER,
        MCP_SESSION_ID_HEADER,
        MCP_PROTOCOL_VERSION_HEADER,
        MCP_METHOD_HEADER,
        MCP_NAME_HEADER,
    }
    keys = {"authorization", "x-api-key", "traceparent", "tracestate"}
    assert (found | protocol | keys) - BY_THE_BROWSER <= set(REQUEST_HEADERS)


def test_headers_of_tool_parameters_are_bounded() -> None:
    asked = ", ".join(f"mcp-param-{number}" for number in range(1_000)).encode()
    allowed = dict(preflight_headers([(b"access-control-request-headers", asked)]))[b"access-control-allow-headers"]
    assert allowed.count(b"mcp-param-") == 50
