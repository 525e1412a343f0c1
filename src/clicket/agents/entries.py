"""The recorded entries of a turn, a type for each kind, and the events that readers get for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from clicket.agents.agent_result import AgentEvent, AgentEventType
from clicket.agents.handoff import History
from clicket.agents.turn_limits import AnswerEnd, RefusedAs, Stopped
from clicket.agents.undone import Undone
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ChatReply, ToolUse, Usage
from clicket.model.files import FileRef
from clicket.model.ids import asked_id
from clicket.safety.vault import holds_secret

__all__ = [
    "Answer",
    "Asked",
    "Begun",
    "Change",
    "Changed",
    "Decision",
    "Ended",
    "Entry",
    "HandedOver",
    "Heard",
    "Held",
    "News",
    "OfAgent",
    "PlanState",
    "Refusal",
    "Reply",
    "Restart",
    "Result",
    "Results",
    "Summary",
    "Tried",
    "UndoneCalls",
    "Unknown",
    "Use",
    "call_id",
    "entry_of",
    "events_of",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="e", tag=str.lower):
    """`step`: of which it is, or after which it was written. `branch`: of the turn, if it is not the turn's own. `log`: the log of pieces
    that its process writes, and the offset there: `NAME.OFFSET` (see `pieces.py`); empty if pieces are not stored.

    Entries are recorded as `msgspec.to_builtins` makes them. Sequences are lists: secrets in tuples would not be masked.
    """

    at: float = 0.0
    step: int = 0
    branch: str = ""
    log: str = ""


class Change(msgspec.Struct, frozen=True, array_like=True):
    before: AgentState
    after: AgentState


class OfAgent(Entry, frozen=True, kw_only=True):
    """What an agent may do, and what it uses, see `Identity`."""

    agent: str = ""
    kind: str = ""
    model: str = ""
    limits: dict[str, Any] = {}
    system: str = ""
    tools: list[str] | None = None
    digest: str = ""
    middleware: list[str] = []
    output: dict[str, Any] = {}
    """The JSON Schema of the answer."""
    handoffs: list[str] = []
    undo_on: list[str] = []
    """After which ends its calls are undone."""


class Begun(OfAgent, frozen=True, kw_only=True):
    """With the agent whose thread it is in. `id`: that its caller gave it."""

    turn: int = 0
    message: str
    states: list[Change] = []
    id: str = ""
    metadata: dict[str, Any] = {}
    files: list[FileRef] = []
    """Of the message."""
    deps: list[str] = []
    """Names of those that the caller brought."""


class HandedOver(OfAgent, frozen=True, kw_only=True, tag="handoff"):
    """From now on the turn is driven by `agent`. `by`: the agent that handed over, with the tool call `use` of this step; empty: the
    turn begins with the agent that the thread was handed to before. The limits are those of the agent that began the turn."""

    by: str
    use: str = ""
    reason: str = ""
    history: History = "all"


class Changed(Entry, frozen=True, kw_only=True):
    """The turn goes on with an agent of this digest, which differs in `what` from the one that began it, or that was handed it.
    `agent`: its name, if it is the latter."""

    what: dict[str, Any]
    digest: str
    agent: str = ""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A `ToolUse`, as a reply has it on record."""

    id: str
    name: str
    arguments: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Of an answer. `by`: the name of a middleware. `text`: what the model reads. `stopped`: how the turn ends if no better one comes."""

    by: str
    text: str
    stopped: RefusedAs = "refused"
    on: str = "after_model"
    """`output`: by a check, whose decision is an entry of its own."""


class Reply(Entry, frozen=True, kw_only=True):
    """An answer of the model. `mark` and `tag` make the ids of the calls that it asks for; without a mark they are no calls."""

    mark: str
    tag: str
    text: str
    uses: list[Use]
    usage: Usage
    total: Usage
    """Of the turn so far."""
    took: float
    ended: AnswerEnd = "stop"
    thought: str = ""
    vendor: Mapping[str, Any] | None = None
    spend: dict[str, Any] | None = None
    """What the ledger needs to count it."""
    masked: bool = False
    """Its arguments were recorded masked, and cannot be restored."""
    refused: Refusal | None = None
    """It does not count: the model is asked again. Its tool calls are not made."""
    model: str = ""
    """That answered, of a chain."""

    @classmethod
    def of(
        cls,
        message: ChatMessage,
        *,
        mark: str,
        tag: str,
        step: int,
        usage: Usage,
        total: Usage,
        took: float,
        at: float,
        ended: AnswerEnd = "stop",
        spend: dict[str, Any] | None = None,
        refused: Refusal | None = None,
        model: str = "",
    ) -> Reply:
        return cls(
            mark=mark,
            tag=tag,
            step=step,
            text=message.content,
            uses=[Use(use.id, use.name, use.arguments) for use in message.uses],
            usage=usage,
            total=total,
            took=took,
            at=at,
            ended=ended,
            thought=message.thought,
            vendor=message.vendor or None,
            spend=spend,
            refused=refused,
            model=model,
        )

    @property
    def message(self) -> ChatMessage:
        uses = tuple(ToolUse(id=use.id, name=use.name, arguments=use.arguments) for use in self.uses)
        return ChatMessage(role="assistant", content=self.text, uses=uses, thought=self.thought, vendor=self.vendor)

    def used(self) -> dict[str, Any]:
        """Its usage and the turn's so far, for readers."""
        used: dict[str, Any] = {**msgspec.to_builtins(self.usage), "total": msgspec.to_builtins(self.total)}
        return {**used, "model": self.model} if self.model else used

    def call_ids(self) -> Iterator[str]:
        for place, use in enumerate(self.uses, start=1):
            yield call_id(self.mark, self.tag, self.step, place, use.id)


