"""The result of a call that ended here; equal to the one folded from its events."""

from __future__ import annotations

from clicket.call import Call
from clicket.kernel import State
from clicket.model import Stage, ToolResult

__all__ = ["result_from"]


def result_from(call: Call) -> ToolResult:
    """From what the stages left on the call, without reading its events."""
    entry, metadata = call.entry, call.metadata
    given = call.request.metadata if call.secrets is None else call.secrets.metadata
    if given:
        metadata = {**given, **(metadata or {})}
    stages = {name: Stage(outcome, seconds) for name, outcome, seconds in call.admitted}
    for name, outcome, seconds in call.stages:
        stages[name] = Stage(outcome, seconds)
    if call.outcome is State.COMPLETED:
        return ToolResult(
            call_id=entry.id, tool=entry.tool, state=State.COMPLETED, output=call.output, content=call.content,
            truncated=call.truncated, artifact=call.artifact, attempts=entry.attempts, cached=call.cached,
            duration=call.duration, stages=stages, metadata={} if metadata is None else metadata,
        )  # fmt: skip
    return ToolResult(
        call_id=entry.id, tool=entry.tool, state=call.outcome, error=call.error, attempts=entry.attempts,
        cached=call.cached, duration=call.duration, stages=stages, metadata={} if metadata is None else metadata,
    )  # fmt: skip
