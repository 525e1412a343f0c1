"""MCP, both ways: a runtime as an MCP server, and the tools of other MCP servers in a runtime.

Serving: `endpoint` is HTTP, `stdio` stdin and stdout, `server` the handlers: `tool_calls` (`tools/call`), `tool_definitions`
(`tools/list`), `tasks` and `task_state`, `subscriptions`, `log_levels`. `request_context` is what a handler knows of a request,
`input_requests` what a tool asks the client for (elicitation, sampling, roots), `results` and `image_content` the results. `content` is
what tools may return. Approvals are asked for in `tasks`.

Importing: `remote_server` is another server, `imported_tool` one of its tools, `connection` the connection to it, `transports`
HTTP and processes, `process_ancestry` stops servers from starting each other, `client_logs` limits the SDK's log.
"""

from __future__ import annotations

try:
    import mcp.server.lowlevel as _sdk  # noqa: F401  # only for the error message below
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
from clicket.mcp.remote_server import McpServer, declared_servers, join_declared, mcp_tools
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
