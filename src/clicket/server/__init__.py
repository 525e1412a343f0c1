"""The runtime as a service over HTTP. Every request is authenticated; a key sees nothing of another.

`create_app(runtime)` is an ASGI application (Starlette); `serve(runtime, host=…, port=…)` runs it. Both need the extra `server`.

    http_server, protocol    uvicorn, its socket, and limits of connections and headers
    app                      makes the parts and the routes
    middleware               checks every request: host_check, authentication (keys), then the access_log
    endpoint, operations     one operation: its route, scopes, parameters (parameters.py), body and responses; openapi describes all
    calls, approvals, events, artifacts, agents, tool_states, tools, cache, report, health, console, mcp    the operations
    request, request_body, responses, schemas, problems    HTTP requests, their bodies, responses, JSON schemas, errors
    call_lookup, artifact_access    which calls and artifacts a key may see
    event_stream             server-sent events to many clients; sources are event_feeds (one call or agent) and event_log (all calls)
    revocation, shutdown     end streams of revoked keys; end everything
    options                  limits and timeouts
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from clicket.errors import UsageError

__all__ = ["Options", "create_app", "serve", "serving"]

# Imported on first use, so that `clicket keys` works without a web framework.
_HOMES = {
    "Options": "clicket.server.options",
    "allow_connections": "clicket.server.http_server",
    "create_app": "clicket.server.app",
    "serve": "clicket.server.http_server",
    "serving": "clicket.server.http_server",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'clicket.server' has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("clicket"):
            raise
        raise UsageError(
            f"the server needs the package {missing.name!r}, which is not installed. "
            "Install it with: pip install 'clicket[server]'."
        ) from None
