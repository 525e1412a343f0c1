"""Calls that a running call makes: in the name of its caller, in its thread, with its scopes. For clicket's own tools."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from clicket.errors import UsageError
from clicket.model import ToolResult
from clicket.tools.context import ToolContext

__all__ = ["NestedCalls", "nested_calls"]


class NestedCalls(Protocol):
    """Of one running call. Its nested calls are numbered; the same number with the same tool and arguments is the same call, also in
    a later attempt of the running call, so a finished one is not repeated."""

    async def call(self, number: int, tool: str, arguments: bytes) -> ToolResult:
        """Make a call, with arguments as JSON text, and wait for its outcome. Cancelled, it cancels the call, unless the runtime
        closes. Raises `Conflict` if an earlier attempt made another call under this number; other `ClicketError`s if no call could
        be made. While a call waits for a person, the time limit of the running call's attempt stands still.
        """
        ...

    async def refuse(self, number: int, tool: str, arguments: bytes, why: str) -> ToolResult:
        """Record a call that is not allowed, as refused."""
        ...


@runtime_checkable
class _Nesting(Protocol):
    @property
    def nested(self) -> NestedCalls: ...


def nested_calls(ctx: ToolContext) -> NestedCalls:
    """For an async tool that runs on the loop."""
    sink = ctx.sink
    if not isinstance(sink, _Nesting):
        raise UsageError("calls are made from a tool that runs on the event loop of a runtime.")
    return sink.nested
