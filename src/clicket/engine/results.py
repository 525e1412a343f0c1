"""The result of a call that was settled here; equal to the one folded from its events."""

from __future__ import annotations

from clicket.journal import LiveCall
from clicket.kernel import State
from clicket.model import ToolResult

__all__ = ["result_from"]


def result_from(call: LiveCall) -> ToolResult:
    """From what the stages left on the call, without reading its events."""
    given = call.request.metadata if call.secrets is None else call.secrets.metadata
    done = call.outcome is State.COMPLETED
    return ToolResult(
        call_id=call.id,
        tool=call.tool_name,
        state=call.outcome,
        output=call.output if done else None,
        content=call.content if done else "",
        truncated=call.truncated and done,
        artifact=call.artifact if done else None,
        error=None if done else call.error,
        attempts=call.attempt,
        cached=call.cached,
        duration=call.duration,
        stages=dict(call.stages),
        metadata={**given, **call.metadata} if given else call.metadata,
    )
