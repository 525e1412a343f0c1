"""Events of calls, in any order that the state table allows."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

from clicket.kernel import CALL, State
from clicket.model import Event
from clicket.model.event import EventType

__all__ = ["history_by"]

PEOPLE = {"ada": ["ada", "k1"], "ci": ["ci", "ada"], "bob": ["bob", "k2"], "": []}
ERROR = {"code": "tool_error", "message": "no", "type": "ValueError", "retryable": False, "details": {}}
DEADLINES = [{}, {"deadline": None}, {"deadline": 900.5}]
QUESTION = {"key": "q", "source": "the shop", "message": "Which size?", "schema": {"type": "object"}}


def data_of(chance: Random, kind: str, attempts: int) -> dict[str, Any]:
    person = chance.choice(sorted(PEOPLE))
    match kind:
        case "attempt_started":
            return {"attempt": attempts} | chance.choice([{}, {"worker": "w1", "host": "h1"}])
        case "progress":
            return chance.choice([{"step": 1, "percentage": 50.0, "status": "half"}, {"step": 2}])
        case "stage_ended":
            return {"stage": chance.choice(["find", "execute"]), "outcome": "ok", "duration": 0.25}
        case "approval_requested":
            asked = chance.choice([{}, {"approvers": 2}, {"self_approval": True}, {"question": QUESTION}])
            purpose = chance.choice([{}, {"purpose": "recovery"}])
            return {"reason": "money", **asked, **purpose, **chance.choice(DEADLINES)}
        case "approval_given":
            more = chance.choice([{}, {"arguments": {"a": 2}}, {"grant": "g1"}, {"responded": True}])
            names = chance.choice([{}, {"identities": PEOPLE[person]}])
            return {"approved": chance.random() < 0.5, "by": person, "reason": "fine", **names, **more}
        case "note":
            waits = ["approval", "budget", "credential", "external", "rate", "time", None]
            known = chance.choice([{}, {"providers": ["github"], "reasons": {"github": "none"}}])
            external = chance.choice([{}, {"external": {"for": "render farm"}}, {"external": {}}])
            note = chance.choice([{}, *({"waiting_for": each} for each in waits)])
            return {"text": "x", **external, **known, **note, **chance.choice(DEADLINES)}
        case "reconcile_started":
            return {"attempt": attempts, "try": chance.randint(1, 3)}
        case "reconcile_ended":
            found = [{"outcome": "unknown", "reason": "no trace"}, {"outcome": "failed", "error": ERROR}, {}]
            return chance.choice(found)
        case "resolved":
            how = chance.choice([{"output": {"receipt": 7}}, {"rerun_as": "c2"}, {}])
            return {"happened": chance.random() < 0.5, "by": person, "note": "on the statement", **how}
    return {}


KINDS = [kind for kind in get_args(EventType) if kind not in ("created", "state_changed")]


def change_to(chance: Random, state: State) -> dict[str, Any]:
    waiting = chance.choice([{}, {"waiting_for": "approval"}])
    if state is State.COMPLETED:
        plain: dict[str, Any] = {"output": chance.choice([None, 3, "text", {"a": [1]}])}
        cut = {"output": None, "content": "te…", "truncated": True, "artifact": "a1", "cached": True}
        return chance.choice([plain, cut]) | chance.choice([{}, {"duration": 1.5, "metadata": {"m": 1}}])
    if state is State.RETRYING:
        return {"error": chance.choice([ERROR, None]), "delay": 0.5, **waiting}
    if state.is_terminal:
        return chance.choice([{}, {"error": ERROR, "traceback": "Traceback", "delay": None}])
    return waiting


def history_by(chance: Random) -> list[Event]:
    """Any path through the state table, with events of every other type between."""
    created = chance.choice([{}, {"priority": 3, "request_id": "r1", "metadata": {"k": "v"}}])
    state: State = State.PENDING
    attempts = 0
    events = [Event("c1", 1, 100.0, "created", state, {"tool": "pay", "thread": "t", "arguments": {"a": 1}, **created})]
    for seq in range(2, chance.randint(2, 20)):
        kind: Any = chance.choice(["state_changed"] * 4 + KINDS)
        targets = sorted(CALL.edges[state])
        if kind == "state_changed" and not targets:
            kind = "heartbeat"
        if kind == "state_changed":
            before, state = state, chance.choice(targets)
            data = {"from": str(before), "to": str(state), **change_to(chance, state)}
        else:
            attempts += kind == "attempt_started"
            data = data_of(chance, kind, attempts)
        events.append(Event("c1", seq, 100.0 + seq / 4, kind, state, data))
    return events
