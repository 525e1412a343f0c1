"""What a caller gets back: one outcome, good or bad. A call that failed is returned, never raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.errors import InvalidTransition, ToolCallFailed
from clicket.kernel import CALL, State
from clicket.model.codec import as_text
from clicket.model.event import Event
from clicket.model.files import FileRef

__all__ = ["Stage", "ToolError", "ToolResult", "failure_text", "plain_result", "size_of"]

_OF_PLAIN_END = frozenset({"from", "to", "duration", "output", "metadata"})
"""What the last event of a call says that completed with an output that is stored as it is."""

_SHOWN = 80


class ToolError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not complete. `code` is for programs, `message` says what to do next, `type` is the exception's."""

    code: str
    message: str
    type: str
    retryable: bool = False
    details: dict[str, Any] = {}

    def __str__(self) -> str:
        """For people and models: a tool's own words alone may be a riddle (`'id'`), so its exception is named (`KeyError: 'id'`)."""
        if self.code == "tool_error" and self.type not in self.message:
            return f"{self.code}: {self.type}: {self.message}"
        return f"{self.code}: {self.message}"


class Stage(msgspec.Struct, frozen=True, gc=False):
    """How one of the six stages ended, and the seconds it took.

    `authorize` is timed also if no rule applies to the call. `execute` is 0 if a person answered in the tool's place. `persist` is the
    time to build the outcome, without its write: what is written cannot contain how long its own write takes. The metric
    `clicket_persist_seconds` has the write.
    """

    outcome: str
    duration: float


def size_of(text: str) -> int:
    """Bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`output` is the value, `artifact` the name of the whole when `content` was cut. `content` is the text for the model: the
    output, or what went wrong."""

    call_id: str
    tool: str
    state: State
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    files: tuple[FileRef, ...] = ()
    """The images and files of the output, in order. `content` has a line for each."""
    error: ToolError | None = None
    attempts: int = 0
    cached: bool = False
    duration: float = 0.0
    stages: dict[str, Stage] = {}
    metadata: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """The call's id, as `record.id` and `handle.id`."""
        return self.call_id

    @property
    def success(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes by stage. `process`: of `content`, which the model reads. The whole of a cut result has `metadata["artifact_size"]`."""
        return {"process": size_of(self.content)} if "process" in self.stages else {}

    def unwrap(self) -> Any:
        """The output of a call that completed; otherwise raises `ToolCallFailed`."""
        if self.success:
            return self.output
        code = str(self.state) if self.error is None else self.error.code
        raise ToolCallFailed(f"call {self.call_id} of {self.tool}: {self.content}", code=code, result=self)

    def __repr__(self) -> str:
        shown = repr(self.output) if self.success else self.content
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
        return f"<result {self.call_id} of {self.tool:.40}: {self.state}, {shown}>"


def failure_text(state: State, error: ToolError | None) -> str:
    """What a model reads of a call that did not complete."""
    return f"the call ended as {state}." if error is None else str(error)


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
    state = first.state
    attempts = 0
    stages = {}
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
    output = end.get("output")
    metadata = dict(first.data.get("metadata") or ())
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
