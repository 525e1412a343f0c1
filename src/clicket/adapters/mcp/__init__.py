"""MCP, both ways: a runtime as an MCP server, and the tools of other MCP servers in a runtime.

Serving:

- `server`: the runtime as an MCP server: handlers on the SDK's `Server`
- `endpoint`, `stdio`: over HTTP, and over stdin and stdout
- `tool_definitions`, `tool_calls`: `tools/list` and `tools/call`
- `tasks`, `task_state`: calls that a client follows by id, and their stored state
- `approvals`: the approval question of a task, and the decision
- `input_requests`: what a tool asks the client for (elicitation, sampling, roots)
- `credential_requests`: the question of a call that waits for a credential: a link that the client opens
- `subscriptions`, `log_levels`: `subscriptions/listen` and `logging/setLevel`
- `request_context`: what a handler knows of a request
- `results`, `file_content`, `content`: results of calls, figures as images, and what tools may return
- `apps`, `app_pages`: results and approvals as pages, for hosts that show them

Importing:

- `remote_server`: another server, whose tools are registered with a runtime
- `tool_list`: its tool list, within limits
- `imported_tool`: one of its tools
- `remote_call`, `call_state`: one attempt of a call there; how far it has come, for the next attempt
- `client_tasks`, `parked_tasks`: tasks of the server; those whose calls wait for a person here
- `remote_requests`, `elicitation`, `open_calls`: what the server asks of us, its questions to people, and the calls they belong to
- `remote_logs`: its log messages, limited
- `connection`, `transports`: the connection to it, over HTTP or a process
- `caller_connections`: connections to a server that knows callers by their tokens, one for each caller
- `process_ancestry`: stops servers from starting each other without end
- `client_logs`: limits what the SDK's client logs
"""

from __future__ import annotations

try:
    import mcp.server.lowlevel as _sdk  # noqa: F401  # only for the error message below
except ImportError as error:
    from clicket.errors import UsageError

    raise UsageError("clicket.mcp needs the MCP SDK. Install it: pip install 'clicket[mcp]'.") from error

from clicket.adapters.mcp.content import (
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
from clicket.adapters.mcp.endpoint import McpEndpoint
from clicket.adapters.mcp.remote_server import McpServer, declared_servers, join_declared, mcp_tools
from clicket.adapters.mcp.stdio import serve_stdio

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
