"""One request to run a tool, as its caller writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

__all__ = ["DEFAULT_THREAD", "Arguments", "CallOptions", "ToolCall", "seconds_of"]

DEFAULT_THREAD = "default"
"""The thread of calls that name none. It is not a conversation: callers that have nothing to do with each other share it."""


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
    not_before: float | datetime | None


class _Request(msgspec.Struct, frozen=True, gc=False):
    tool: str
    arguments: Arguments = None


class ToolCall(_Request, frozen=True, kw_only=True, gc=False):
    """`timeout` limits each attempt, `deadline` the whole call, both in seconds. Higher `priority` leaves the queue first.

    `not_before`: the call waits in the store until then: a datetime with a time zone, or seconds since the epoch. Its deadline counts
    from then."""

    id: str | None = None
    thread: str = DEFAULT_THREAD
    timeout: float | None = None
    deadline: float | None = None
    priority: int = 0
    request_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    not_before: float | datetime | None = None


def seconds_of(time: float | datetime) -> float:
    """Seconds since the epoch."""
    return time.timestamp() if isinstance(time, datetime) else float(time)
