"""The recorded entries of a turn (`begun`, `changed`, `reply`, `summary`, `results`, `news`, `plan`, `ended`), and the events that readers
get for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clicket.agents.agent_result import AgentEvent, AgentEventType
from clicket.agents.background import result_message
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ToolUse, Usage
from clicket.model.ids import asked_id
from clicket.vault import holds_secret

__all__ = [
    "begun",
    "changed",
    "ended",
    "events_of",
    "message_of",
    "news",
    "plan",
    "reply",
    "result",
    "results",
    "results_of",
    "succeeded",
    "summary",
    "usage_of",
]

Entry = dict[str, Any]


# Writing.


def begun(
    turn: int,
    message: str,
    states: Iterable[tuple[AgentState, AgentState]],
    at: float,
    identity: Entry | None = None,
    id: str = "",
) -> Entry:
    """`identity`: of its agent, see `Identity.on_record`. `id`: that its caller gave it."""
    changes = [[str(before), str(after)] for before, after in states]
    entry = {"e": "begun", "turn": turn, "message": message, "states": changes, "at": at, **(identity or {})}
    return {**entry, "id": id} if id else entry


def changed(what: Entry, digest: str, at: float) -> Entry:
    """The turn goes on with an agent of this digest, which differs in `what` from the one that began it."""
    return {"e": "changed", "what": what, "digest": digest, "at": at}


def call_id(mark: str, tag: str, step: int, place: int, use_id: str) -> str:
    """The id of a turn's tool call: the model's id, a short alias, and the tag that makes it unique in the store."""
    alias = f"{mark}.{step}.{place}"
    if not tag:  # a turn that an older version began
        return alias
    made = mark.replace(".", "-")
    made_here = use_id.startswith(made) and use_id.startswith(f"{made}-{step}_")
    return asked_id("" if made_here or holds_secret(use_id) else use_id, alias, tag)


def reply(
    mark: str, step: int, message: ChatMessage, usage: Usage, took: float, at: float, total: Usage, tag: str = ""
) -> Entry:
    """`mark` and `tag` are parts of the ids of the turn's tool calls."""
    entry: Entry = {
        "e": "reply",
        "mark": mark,
        "tag": tag,
        "step": step,
        "text": message.content,
        "uses": [[use.id, use.name, use.arguments] for use in message.uses],
        "usage": _usage(usage),
        "total": _usage(total),
        "took": took,
        "at": at,
    }
    if message.thought:
        entry["thought"] = message.thought
    if message.vendor:
        entry["vendor"] = dict(message.vendor)
    return entry


def summary(step: int, usage: Usage, spend: Entry, at: float) -> Entry:
    """What a summary of old messages has used, which was written after this step. Readers get no event for it."""
    return {"e": "summary", "step": step, "usage": _usage(usage), "spend": spend, "at": at}


def result(use: ToolUse, call_id: str, text: str, *, failed: bool, **more: Any) -> Entry:
    """One tool call's result, for `results`."""
    return {**succeeded(use, call_id, text), "failed": failed, **more}


def succeeded(use: ToolUse, call_id: str, text: str) -> Entry:
    """As `result`, of a call that completed."""
    return {"id": use.id, "tool": use.name, "call": call_id, "text": text, "failed": False}


def results(step: int, items: list[Entry], took: float, at: float) -> Entry:
    return {"e": "results", "step": step, "items": items, "took": took, "at": at}


def news(step: int, items: list[Entry], at: float) -> Entry:
    """Results of background calls, which enter the turn after this step."""
    return {"e": "news", "step": step, "items": items, "at": at}


def plan(step: int, body: Entry, at: float) -> Entry:
    return {"e": "plan", "step": step, "plan": body, "at": at}


def ended(
    state: AgentState,
    stopped: str,
    text: str,
    steps: int,
    calls: int,
    usage: Usage,
    at: float,
    error: str = "",
    code: str = "",
) -> Entry:
    entry: Entry = {
        "e": "ended",
        "state": str(state),
        "stopped": stopped,
        "text": text,
        "steps": steps,
        "calls": calls,
        "usage": _usage(usage),
        "at": at,
    }
    if error:
        entry["error"] = error
    if code:
        entry["code"] = code
    return entry


def _usage(usage: Usage) -> Entry:
    body: Entry = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if usage.cached_tokens:
        body["cached_tokens"] = usage.cached_tokens
    if usage.cost:
        body["cost"] = usage.cost
    return body


# Reading. Another program may have written to the store, so values are not trusted.


def usage_of(body: Any) -> Usage:
    try:
        return msgspec.convert(body, Usage)
    except msgspec.ValidationError:
        return Usage()


def message_of(entry: Entry) -> ChatMessage:
    """The message of a `reply`."""
    uses = tuple(
        ToolUse(id=str(id), name=str(name), arguments=str(arguments)) for id, name, arguments in entry.get("uses", ())
    )
    return ChatMessage(
        role="assistant",
        content=str(entry.get("text", "")),
        uses=uses,
        thought=str(entry.get("thought", "")),
        vendor=entry.get("vendor"),
    )


def results_of(entry: Entry) -> list[ChatMessage]:
    return [result_message(item) for item in entry["items"]]


def events_of(entry: Entry, number: int, thread: str, turn: int) -> list[AgentEvent]:
    """The events of an entry; deterministic. `number`: the entry's number in its turn, from 1."""
    events: list[AgentEvent] = []
    at, step = float(entry.get("at", 0.0)), int(entry.get("step", 0))
    fork = {"fork": entry["fork"]} if entry.get("fork") else {}

    def add(type: AgentEventType, **data: Any) -> None:
        id = f"{turn}-{number}.{len(events) + 1}"
        events.append(AgentEvent(type=type, thread=thread, turn=turn, at=at, step=step, id=id, data={**data, **fork}))

    match entry.get("e"):
        case "begun":
            for before, after in entry["states"]:
                add("state", **{"from": before, "to": after})
            add("message", role="user", text=entry["message"])
        case "reply":
            if entry.get("thought"):
                add("thought", text=entry["thought"])
            add("usage", **entry["usage"], total=entry["total"])
            if entry["text"] or not entry["uses"]:
                add("message", role="assistant", text=entry["text"])
            for place, (id, name, arguments) in enumerate(entry["uses"], start=1):
                call = call_id(entry["mark"], entry.get("tag", ""), step, place, id) if entry["mark"] else ""
                add("tool_started", id=id, tool=name, call_id=call, arguments=arguments)
        case "results" | "news":
            for item in entry["items"]:
                more = {key: item[key] for key in ("artifact", "background", "code", "state") if key in item}
                add(
                    "tool_result",
                    id=item["id"], tool=item["tool"], call_id=item["call"], success=not item["failed"],
                    content=item["text"], **more,
                )  # fmt: skip
        case "plan":
            add("plan", **entry["plan"])
        case "ended":
            add("state", **{"from": "running", "to": entry["state"]})
            if entry["state"] == "error":
                add("error", message=entry.get("error", ""))
            else:
                names = ("text", "state", "stopped", "steps", "calls", "usage")
                add("final", **{name: entry[name] for name in names})
    return events
