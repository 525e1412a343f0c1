"""What the events of a call say that endpoints may want to know: a question to a person, an end, an unknown outcome; and that an agent's
turn waits, or has ended.

A fact has the same key and time whenever it is read, so that the same notice is made of it by every process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from clicket.model import Event, Record, fold
from clicket.model.codec import clean
from clicket.model.ids import agent_of, alias_of
from clicket.safety.vault import hide, hide_text

__all__ = ["Fact", "Question", "clipped", "facts_of", "has_fact", "is_interesting"]

_MAX_TEXT = 1_000
_UNKNOWN = "outcome_unknown"
_TURN = "agent:"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an approval link decides: one question about one call. `seen` is the hash of caller, tool, arguments and question."""

    call: str
    thread: str
    caller: str
    seen: str
    deadline: float | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """`key` names it among all facts of its type; `at` is when it happened."""

    type: str
    key: list[Any]
    at: float
    data: dict[str, Any]
    arguments: Any = None
    """Masked; for endpoints that want them."""
    question: Question | None = None


def is_interesting(event: Event) -> bool:
    """May the event be a fact?"""
    return event.type == "approval_requested" or _ends(event) or _waits_for(event) is not None


def has_fact(events: Sequence[Event], wanted: Collection[str]) -> bool:
    """Do these events hold a fact of a wanted type? Without reading the rest of the call."""
    return any(is_interesting(event) and any(kind in wanted for kind in _types(event)) for event in events)


def facts_of(events: Sequence[Event], wanted: Collection[str], after: int = 0) -> list[Fact]:
    """The facts in a call's events with numbers above `after`. `events` begin with the first one."""
    found: list[Fact] = []
    for index, event in enumerate(events):
        if event.seq <= after or not is_interesting(event):
            continue
        types = [kind for kind in _types(event) if kind in wanted]
        if types:
            record = fold(list(events[: index + 1]))
            turn = _turn(record)
            found += [
                _fact(kind, record, event, turn)
                for kind in types
                if kind not in ("turn.ended", "turn.waiting")
                or (turn is not None and (kind == "turn.waiting" or record.tool.startswith(_TURN)))
            ]
    return found


def _ends(event: Event) -> bool:
    return event.type == "state_changed" and event.state.is_terminal


def _waits_for(event: Event) -> str | None:
    """What the call waits for from this event on."""
    if event.type == "approval_requested":
        return "approval"
    waits = event.data.get("waiting_for") if event.type == "note" else None
    return waits if isinstance(waits, str) and waits != "time" else None


def _types(event: Event) -> Iterator[str]:
    """`turn.…` also for calls that are of no turn: those have an id, too, and only the whole record says what they are."""
    if event.type == "approval_requested":
        yield "approval.requested"
    if _ends(event):
        error = event.data.get("error")
        yield "call.ended"
        if isinstance(error, dict) and error.get("code") == _UNKNOWN:
            yield "call.unknown"
        yield "turn.ended"
    elif _waits_for(event) is not None:
        yield "turn.waiting"


def _turn(record: Record) -> dict[str, Any] | None:
    """The turn that a call is, or whose tool call it is."""
    arguments = record.arguments
    if record.tool.startswith(_TURN):
        agent, number = record.tool.removeprefix(_TURN), arguments.get("turn") if isinstance(arguments, dict) else None
        thread = arguments.get("thread") if isinstance(arguments, dict) else None
    else:
        agent, thread = agent_of(record.id), record.thread
        text = alias_of(record.id).partition(".")[2].partition(".")[0]
        number = int(text.partition("-")[0]) if text.partition("-")[0].isdigit() else None
    if not agent or number is None:
        return None
    return {"agent": agent, "thread": thread, "turn": number, "caller": record.caller}


def _fact(kind: str, record: Record, event: Event, turn: dict[str, Any] | None) -> Fact:
    call: dict[str, Any] = {
        "id": record.id,
        "thread": record.thread,
        "caller": record.caller,
        "tool": record.tool,
        "created_at": record.created_at,
        "state": str(event.state),
    }
    data: dict[str, Any] = {"call": call}
    question = None
    if turn is not None and kind == "turn.waiting":
        data = {"turn": turn, "waiting_for": _waits_for(event), "text": clipped(event.data.get("text", ""))}
        if not record.tool.startswith(_TURN):
            data["call"] = call
    elif turn is not None and kind == "turn.ended":
        output = record.output if isinstance(record.output, dict) else {}
        told = {name: output[name] for name in ("state", "stopped", "steps") if output.get(name) is not None}
        data = {"turn": turn | {"state": str(event.state), "ended_at": event.at, "duration": record.duration} | told}
        if record.error is not None:
            data["turn"]["error"] = {"code": record.error.code, "message": clipped(record.error.message)}
    elif kind == "approval.requested":
        asked = record.approval or {}
        question = Question(
            call=record.id,
            thread=record.thread,
            caller=record.caller,
            seen=asked.get("hash", ""),
            deadline=asked.get("deadline"),
        )
        data["approval"] = {
            "reason": clipped(asked.get("why", "")),
            "purpose": asked.get("purpose", "run"),
            "deadline": question.deadline,
            "seen": question.seen,
        }
    else:
        call |= {
            "ended_at": event.at,
            "duration": record.duration,
            "attempts": len(record.attempts),
            "cached": record.cached,
        }
        if kind == "call.unknown":
            call["idempotency_key"] = record.idempotency_key
        if record.error is not None:
            call["error"] = {"code": record.error.code, "message": clipped(record.error.message)}
    key = [record.caller, record.thread, record.id, record.created_at, event.seq]
    return Fact(type=kind, key=key, at=event.at, data=data, arguments=hide(record.arguments), question=question)


def clipped(text: Any, size: int = _MAX_TEXT) -> str:
    """A text for others: masked, storable, of bounded length."""
    shown = hide_text(clean(text))
    return shown if len(shown) <= size else f"{shown[: size - 1]}…"
