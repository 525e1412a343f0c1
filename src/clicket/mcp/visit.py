"""Who asks, and as whom: the runtime as the request's key has it, the thread its calls belong to, what the client can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clicket.runtime import Runtime

__all__ = [
    "ID_META",
    "TASKS",
    "THREAD_META",
    "Access",
    "Context",
    "Key",
    "Visit",
    "caller_of",
    "missing_capability",
    "visit",
]

TASKS = "io.modelcontextprotocol/tasks"
THREAD_META = "io.clicket/thread"
"""In a request's `_meta`: the thread that the call belongs to."""
ID_META = "io.clicket/id"
"""In a request's `_meta`: the call's id. A request that is sent again with the same id is the same call."""
DEFAULT_THREAD = "mcp"
_NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

Context = ServerRequestContext[Any, Any]


class Key(NamedTuple):
    """What a request may do: its key's view of the runtime, and whether the key may decide about approvals."""

    runtime: Runtime
    may_approve: bool = True


Access = Callable[[Any], Key]
"""The key of a request: takes Starlette's Request, or None on stdio."""


class Visit(NamedTuple):
    runtime: Runtime
    may_approve: bool
    thread: str
    id: str | None
    modern: bool
    capabilities: types.ClientCapabilities

    @property
    def has_tasks(self) -> bool:
        return self.modern and TASKS in (self.capabilities.extensions or {})

    def can_answer(self, request: Mapping[str, Any]) -> bool:
        """Did the client say that it can answer such a question?"""
        return getattr(self.capabilities, _NEEDS.get(str(request.get("method")), "none"), None) is not None


def visit(ctx: Context, access: Access) -> Visit:
    """Read a request. The thread is the one it names, else its session's, else the key's own `mcp`."""
    key = access(ctx.request)
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return Visit(
        runtime=key.runtime,
        may_approve=key.may_approve,
        thread=_meta_text(ctx, THREAD_META) or _session_thread(ctx, modern),
        id=_meta_text(ctx, ID_META),
        modern=modern,
        capabilities=ctx.session.client_capabilities or types.ClientCapabilities(),
    )


def _meta_text(ctx: Context, name: str) -> str | None:
    value = (ctx.meta or {}).get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise MCPError(types.INVALID_PARAMS, f"_meta {name!r} must be a text of 1 to 256 characters.")
    return value


def _session_thread(ctx: Context, modern: bool) -> str:
    headers = getattr(ctx.request, "headers", None)
    session = None if modern or headers is None else headers.get("mcp-session-id")
    return f"{DEFAULT_THREAD}-{session}" if session else DEFAULT_THREAD


def caller_of(runtime: Runtime) -> str | None:
    """In whose name a view of the runtime acts; None: the runtime's own."""
    return runtime.caller


def missing_capability(required: dict[str, Any], why: str) -> MCPError:
    """The error for a client that did not say it can do what the request needs."""
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, why, {"requiredCapabilities": required})
