"""What the events of a call say about its attempts: its age, deaths of its workers, retries, a decision that no process has applied yet."""

from __future__ import annotations

from typing import Any

from clicket.engine.call.doubt import Doubt
from clicket.engine.executors.inputs import asked_for_input
from clicket.engine.journal import Entry
from clicket.engine.live_call import Call
from clicket.kernel import State
from clicket.model import Record, ToolError
from clicket.model.ports import Clock, elapsed
from clicket.tools import Options

__all__ = ["age_of", "deaths_of", "doubt_of", "ending_decision_in", "faults_of", "retries_of", "unknown_outcome"]

_AT_WORK = (State.INITIALIZING, State.RUNNING, State.STREAMING)
_NO_RETRY = ("credential_missing", "outcome_unknown")
_NO_FAILURE = ("credential_missing",)


def age_of(clock: Clock, record: Record, first: dict[str, Any]) -> float:
    """Seconds since the call was made, or since its time (`not_before`); below 0: it must wait that long. `first`: of its first event."""
    age = elapsed(clock, record.created_at, first)
    return age if record.not_before is None else age - max(record.not_before - record.created_at, 0.0)


def ending_decision_in(entry: Entry) -> dict[str, Any] | None:
    """The decision of a person who denied the call, or answered in the tool's place, while no process had it."""
    given = next((e.data for e in reversed(entry.events) if e.type == "approval_given"), None)
    ends = (
        not asked_for_input(entry.events)
        and given is not None
        and (given.get("approved") is not True or given.get("responded") is True)
    )
    return given if ends else None


def deaths_of(entry: Entry) -> int:
    """How often a worker died over this call. Waiting and a release do not count. A turn of an agent takes long, so only deaths
    since its last step count, or since it waited for a person."""
    before = 0
    for event in entry.events:
        if event.type == "note":
            if "claims" in event.data and event.state in _AT_WORK:
                before += 1
            elif entry.internal and ("entry" in event.data or "waits" in event.data):
                before = 0
    return before + (entry.state in _AT_WORK)


def retries_of(call: Call) -> int:
    """How many retries were used. A run after a death, after a wait for a credential, or with a person's answer, is not a retry."""
    return _ended_in(call, _NO_RETRY)


def faults_of(call: Call) -> int:
    """How many attempts failed, or had an outcome that was unknown, before the last one. A wait for a credential, or for a person's
    answer, is not a failure."""
    return _ended_in(call, _NO_FAILURE)


def _ended_in(call: Call, without: tuple[str, ...]) -> int:
    """How many attempts ended with an error whose code is not in `without`, and were followed by another."""
    retrying = (
        e.data.get("error") for e in call.entry.events if e.type == "state_changed" and e.state is State.RETRYING
    )
    return sum(1 for error in retrying if error is not None and error.get("code") not in without)


def doubt_of(options: Options, *, is_cancelled: bool = False) -> Doubt:
    return Doubt(
        may_repeat=options.reruns,
        has_check=options.reconcile is not None,
        asks=options.recovery == "ask",
        is_cancelled=is_cancelled,
    )


def unknown_outcome(message: str) -> ToolError:
    return ToolError(code="outcome_unknown", message=message, type="OutcomeUnknown")
