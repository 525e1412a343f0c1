"""The result of a plain call, made of its events without a record: a process that submits many calls reads one for each."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.errors import InvalidTransition
from clicket.kernel import CALL, State
from clicket.model.codec import as_text
from clicket.model.event import Event
from clicket.model.result import Stage, ToolResult

__all__ = ["plain_result"]

_OF_PLAIN_END = frozenset({"from", "to", "duration", "output", "metadata"})
"""What the last event of a call says that completed with an output that is stored as it is."""


def plain_result(events: Sequence[Event]) -> ToolResult | None:
    """As `result_of(read(id, events))`, without the record, for a call that ran and completed with an output that is stored as it is.
    None: there is more to it, or the events make no sense."""
    try:
        return _plain_result(events[0], events[-1], events)
    except (LookupError, TypeError, ValueError, AttributeError, InvalidTransition):
        return None


def _plain_result(first: Event, last: Event, events: Sequence[Event]) -> ToolResult | None:
    end = last.data
    if last.state is not State.COMPLETED or last.type != "state_changed" or not _OF_PLAIN_END.issuperset(end):
        return None
    state, attempts, stages = first.state, 0, {}
    for event in events:
        if event.state is not state:
            state = CALL.advance(state, event.state)
        if event.type == "stage_ended":
            data = event.data
            stages[data["stage"]] = Stage(data["outcome"], data["duration"])
        elif event.type == "attempt_started":
            attempts += 1
        elif event.type not in ("created", "state_changed"):
            return None
    output, metadata = end.get("output"), dict(first.data.get("metadata") or ())
    metadata.update(end.get("metadata") or ())
    return ToolResult(
        call_id=first.call_id,
        tool=first.data["tool"],
        state=state,
        output=output,
        content=as_text(output),
        attempts=attempts,
        duration=end["duration"] or 0.0,
        stages=stages,
        metadata=metadata,
    )