class Answer(Entry, frozen=True, kw_only=True):
    """The answer that the reply of this step gives, as plain JSON of the type that was asked for."""

    value: Any


class Decision(Entry, frozen=True, kw_only=True):
    """What a middleware or a check decided. `by`: its name. `on`: its method, or what the check checks. `use`: the model's id of a tool
    call, if it is about one. `call`: the call that asks a person. The step is the one that it takes effect in."""

    by: str
    on: str
    value: Any
    use: str = ""
    call: str = ""


class Held(Entry, frozen=True, kw_only=True):
    """A reply about which the check `by` asks a person: the model is not asked again for it. Readers get no event for it. `answer`: of the
    type that was asked for."""

    by: str
    reply: Reply
    answer: Answer | None = None
    masked: bool = False

    @property
    def chat_reply(self) -> ChatReply:
        held, message = self.reply, self.reply.message
        return ChatReply(
            text=message.content, uses=message.uses, usage=held.usage, thought=message.thought, vendor=message.vendor,
            ended=held.ended if held.ended in ("length", "refusal") else "stop",
        )  # fmt: skip


class Asked(Entry, frozen=True, kw_only=True):
    """A budget does not allow the request of this step, and a person is asked to raise it. `call`: the call that asks."""

    call: str


class Heard(Entry, frozen=True, kw_only=True):
    """A message that came while the turn ran, which the model reads with the next request. `id`: that of the message."""

    id: str
    text: str
    files: list[FileRef] = []


class UndoneCalls(Entry, frozen=True, kw_only=True, tag="undone"):
    """Calls of earlier turns that were undone since the last one, which the model reads with the message."""

    items: list[Undone]


class Restart(Entry, frozen=True, kw_only=True):
    """The model is asked again for this step. Readers drop the pieces of its answer that they have."""

    why: str


class Tried(Entry, frozen=True, kw_only=True):
    """A model of a chain that gave no answer for this step. `next`: the one that was asked then; empty if none was left. `usage`, `spend`:
    of an answer that was not used."""

    model: str
    reason: str
    error: str
    took: float
    next: str = ""
    pieces: bool = False
    """Readers may have pieces of its answer, which are void."""
    usage: Usage = Usage()
    spend: dict[str, Any] | None = None


class Summary(Entry, frozen=True, kw_only=True):
    """What a summary of old messages has used. Readers get no event for it."""

    usage: Usage
    spend: dict[str, Any]


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one tool call. `call`: its id as a call of the runtime; empty if it is none."""

    id: str
    tool: str
    call: str
    text: str
    failed: bool
    artifact: str = ""
    background: bool = False
    code: str = ""
    state: str = ""
    files: list[FileRef] = []
    usage: Usage | None = None
    """Of the agent that was called, and of those that it called, if that counts towards a limit."""

    @classmethod
    def of(
        cls,
        use: ToolUse,
        call: str,
        text: str,
        *,
        failed: bool = False,
        artifact: str = "",
        background: bool = False,
        code: str = "",
        state: str = "",
        files: Sequence[FileRef] = (),
    ) -> Result:
        return cls(
            id=use.id,
            tool=use.name,
            call=call,
            text=text,
            failed=failed,
            artifact=artifact,
            background=background,
            code=code,
            state=state,
            files=list(files),
        )


class Results(Entry, frozen=True, kw_only=True):
    """Of the tool calls of this step, or of those that have ended while others run."""

    items: list[Result]
    took: float


class News(Entry, frozen=True, kw_only=True):
    """Results of background calls, which enter the turn after this step."""

    items: list[Result]


class PlanState(Entry, frozen=True, kw_only=True, tag="plan"):
    plan: dict[str, Any]


class Ended(Entry, frozen=True, kw_only=True):
    """`stopped`: empty after an error. `text`: the answer, or why there is none. `ended`: how the answer ended, if the turn finished."""

    state: AgentState
    stopped: Stopped | Literal[""]
    text: str
    steps: int
    calls: int
    usage: Usage
    ended: AnswerEnd | None = None
    value: Any = None
    error: str = ""
    code: str = ""
    called: Usage | None = None
    """Of the agents that it called, if that counts towards a limit."""
    agent: str = ""
    """That drove it last, if it was handed over."""


class Unknown(Entry, frozen=True, kw_only=True):
    """A later version or another program wrote it. It has no events, and is passed over."""


_KINDS: dict[Any, type[Entry]] = {
    kind.__struct_config__.tag: kind
    for kind in (
        Begun, HandedOver, Changed, Reply, Answer, Decision, Held, Asked, Heard, Restart, Tried, Summary, Results, News, PlanState, Ended,
        UndoneCalls,
    )
}  # fmt: skip


def entry_of(raw: Mapping[str, Any]) -> Entry:
    """A recorded entry. Never raises: another program may have written to the store."""
    try:
        return msgspec.convert(raw, _KINDS[raw.get("e")])  # a union of the types would be looked through each time
    except (KeyError, TypeError, msgspec.ValidationError):  # TypeError: a kind that is a list or an object
        return Unknown()


def call_id(mark: str, tag: str, step: int, place: int, use_id: str) -> str:
    """The id of a turn's tool call: the model's id, a short alias, and the tag that makes it unique in the store."""
    alias = f"{mark}.{step}.{place}"
    made = mark.replace(".", "-")
    made_here = use_id.startswith(made) and use_id.startswith(f"{made}-{step}_")
    return asked_id("" if made_here or holds_secret(use_id) else use_id, alias, tag)


Fact = tuple[AgentEventType, dict[str, Any]]


def events_of(entry: Entry, number: int, thread: str, turn: int) -> list[AgentEvent]:
    """The events of an entry; deterministic. `number`: the entry's number in its turn, from 1."""
    at, step = entry.at, entry.step
    branch = {"branch": entry.branch} if entry.branch else {}
    return [
        AgentEvent(
            type=type,
            thread=thread,
            turn=turn,
            at=at,
            step=step,
            id=f"{turn}-{number}.{place}",
            data={**data, **branch},
        )
        for place, (type, data) in enumerate(_facts_of(entry), start=1)
    ]


