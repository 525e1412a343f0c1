"""The runtime as a service over HTTP. Every request is authenticated; a key sees nothing of another.

`create_app(runtime)` is an ASGI application (Starlette); `serve(runtime, host=…, port=…)` runs it. Both need the extra `server`.

    http_server, protocol    uvicorn, its socket, and limits of connections and headers
    app                      makes the parts and the routes
    middleware               checks every request: `host_check`, `authentication` (`keys`, `access_tokens`), then the `access_log`
    challenges               `WWW-Authenticate` of refused requests
    cors                     which headers pages of allowed origins may send and read
    endpoint, operations     one operation: its route, scopes, parameters (`parameters`), body and responses; `openapi` describes all
    calls, approvals, events, artifacts, agents, tool_states, tools, cache, report, health, console, mcp    the operations
    threads, schedules, workers    conversations; calls that are made again and again; the runtimes over the store
    memory, spend, notices   what agents remember about a caller; tokens and money; what webhook endpoints get
    evals                    runs of evaluations, and their reports
    credentials, grants      credentials of callers; approvals that also let later calls run
    call_actions             run a call again; one action on many calls
    undo                     undo a call, or the calls of a turn
    dead_letters, unknown_outcomes, external_calls    calls that were given up; those of unknown outcome; results from outside
    protected_resource       which authorization server issues tokens for this server
    approval_page, connect_page    pages that links lead to: decide about one call; connect an account
    approval_html, connect_html, page_html    the HTML of these pages, and its frame
    turn_follower, turn_requests    turns for clients of other protocols; which request began or continued which turn
    turn_questions           questions of a turn to those clients, and their answers as decisions
    waits                    the times that a call has waited, numbered
    request, request_body, responses, schemas, problems    HTTP requests, their bodies, responses, JSON schemas, errors
    call_lookup, artifact_access    which calls and artifacts a key may see
    event_stream             server-sent events to many clients; sources: `event_feeds` (one call or agent), `event_log` (all calls)
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
