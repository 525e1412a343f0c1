"""One request to run a tool, as its caller writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

__all__ = ["DEFAULT_THREAD", "Arguments", "CallOptions", "ToolCall"]

DEFAULT_THREAD = "default"
"""The thread of calls that name none. It is no conversation: callers that have nothing to do with each other share it."""


Arguments = Mapping[str, Any] | str | bytes | None
"""What a tool is called with: a mapping, or JSON text."""


class CallOptions(TypedDict, total=False):
    """The keywords of a call beside its tool and arguments, the same wherever a call can be made."""

    id: str | None
    thread: str
    timeout: float | None
    deadline: float | None
    priority: int
    request_id: str | None
    metadata: Mapping[str, Any] | None


class _Request(msgspec.Struct, frozen=True, gc=False):
    tool: str
    arguments: Arguments = None


class ToolCall(_Request, frozen=True, kw_only=True, gc=False):
    """`timeout` limits each attempt, `deadline` the whole call, both in seconds. Higher `priority` leaves the queue first."""

    id: str | None = None
    thread: str = DEFAULT_THREAD
    timeout: float | None = None
    deadline: float | None = None
    priority: int = 0
    request_id: str | None = None
    metadata: Mapping[str, Any] | None = None
