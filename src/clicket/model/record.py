"""A record is the fold of a call's events and holds nothing that they do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec

from clicket.errors import StoreUnavailable
from clicket.kernel import CALL, State
from clicket.model.codec import as_text, canonical, encode
from clicket.model.event import Event
from clicket.model.files import FileRef, files_in
from clicket.model.result import Stage, ToolError, ToolResult, failure_text, size_of

__all__ = [
    "NAMED_WAITS",
    "WAITS",
    "Attempt",
    "Page",
    "Record",
    "WaitingFor",
    "approver_names",
    "fold",
    "is_seen",
    "is_unresolved",
    "notes_of",
    "read",
    "result_of",
    "waits_in_doubt",
]

WaitingFor = Literal["approval", "budget", "credential", "dep", "external", "rate", "reconcile", "time"]
"""What a call can wait for, other than a slot: a filter of `history`. A turn can also wait for something that has a name."""
NAMED_WAITS = ("agent", "dep", "model", "tool", "workspace")
"""A turn waits for one of these as `dep:NAME`."""
WAITS = rf"^({'|'.join(get_args(WaitingFor))}|({'|'.join(NAMED_WAITS)}):[^\x00]+)$"
"""Matches all that calls and turns can wait for."""
_LEAST_SEEN = 16
_ON_REQUEST = frozenset(
    {
        "caller",
        "refused",
        "priority",
        "timeout",
        "deadline",
        "not_before",
        "request_id",
        "idempotency_key",
        "tool_version",
    }
)
"""Fields that are in the first event under their names, if they were given."""


class Attempt(msgspec.Struct, kw_only=True, gc=False):
    """One try. `delay` is the wait that was planned before the next one."""

    number: int
    started_at: float
    ended_at: float | None = None
    outcome: str | None = None
    error: ToolError | None = None
    delay: float | None = None
    traceback: str = ""
    """Where the tool raised, masked and at most some thousand characters. For the call's owner and for administrators."""
    worker: str = ""
    """The id of the worker that ran it (`rt.workers.list()`), and the name of its host."""
    host: str = ""