def _facts_of(entry: Entry) -> Iterator[Fact]:
    match entry:
        case Begun():
            for change in entry.states:
                yield _state(change.before, change.after)
            yield "message", {"role": "user", "text": entry.message, **_files(entry.files)}
        case HandedOver():
            yield "handoff", {"from": entry.by, "to": entry.agent, "reason": entry.reason, "id": entry.use}
        case Reply():
            yield from _facts_of_reply(entry)
        case Answer():
            yield "answer", {"value": entry.value}
        case Decision():
            about = {"id": entry.use} if entry.use else {"call_id": entry.call} if entry.call else {}
            yield "decision", {"by": entry.by, "on": entry.on, "value": entry.value, **about}
        case Heard():
            yield "message", {"role": "user", "text": entry.text, "id": entry.id, **_files(entry.files)}
        case UndoneCalls():
            yield "undone", {"calls": msgspec.to_builtins(entry.items)}
        case Restart():
            yield "restart", {"why": entry.why}
        case Tried():
            yield from _facts_of_try(entry)
        case Results() | News():
            yield from map(_fact_of_result, entry.items)
        case PlanState():
            yield "plan", entry.plan
        case Ended():
            yield _state(AgentState.RUNNING, entry.state)
            yield _fact_of_end(entry)


def _files(files: list[FileRef]) -> dict[str, Any]:
    return {"files": msgspec.to_builtins(files)} if files else {}


def _state(before: AgentState, after: AgentState) -> Fact:
    return "state", {"from": str(before), "to": str(after)}


def _facts_of_reply(reply: Reply) -> Iterator[Fact]:
    if reply.thought:
        yield "thought", {"text": reply.thought}
    yield "usage", reply.used()
    refused = reply.refused
    if refused is not None:
        if refused.on == "after_model":
            yield "decision", {"by": refused.by, "on": refused.on, "value": {"do": "refuse", "text": refused.text}}
        yield "restart", {"why": "the answer was refused"}
    elif reply.text or not reply.uses:
        yield "message", {"role": "assistant", "text": reply.text}
    for use, call in zip(reply.uses, reply.call_ids(), strict=True):
        call_id = call if reply.mark else ""
        yield "tool_started", {"id": use.id, "tool": use.name, "call_id": call_id, "arguments": use.arguments}


def _facts_of_try(tried: Tried) -> Iterator[Fact]:
    took = round(tried.took, 3)
    yield (
        "fallback",
        {"model": tried.model, "reason": tried.reason, "error": tried.error, "took": took, "next": tried.next},
    )
    if tried.pieces:
        yield "restart", {"why": f"{tried.model}: {tried.reason}"}


def _fact_of_result(item: Result) -> Fact:
    body = msgspec.to_builtins(item)
    more = {key: body[key] for key in ("artifact", "background", "code", "state", "files") if key in body}
    same = {"id": item.id, "tool": item.tool, "call_id": item.call}
    return "tool_result", {**same, "success": not item.failed, "content": item.text, **more}


def _fact_of_end(ended: Ended) -> Fact:
    if ended.state is AgentState.ERROR:
        return "error", {"message": ended.error}
    body = msgspec.to_builtins(ended)
    names = ("text", "state", "stopped", "ended", "value", "steps", "calls", "usage")
    return "final", {name: body.get(name) for name in names} | ({"agent": ended.agent} if ended.agent else {})
