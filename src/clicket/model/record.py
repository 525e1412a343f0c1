"""A record is the fold of a call's events and holds nothing that they do not say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clicket.errors import StoreUnavailable
from clicket.kernel import CALL, State
from clicket.model.codec import as_text
from clicket.model.event import Event
from clicket.model.result import Stage, ToolError, ToolResult

__all__ = ["Attempt", "Page", "Record", "fold", "read", "result_of"]


class Attempt(msgspec.Struct, kw_only=True):
    """One try. `delay` is the wait that was planned before the next one."""

    number: int
    started_at: float
    ended_at: float | None = None
    outcome: str | None = None
    error: ToolError | None = None
    delay: float | None = None


class Record(msgspec.Struct, kw_only=True):
    """Everything known about a call."""

    id: str
    tool: str
    thread: str
    state: State
    created_at: float
    caller: str = ""
    arguments: Any = None
    refused: dict[str, Any] | None = None
    error: ToolError | None = None
    attempts: list[Attempt] = []
    stages: dict[str, Stage] = {}
    events: list[Event] = []
    updated_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    duration: float | None = None
    waiting_for: str | None = None
    approval: dict[str, Any] | None = None
    """The last question to a person: `why` it was asked, `purpose`, `requested_at`, `deadline`; and once there is an answer
    `approved`, `by`, `reason`, `at`, and `edited`: it came with other arguments."""
    progress: dict[str, Any] | None = None
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    cached: bool = False
    priority: int = 0
    timeout: float | None = None
    deadline: float | None = None
    request_id: str | None = None
    idempotency_key: str = ""
    tool_version: str = ""
    cancel_requested: bool = False
    metadata: dict[str, Any] = {}

    @property
    def success(self) -> bool:
        return self.state is State.COMPLETED


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of history, newest call first. `cursor` fetches the next one; it is None on the last."""

    items: list[Record]
    cursor: str | None = None


def read(call_id: str, events: Iterable[Event]) -> Record:
    """Fold events of a store that other programs may write to; raises `StoreUnavailable` if they make no sense."""
    try:
        return fold(events)
    except Exception as error:
        raise StoreUnavailable(
            f"call {call_id!r} cannot be read: its events make no sense ({type(error).__name__}: {error}). Another program wrote "
            "into the store, or it is damaged: restore it from a backup."
        ) from error


def fold(events: Iterable[Event]) -> Record:
    """Replay events into a record. The first must be `created`; raises `InvalidTransition` if a state does not follow from the
    one before it."""
    iterator = iter(events)
    first = next(iterator)
    data = first.data
    record = Record(
        id=first.call_id,
        tool=data["tool"],
        thread=data["thread"],
        caller=data.get("caller", ""),
        state=first.state,
        arguments=data.get("arguments"),
        refused=data.get("refused"),
        created_at=first.at,
        updated_at=first.at,
        priority=data.get("priority", 0),
        timeout=data.get("timeout"),
        deadline=data.get("deadline"),
        request_id=data.get("request_id"),
        idempotency_key=data.get("idempotency_key", ""),
        tool_version=data.get("tool_version", ""),
        metadata=dict(data.get("metadata") or {}),
        attempts=[],
        stages={},
        events=[first],
    )
    for event in iterator:
        if event.state is not record.state:
            CALL.advance(record.state, event.state)
        record.events.append(event)
        record.updated_at = event.at
        _APPLY.get(event.type, _nothing)(record, event)
        record.state = event.state
    return record


def _nothing(record: Record, event: Event) -> None:
    """Heartbeats, outputs and remarks are in `record.events`; they change no other field."""


def _stage_ended(record: Record, event: Event) -> None:
    data = event.data
    record.stages[data["stage"]] = Stage(outcome=data["outcome"], duration=data["duration"])


def _attempt_started(record: Record, event: Event) -> None:
    if record.started_at is None:
        record.started_at = event.at
    record.attempts.append(Attempt(number=event.data["attempt"], started_at=event.at))


def _state_changed(record: Record, event: Event) -> None:
    data = event.data
    record.waiting_for = data.get("waiting_for")
    error = msgspec.convert(data["error"], ToolError) if data.get("error") else None
    if record.attempts and (event.state.is_terminal or event.state is State.RETRYING):
        attempt = record.attempts[-1]
        if attempt.ended_at is None:
            attempt.ended_at = event.at
            attempt.error = error
            attempt.outcome = "ok" if event.state is State.COMPLETED else error.code if error else str(event.state)
            attempt.delay = data.get("delay")
    if not event.state.is_terminal:
        return
    record.error = error
    record.ended_at = event.at
    record.duration = data.get("duration", event.at - record.created_at)
    record.truncated = data.get("truncated", False)
    if event.state is State.COMPLETED:
        record.output = data.get("output")
        record.content = data["content"] if record.truncated else as_text(record.output)
    record.artifact = data.get("artifact")
    record.cached = data.get("cached", False)
    record.metadata.update(data.get("metadata") or {})


def _progress(record: Record, event: Event) -> None:
    record.progress = event.data


def _cancel_requested(record: Record, event: Event) -> None:
    record.cancel_requested = True


_NO_WORD: dict[str, Any] = {
    "why": "", "purpose": "run", "requested_at": None, "deadline": None,
    "approved": None, "by": "", "reason": "", "at": None, "edited": False,
}  # fmt: skip


def _approval_requested(record: Record, event: Event) -> None:
    data = event.data
    record.waiting_for = "approval"
    asked = {"purpose": data.get("purpose", "run"), "deadline": data.get("deadline"), "why": data.get("reason", "")}
    record.approval = {**_NO_WORD, **asked, "requested_at": event.at}


def _approval_given(record: Record, event: Event) -> None:
    data, edited = event.data, "arguments" in event.data
    word = {"approved": data.get("approved") is True, "by": data.get("by", ""), "reason": data.get("reason", "")}
    record.waiting_for = None
    record.approval = {**(record.approval or _NO_WORD), **word, "at": event.at, "edited": edited}
    if edited:
        record.arguments = data["arguments"]


_APPLY = {
    "stage_ended": _stage_ended,
    "attempt_started": _attempt_started,
    "state_changed": _state_changed,
    "progress": _progress,
    "cancel_requested": _cancel_requested,
    "approval_requested": _approval_requested,
    "approval_given": _approval_given,
}


def result_of(record: Record) -> ToolResult:
    """The result of an ended call, from its record."""
    return ToolResult(
        call_id=record.id,
        tool=record.tool,
        state=record.state,
        output=record.output,
        content=record.content,
        truncated=record.truncated,
        artifact=record.artifact,
        error=record.error,
        attempts=len(record.attempts),
        cached=record.cached,
        duration=record.duration or 0.0,
        stages=record.stages,
        metadata=record.metadata,
    )
