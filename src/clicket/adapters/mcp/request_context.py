"""What a handler must know of a request: the runtime as its API key sees it, the thread of its calls, the client's capabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clicket.runtime.calls.approvals import Approver
from clicket.runtime.runtime import Runtime

__all__ = [
    "CAPABILITY_OF",
    "ID_META",
    "TASKS",
    "THREAD_META",
    "Access",
    "AccessFor",
    "RequestContext",
    "SdkContext",
    "missing_capability",
    "read_context",
]

TASKS = "io.modelcontextprotocol/tasks"
THREAD_META = "io.clicket/thread"
"""In a request's `_meta`: the thread that the call belongs to."""
ID_META = "io.clicket/id"
"""In a request's `_meta`: the call's id. A request that is sent again with the same id is the same call."""
DEFAULT_THREAD = "mcp"
CAPABILITY_OF = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""The capability that a client must declare before the server may send it this input request."""

SdkContext = ServerRequestContext[Any, Any]


class Access(NamedTuple):
    """What an API key may do: its view of the runtime, whether it may decide about approvals, and whether it may read calls.
    `approver`: the person behind it, under all names; None: the runtime's caller is the only one."""

    runtime: Runtime
    may_approve: bool = True
    may_read: bool = True
    approver: Approver | None = None


AccessFor = Callable[[Any], Access]
"""The access of a request: takes Starlette's Request, or None on stdio."""


class RequestContext(NamedTuple):
    runtime: Runtime
    may_approve: bool
    may_read: bool
    approver: Approver
    thread: str
    id: str | None
    modern: bool
    capabilities: types.ClientCapabilities

    @property
    def has_tasks(self) -> bool:
        return self.modern and TASKS in (self.capabilities.extensions or {})

    def can_answer(self, input_request: Mapping[str, Any]) -> bool:
        """Did the client declare the capability that this input request needs?"""
        needed = CAPABILITY_OF.get(str(input_request.get("method")), "none")
        return getattr(self.capabilities, needed, None) is not None


def read_context(ctx: SdkContext, access_for: AccessFor) -> RequestContext:
    """Read a request. Its thread is the one that it names, else its session's, else `mcp`."""
    access = access_for(ctx.request)
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return RequestContext(
        runtime=access.runtime,
        may_approve=access.may_approve,
        may_read=access.may_read,
        approver=access.approver or Approver(access.runtime.caller or ""),
        thread=_meta_text(ctx, THREAD_META) or _session_thread(ctx, modern),
        id=_meta_text(ctx, ID_META),
        modern=modern,
        capabilities=ctx.session.client_capabilities or types.ClientCapabilities(),
    )


def _meta_text(ctx: SdkContext, name: str) -> str | None:
    value = (ctx.meta or {}).get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise MCPError(types.INVALID_PARAMS, f"_meta {name!r} must be a text of 1 to 256 characters.")
    return value


def _session_thread(ctx: SdkContext, modern: bool) -> str:
    headers = getattr(ctx.request, "headers", None)
    session = None if modern or headers is None else headers.get("mcp-session-id")
    return f"{DEFAULT_THREAD}-{session}" if session else DEFAULT_THREAD


def missing_capability(required: dict[str, Any], why: str) -> MCPError:
    """The error for a client that did not declare what the request needs."""
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, why, {"requiredCapabilities": required})
