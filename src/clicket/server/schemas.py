"""JSON of requests and responses about calls. `success`, a property in Python, is a field here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from clicket.agents import Plan
from clicket.kernel import State
from clicket.model import Record, ToolResult
from clicket.model.codec import encode
from clicket.model.grant import Grant
from clicket.model.record import WAITS
from clicket.model.result import ToolError
from clicket.runtime.calls.bulk import MAX_CALLS, BulkAction

__all__ = [
    "FIELDS",
    "Accepted",
    "Again",
    "AgainAccepted",
    "BulkRequest",
    "CallFilter",
    "CallRequest",
    "CallSummary",
    "Cancelled",
    "Decided",
    "Decision",
    "Denial",
    "ExternalCall",
    "ExternalFailure",
    "ExternalOutput",
    "ExternalProgress",
    "GrantList",
    "Listing",
    "Name",
    "PersonsAnswer",
    "Reason",
    "RecordPage",
    "Resolution",
    "Stop",
    "UndoRequest",
    "UndoTurnRequest",
    "record_json",
    "result_json",
    "summary_of",
    "without_tracebacks",
]  # fmt: skip

Name = Annotated[str, Meta(min_length=1, max_length=512, pattern="^[^\\x00]*$")]
Reason = Annotated[str, Meta(max_length=2_000, pattern="^[^\\x00]*$")]
Seen = Annotated[str, Meta(max_length=64, pattern="^([0-9a-f]{16,64})?$")]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Time = Annotated[float, Meta(ge=0, le=1e11, description="Seconds since 1970.")]
Wait = Annotated[float, Meta(ge=0, le=86_400)]


class CallRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to make. `wait`: true, or seconds. `not_before`: it waits until then, in seconds since 1970. The tool's schema validates
    `arguments`."""

    tool: Name
    arguments: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    id: Name | None = None
    thread: Name = "default"
    timeout: Seconds | None = None
    deadline: Seconds | None = None
    not_before: Time | None = None
    priority: Annotated[float, Meta(ge=-1_000_000, le=1_000_000, multiple_of=1)] = 0
    request_id: Name | None = None
    metadata: dict[str, Any] | None = None
    wait: bool | Wait = False
    cancel_on_disconnect: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The call is durable. `Location` names it."""

    id: str
    thread: str
    tool: str
    state: State


class Again(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`arguments`: replace those of the old call; a mask in them stands for the value that it hides. `id`: of the new call."""

    arguments: dict[str, Any] | None = None
    id: Name | None = None


class AgainAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The new call is durable; `again_of` is the id of the old one. `Location` names the new one."""

    id: str
    thread: str
    tool: str
    state: State
    again_of: str


class CallFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which calls: the filters of `GET /calls`. At least one is needed."""

    thread: Name | None = None
    tool: Name | None = None
    state: State | list[State] | None = None
    since: Time | None = None
    until: Time | None = None
    active: bool | None = None
    waiting_for: Annotated[str, Meta(max_length=512, pattern=WAITS)] | None = None
    code: Name | None = None
    request_id: Name | None = None
    metadata: dict[str, Any] | None = None
    id_contains: Name | None = None
    caller: Annotated[str, Meta(max_length=100, pattern="^[^\\x00]*$")] | None = None


class NamedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call; `thread` and `caller` are needed only if several calls have the id."""

    id: Name
    thread: Name | None = None
    caller: Annotated[str, Meta(max_length=100, pattern="^[^\\x00]*$")] | None = None


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action on the calls of `ids`, or on those that `filter` finds. `dry`: only count them. `cursor`: of the response before, to go
    on with a filter."""

    action: BulkAction
    ids: Annotated[list[Name | NamedCall], Meta(max_length=MAX_CALLS)] | None = None
    filter: CallFilter | None = None
    reason: Reason = ""
    dry: bool = False
    limit: Annotated[int, Meta(ge=1, le=MAX_CALLS)] = MAX_CALLS
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$")] | None = None


