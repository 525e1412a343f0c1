"""MCP, both ways: a runtime's tools for every MCP client, and other servers' tools for a runtime.

`McpEndpoint` serves over HTTP, `serve_stdio` over stdin and stdout; `McpServer` is another server, whose tools are registered
like any others. A tool that wants to say more than JSON has `reply`, `need` and their kin.
"""

from __future__ import annotations

try:
    import mcp.server.lowlevel as _sdk  # noqa: F401  # only to say what is missing, in words
except ImportError as error:
    from clicket.errors import UsageError

    raise UsageError("clicket.mcp needs the MCP SDK. Install it: pip install 'clicket[mcp]'.") from error

from clicket.mcp.content import (
    ProtocolError,
    answers,
    audio,
    elicit,
    image,
    list_roots,
    need,
    reply,
    resource,
    sample,
    text,
)
from clicket.mcp.endpoint import McpEndpoint
from clicket.mcp.remote import McpServer, declared_servers, join_declared, mcp_tools
from clicket.mcp.stdio import serve_stdio

__all__ = [
    "McpEndpoint",
    "McpServer",
    "ProtocolError",
    "answers",
    "audio",
    "declared_servers",
    "elicit",
    "image",
    "join_declared",
    "list_roots",
    "mcp_tools",
    "need",
    "reply",
    "resource",
    "sample",
    "serve_stdio",
    "text",
]