class Record(msgspec.Struct, kw_only=True, gc=False):
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
    """The last question to a person: `why` it was asked, `purpose`, `requested_at`, `deadline`, and the `hash` of what is asked
    for, which an answer can name (`seen=`); and once there is an answer `approved`, `by`, `reason`, `at`, and `edited`: it came
    with other arguments. `approvers`: how many different people must approve; `approvals`: who did, with `by`, `reason` and `at`.
    `self_approval`: the caller may approve, too. `grant`: the id of the grant that approved it, or that was given with the approval.
    `responded`: a person answered in the tool's place. `question`, only if `purpose` is `input`: what the tool itself asks, with
    `source`, `message`, and the `schema` of the answer or the `url` to open."""
    progress: dict[str, Any] | None = None
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    files: tuple[FileRef, ...] = ()
    cached: bool = False
    priority: int = 0
    timeout: float | None = None
    deadline: float | None = None
    not_before: float | None = None
    """The call waits until then, in seconds since the epoch; None: it does not wait."""
    request_id: str | None = None
    idempotency_key: str = ""
    tool_version: str = ""
    cancel_requested: bool = False
    metadata: dict[str, Any] = {}
    resolution: dict[str, Any] | None = None
    """How a person settled an unknown outcome: `happened`, `output`, `by`, `note`, `at`, and `rerun_as`: the id of the call that runs
    it again, or None. The outcome stays as it is."""
    reconciliation: dict[str, Any] | None = None
    """What the tool's own check found about an attempt whose outcome was unknown: the `attempt`, how many `tries`, the `outcome` of the
    last one (`happened`, `did_not_happen`, `continues`, `unknown`, `failed`; None: it runs), the `reason`, and `at`."""
    credential: dict[str, Any] | None = None
    """The last wait for credentials of the caller: `providers`, `reasons` by provider, `since`, `deadline`."""
    external: dict[str, Any] | None = None
    """How the call ends elsewhere: for whom its token is (`for`), `since` when it waits, its `deadline`, and `reported_at`: when the
    result came."""

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self.id

    @property
    def success(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def worker(self) -> str:
        """The id of the worker that ran the last attempt; empty: none has started."""
        return self.attempts[-1].worker if self.attempts else ""

    @property
    def host(self) -> str:
        """The name of the host of that worker."""
        return self.attempts[-1].host if self.attempts else ""

    def __repr__(self) -> str:
        return f"<call {self.id} of {self.tool:.40}: {self.state}, {len(self.events)} events>"

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes by stage. `validate`: of the arguments as JSON, refused ones too. `process`: of `content`, which the model reads. The
        whole of a cut result has `metadata["artifact_size"]`."""
        found: dict[str, int] = {}
        if "validate" in self.stages:
            refused = (self.refused or {}).get("size")
            found["validate"] = refused if isinstance(refused, int) else len(encode(self.arguments))
        if "process" in self.stages:
            found["process"] = size_of(self.content)
        return found


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of history, newest call first. `cursor` fetches the next one; it is None on the last."""

    items: list[Record]
    cursor: str | None = None
    searched_to: float | None = None
    """Set if the search ended before the page was full, because it had looked at 10,000 calls: the time when the last one of these was
    made, in seconds since the epoch. `cursor` continues there."""

    def __repr__(self) -> str:
        more = "" if self.cursor is None else f", more at cursor {self.cursor!r}"
        searched = "" if self.searched_to is None else f", searched to {self.searched_to:.3f}"
        return f"<page of {len(self.items)} calls{searched}{more}>"


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
    first = last = next(iterator)
    data = first.data
    seen = [first]
    stages: dict[str, Stage] = {}
    record = Record(
        id=first.call_id,
        tool=data["tool"],
        thread=data["thread"],
        state=first.state,
        created_at=first.at,
        arguments=data.get("arguments"),
        metadata=dict(data.get("metadata") or ()),
        attempts=[],
        stages=stages,
        events=seen,
    )
    for name in _ON_REQUEST.intersection(data):
        setattr(record, name, data[name])
    for last in iterator:
        if last.state is not record.state:
            CALL.advance(record.state, last.state)
            record.state = last.state
        seen.append(last)
        if last.type == "stage_ended":  # most events are: a call has six of them
            data = last.data
            stages[data["stage"]] = Stage(data["outcome"], data["duration"])
        else:
            apply = _APPLY.get(last.type)
            if apply is not None:  # heartbeats and outputs are only listed
                apply(record, last)
    record.updated_at = last.at
    return record


def _attempt_started(record: Record, event: Event) -> None:
    if record.started_at is None:
        record.started_at = event.at
    data = event.data
    record.attempts.append(
        Attempt(
            number=data["attempt"],
            started_at=event.at,
            worker=str(data.get("worker", "")),
            host=str(data.get("host", "")),
        )
    )


def _state_changed(record: Record, event: Event) -> None:
    data = event.data
    is_terminal = event.state.is_terminal
    record.waiting_for = data.get("waiting_for")
    if not is_terminal and event.state is not State.RETRYING:
        return
    error = msgspec.convert(data["error"], ToolError) if data.get("error") else None
    if record.attempts:
        attempt = record.attempts[-1]
        if attempt.ended_at is None:
            attempt.ended_at = event.at
            attempt.error = error
            attempt.outcome = "ok" if event.state is State.COMPLETED else error.code if error else str(event.state)
            attempt.delay = data.get("delay")
            attempt.traceback = data.get("traceback", "")
    if not is_terminal:
        return
    record.error = error
    record.ended_at = event.at
    record.duration = data.get("duration", event.at - record.created_at)
    record.truncated = data.get("truncated", False)
    if event.state is State.COMPLETED:
        record.output = data.get("output")
        record.content = data["content"] if record.truncated or "files" in data else as_text(record.output)
        if "files" in data:
            record.files = files_in(data["files"])
    else:
        record.content = failure_text(event.state, error)
    record.artifact = data.get("artifact")
    record.cached = data.get("cached", False)
    record.metadata.update(data.get("metadata") or {})


def _progress(record: Record, event: Event) -> None:
    record.progress = event.data


def _note(record: Record, event: Event) -> None:
    data = event.data
    if "external" in data:
        record.external = {"for": data["external"].get("for", ""), "since": None, "deadline": None, "reported_at": None}
    if "waiting_for" in data:  # until the next change of state
        record.waiting_for = data["waiting_for"]
        if data["waiting_for"] == "credential":
            record.credential = {
                "providers": list(data.get("providers") or ()),
                "reasons": dict(data.get("reasons") or {}),
                "since": event.at,
                "deadline": data.get("deadline"),
            }
        if data["waiting_for"] == "external" and record.external is not None:
            record.external = {**record.external, "since": event.at, "deadline": data.get("deadline")}


def _reported(record: Record, event: Event) -> None:
    record.waiting_for = None
    if record.external is not None:
        record.external = {**record.external, "reported_at": event.at}


def _reconcile_started(record: Record, event: Event) -> None:
    record.waiting_for = "reconcile"
    data = event.data
    record.reconciliation = {
        "attempt": data.get("attempt"),
        "tries": data.get("try"),
        "outcome": None,
        "reason": "",
        "at": event.at,
    }


def _reconcile_ended(record: Record, event: Event) -> None:
    data = event.data
    known = record.reconciliation or {"attempt": None, "tries": None}
    reason = data.get("reason") or (data.get("error") or {}).get("message", "")
    record.reconciliation = {**known, "outcome": data.get("outcome"), "reason": reason, "at": event.at}


def _cancel_requested(record: Record, event: Event) -> None:
    record.cancel_requested = True


_NO_APPROVAL: dict[str, Any] = {
    "why": "", "purpose": "run", "requested_at": None, "deadline": None, "hash": "",
    "approved": None, "by": "", "reason": "", "at": None, "edited": False,
    "approvers": 1, "approvals": [], "self_approval": False, "grant": None, "responded": False,
}  # fmt: skip


def _approval_requested(record: Record, event: Event) -> None:
    data = event.data
    record.waiting_for = "approval"
    asked = {
        "purpose": data.get("purpose", "run"),
        "deadline": data.get("deadline"),
        "why": data.get("reason", ""),
        "approvers": data.get("approvers", 1),
        "self_approval": data.get("self_approval") is True,
    }
    if "question" in data:
        asked["question"] = data["question"]
    record.approval = {**_NO_APPROVAL, **asked, "requested_at": event.at, "hash": _question_hash(record, event)}


def _question_hash(record: Record, question: Event) -> str:
    """Of whose call it is, what it would run, and which question about it this is. Secrets are masked in a record, so nothing can be
    learnt of them."""
    call = [
        record.caller,
        record.thread,
        record.id,
        record.tool,
        record.tool_version,
        record.created_at,
        record.arguments,
    ]
    return sha256(canonical([*call, question.seq, question.at, question.data.get("purpose", "run")])).hexdigest()


def _approval_given(record: Record, event: Event) -> None:
    data = event.data
    edited = "arguments" in event.data
    approved = event.data.get("approved") is True
    asked = record.approval or _NO_APPROVAL
    responded = data.get("responded") is True
    if approved and not responded:
        asked = {**asked, "approvals": _with_approval(asked["approvals"], event, named=asked["approvers"] > 1)}
        if len(asked["approvals"]) < asked["approvers"]:  # it goes on waiting, for another person
            record.approval = asked
            return
    word = {
        "approved": approved,
        "by": data.get("by", ""),
        "reason": data.get("reason", ""),
        "grant": data.get("grant"),
        "responded": responded,
    }
    record.waiting_for = None
    record.approval = {**asked, **word, "at": event.at, "edited": edited}
    if edited:
        record.arguments = data["arguments"]


def _with_approval(approvals: list[dict[str, Any]], event: Event, *, named: bool) -> list[dict[str, Any]]:
    """The approvals of different people. A second one of the same person, under any of that person's names, does not count. `named`: nor
    does one without a name."""
    data = event.data
    given = {"by": data.get("by", ""), "reason": data.get("reason", ""), "at": event.at}
    if "identities" in data:
        given["identities"] = data["identities"]
    names = approver_names(given)
    counts = not (named and not names) and not any(names & approver_names(each) for each in approvals)
    return [*approvals, given] if counts else approvals


def approver_names(approval: Mapping[str, Any]) -> set[str]:
    """The names under which the person who gave an approval is known."""
    return {approval["by"], *approval.get("identities", ())} - {""}


def _resolved(record: Record, event: Event) -> None:
    data = event.data
    if record.resolution is None:  # the first one counts; stores take no second
        record.resolution = {
            "happened": data.get("happened") is True,
            "output": data.get("output"),
            "by": data.get("by", ""),
            "note": data.get("note", ""),
            "at": event.at,
            "rerun_as": data.get("rerun_as"),
        }


_APPLY = {
    "attempt_started": _attempt_started,
    "state_changed": _state_changed,
    "note": _note,
    "progress": _progress,
    "cancel_requested": _cancel_requested,
    "approval_requested": _approval_requested,
    "approval_given": _approval_given,
    "resolved": _resolved,
    "reported": _reported,
    "reconcile_started": _reconcile_started,
    "reconcile_ended": _reconcile_ended,
}


def is_unresolved(record: Record) -> bool:
    """Did the call end with an unknown outcome that no person has settled?"""
    return record.error is not None and record.error.code == "outcome_unknown" and record.resolution is None


def waits_in_doubt(record: Record) -> bool:
    """Does the call wait for a person because the outcome of its last attempt is unknown (`recovery="ask"`)?"""
    return record.waiting_for == "approval" and (record.approval or {}).get("purpose") == "recovery"


def is_seen(asked: str, seen: str) -> bool:
    """Does `seen` name the question with the hash `asked` (`record.approval["hash"]`)? Its first 16 characters are enough."""
    return len(seen) >= _LEAST_SEEN and asked.startswith(seen)


def notes_of(record: Record) -> dict[str, Any]:
    """What the runtime itself noted with the outcome. `record.metadata` also has what the caller sent, under any name."""
    ended = next((event for event in reversed(record.events) if event.is_terminal), None)
    notes = None if ended is None else ended.data.get("metadata")
    return notes if type(notes) is dict else {}


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
        files=record.files,
        error=record.error,
        attempts=len(record.attempts),
        cached=record.cached,
        duration=record.duration or 0.0,
        stages=record.stages,
        metadata=record.metadata,
    )