class Stop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled`: the call was cancelled, or the request is on record; false: the call had ended already."""

    id: str
    thread: str
    cancelled: bool
    state: State


class GrantGiven(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which later calls of the same tool run without a person, if the same rule of the policy asks: `uses` of them, for `seconds`, in
    `thread`, with `arguments` that fit a JSON Schema, of `caller` (`*`: of every caller). Left out, `caller` is the call's; another key
    left out sets no limit."""

    uses: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    seconds: Annotated[float, Meta(gt=0, le=316_224_000)] | None = None
    thread: Name | None = None
    arguments: dict[str, Any] | None = None
    caller: Annotated[str, Meta(max_length=100, pattern="^[^\\x00]*$")] | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`arguments`: replace those of the call, and are validated the same way. `seen`: the `approval.hash` of the question that the person
    saw, or its first 16 characters: if the call waits for another decision, nothing is changed. `grant`: later calls run, too."""

    reason: Reason = ""
    arguments: dict[str, Any] | None = None
    seen: Seen = ""
    grant: GrantGiven | None = None


class PersonsAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`output`: the call's result, in the tool's place. `seen`: as in an approval."""

    output: Any
    reason: Reason = ""
    seen: Seen = ""


class Denial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`seen`: as in an approval."""

    reason: Reason = ""
    seen: Seen = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    thread: str
    approved: bool
    by: str
    state: State
    missing: int = 0
    """How many other people must approve it, too, before it runs."""
    grant: str | None = None
    """The id of the grant that was given."""


class GrantList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    items: list[Grant]


class Resolution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`happened`: did the call have its effect? `output`: what it returned, if that is known. `rerun`: it did not happen, so run it
    again, as a new call."""

    happened: bool
    output: Any = None
    note: Reason = ""
    rerun: bool = False


class UndoRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`retry`: run undos again that failed. `strict`: stop at a call of which it is unknown whether it happened. `dry`: change nothing.
    `wait`: true, or seconds; then 202."""

    strict: bool = True
    retry: bool = False
    dry: bool = False
    wait: bool | Wait = 30.0


class UndoTurnRequest(UndoRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`turn`: its number. `agent`: whose it is, if several agents use the thread."""

    turn: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    agent: Name | None = None


class ExternalOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output, or a piece of one: any JSON."""

    output: Any = None


class ExternalFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the work failed, for the caller and the model."""

    error: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    type: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "ExternalError"


class ExternalProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the work is; without `step` it only goes on."""

    step: float | None = None
    total: float | None = None
    text: Reason = ""


class ExternalCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call into which the result was written."""

    id: str


class CallSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A call in a listing: everything except its events, arguments and output."""

    id: str
    tool: str
    thread: str
    caller: str
    state: State
    success: bool
    created_at: float
    updated_at: float
    started_at: float | None
    ended_at: float | None
    duration: float | None
    attempts: int
    worker: str
    """The worker that ran the last attempt, and its host; empty: none has started."""
    host: str
    waiting_for: str | None
    approval: dict[str, Any] | None
    progress: dict[str, Any] | None
    error: ToolError | None
    truncated: bool
    artifact: str | None
    cached: bool
    priority: int
    request_id: str | None
    cancel_requested: bool
    metadata: dict[str, Any]
    resolution: dict[str, Any] | None
    """How a person settled an unknown outcome."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of calls. `cursor` fetches the next; null on the last. `searched_to` is set if the search looked at 10,000 calls before the
    page was full: when the last one of these was made. `cursor` continues there."""

    items: list[CallSummary]
    cursor: str | None = None
    searched_to: float | None = None


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """As `Listing`, with whole records."""

    items: list[Record]
    cursor: str | None = None
    searched_to: float | None = None


class GivenApproval(TypedDict):
    by: str
    reason: str
    at: float
    identities: NotRequired[list[str]]
    """The names under which the approver is known."""


class InputQuestion(TypedDict):
    """What a tool asks. With a `schema` the answer is an object that fits it; with a `url` a person opens the address."""

    key: str
    source: str
    message: str
    schema: NotRequired[dict[str, Any]]
    url: NotRequired[str]


class Approval(TypedDict):
    """The last question to a person, and the answer. `approved` is null while people are to answer."""

    why: str
    purpose: str
    requested_at: float | None
    deadline: float | None
    hash: str
    approved: bool | None
    by: str
    reason: str
    at: float | None
    edited: bool
    approvers: int
    """How many different people must approve."""
    approvals: list[GivenApproval]
    self_approval: bool
    grant: str | None
    responded: bool
    question: NotRequired[InputQuestion]


class Progress(TypedDict, total=False):
    step: float | None
    total_steps: float | None
    percentage: float | None
    status: str | None
    estimated_time_remaining: float | None


class SettledOutcome(TypedDict):
    """How a person settled an unknown outcome."""

    happened: bool
    output: Any
    by: str
    note: str
    at: float
    rerun_as: str | None


class Reconciliation(TypedDict):
    """What the last try of the tool's own check found."""

    attempt: int | None
    tries: int | None
    outcome: Literal["happened", "did_not_happen", "continues", "unknown", "failed"] | None
    reason: str
    at: float


class CredentialWait(TypedDict):
    """The last wait for credentials of the caller. `reasons` by provider."""

    providers: list[str]
    reasons: dict[str, str]
    since: float
    deadline: float | None


ExternalWait = TypedDict(  # as a class it could not have a field `for`
    "ExternalWait", {"for": str, "since": float | None, "deadline": float | None, "reported_at": float | None}
)


class OwnPart(TypedDict, total=False):
    """`background`: the call that a tool call has started. `result_of`: the call whose result the message is. `handoff`: the agent for
    which the message is, when another one, `by`, hands over to it. `history`: what it reads of the thread. `undone`: the calls that undid
    others, of which the message tells."""

    background: str
    tool: str
    result_of: str
    handoff: str
    by: str
    history: Literal["all", "last", "none"]
    undone: list[str]


class Vendor(TypedDict, total=False):
    """Parts of a message that only the model's vendor can read, by its name; and clicket's own."""

    clicket: OwnPart


_OF_SUMMARY = {"approval": Approval | None, "progress": Progress | None, "resolution": SettledOutcome | None}
_OF_RECORD = {
    "reconciliation": Reconciliation | None,
    "credential": CredentialWait | None,
    "external": ExternalWait | None,
}
_PLAN = {"plan": Plan | None}
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "CallSummary": _OF_SUMMARY,
    "Record": {**_OF_SUMMARY, **_OF_RECORD},
    "ChatMessage": {"vendor": Vendor | None},
    "ThreadView": _PLAN,
    "TurnDocument": _PLAN,
    "TurnResult": _PLAN,
}
"""By schema: the types of its fields that are dicts in Python. The OpenAPI document has them."""

_SAME = tuple(name for name in CallSummary.__struct_fields__ if name not in ("success", "attempts"))


def summary_of(record: Record) -> CallSummary:
    same = {name: getattr(record, name) for name in _SAME}
    return CallSummary(**same, success=record.success, attempts=len(record.attempts))


def result_json(result: ToolResult) -> bytes:
    """A truncated result has no `output`: `/calls/{id}/result` has the whole."""
    if result.truncated and result.output is not None:
        result = msgspec.structs.replace(result, output=None)
    return (b'{"success":true,' if result.state is State.COMPLETED else b'{"success":false,') + encode(result)[1:]


def without_tracebacks(record: Record) -> Record:
    """The record for keys of other callers: only its owner and administrators see where its tool raised."""
    events = [
        event if "traceback" not in event.data else msgspec.structs.replace(event, data=_without(event.data))
        for event in record.events
    ]
    attempts = [msgspec.structs.replace(attempt, traceback="") for attempt in record.attempts]
    return msgspec.structs.replace(record, attempts=attempts, events=events)


def _without(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "traceback"}


def record_json(record: Record) -> bytes:
    return (b'{"success":true,' if record.success else b'{"success":false,') + encode(record)[1:]
