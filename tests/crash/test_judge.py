"""Tests of the judge itself: it finds and names each violation that is planted into sound records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.crash.judge import Ack, Effect, Rule, Verdict, judge

from clicket import Event, Record, State
from clicket.kernel import CALL
from clicket.model import fold

RULES = {
    "pay": Rule(),
    "put": Rule(repeatable=True),
    "confirm": Rule(recovery="ask"),
    "approved": Rule(needs_approval=True),
    "flaky": Rule(max_retries=1),
    "report": Rule(artifact=True),
    "look_up": Rule(repeatable=True, cached=True),
}
Step = tuple[str, str, dict[str, Any]]
UNKNOWN = {"code": "outcome_unknown", "message": "who knows", "type": "OutcomeUnknown"}
FAILED = {"code": "tool_error", "message": "no", "type": "RetryableError", "retryable": True}


def error(code: str) -> dict[str, Any]:
    return {"code": code, "message": "words", "type": "Words"}


def to(state: str, **data: Any) -> Step:
    return ("state_changed", state, data)


def start(attempt: int = 1) -> list[Step]:
    return [
        *([to("initializing")] if attempt == 1 else []),
        to("running"),
        ("attempt_started", "", {"attempt": attempt}),
    ]


def event(kind: str, **data: Any) -> Step:
    return (kind, "", data)


TAKEN_OVER = event("note", text="taken over", claims=2)
ASKED = event("approval_requested", timeout=None)
COMPLETED = to("completed", output=1)


def record(*steps: Step | list[Step], tool: str = "pay", id: str = "a", key: str = "key") -> Record:
    """A call with these events; a step without a state keeps the previous state. Its events may include transitions
    that `fold` refuses."""
    first = Event(id, 1, 1.0, "created", State.PENDING, {"tool": tool, "thread": "t", "idempotency_key": key})
    events = [first]
    for step in steps:
        for kind, state, data in step if isinstance(step, list) else [step]:
            now = State(state) if state else events[-1].state
            body = {"from": events[-1].state.value, "to": state, **data} if state else data
            events.append(Event(id, len(events) + 1, 1.0, kind, now, body))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(CALL), "advance", lambda table, before, after: None)
        return fold(events)


def ran(*attempts: int, id: str = "a", key: str = "key", tool: str = "pay") -> list[Effect]:
    return [Effect(id, attempt, key, tool) for attempt in attempts]


def ack(state: str = "completed", code: str | None = None, output: Any = 1) -> Ack:
    return Ack(did="result", id="a", state=state, code=code, output=output)


def look(*records: Record, effects: list[Effect] | None = None, acks: list[Ack] | None = None, **more: Any) -> Verdict:
    return judge(records, effects or [], acks or [], RULES, **more)


RERUN = [to("retrying", error=UNKNOWN)]
SOUND: dict[str, tuple[Record, list[Effect], list[Ack]]] = {
    "completed": (record(start(), COMPLETED), ran(1), [Ack(did="submit", id="a"), ack()]),
    "refused": (record(to("failed", error=error("invalid_input"))), [], [ack("failed", "invalid_input", None)]),
    "from the cache": (record(to("completed", output=1, cached=True), tool="look_up"), [], [ack()]),
    "in doubt": (record(start(), TAKEN_OVER, to("failed", error=UNKNOWN)), ran(1), []),
    "in doubt without an effect": (record(start(), TAKEN_OVER, to("failed", error=UNKNOWN)), [], []),
    "repeatable": (record(start(), TAKEN_OVER, RERUN, start(2), COMPLETED, tool="put"), ran(1, 2, tool="put"), []),
    "a legal retry": (
        record(start(), to("retrying", error=FAILED), start(2), COMPLETED, tool="flaky"),
        ran(1, 2, tool="flaky"),
        [],
    ),
    "asked again": (
        record(
            start(), RERUN, ASKED, event("approval_given", approved=True, by="Ada"), start(2), COMPLETED, tool="confirm"
        ),
        ran(1, 2, tool="confirm"),
        [Ack(did="decide", id="a", took=True, text="Ada")],
    ),
    "denied after a start": (
        record(
            start(),
            RERUN,
            ASKED,
            event("approval_given", approved=False, by="Ada"),
            to("failed", error=error("approval_denied")),
            tool="confirm",
        ),
        ran(1, tool="confirm"),
        [],
    ),
    "waiting for a person": (record(ASKED, tool="approved"), [], [Ack(did="submit", id="a")]),
    "cancelled": (
        record(start(), event("cancel_requested", reason=""), to("cancelled", error=error("cancelled"))),
        ran(1),
        [Ack(did="cancel", id="a", took=True), ack("cancelled", "cancelled", None)],
    ),
    "with a late result": (
        record(start(), TAKEN_OVER, to("failed", error=UNKNOWN), event("late_result", output=1)),
        ran(1),
        [],
    ),
    "given up": (record(start(), [TAKEN_OVER] * 5, to("failed", error=UNKNOWN), tool="put"), ran(1, tool="put"), []),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_passes(name: str) -> None:
    one, effects, acks = SOUND[name]
    assert look(one, effects=effects, acks=acks).findings == []


def gap() -> Record:
    one = record(start(), COMPLETED)
    del one.events[2]
    return one


PLANTED: dict[str, tuple[str, Verdict]] = {
    "lost": ("lost", look(acks=[Ack(did="submit", id="a")])),
    "lost with its outcome": ("lost", look(acks=[ack()])),
    "ran and is gone": ("lost", look(effects=ran(1))),
    "an event that was shown": (
        "lost",
        look(
            record(start(), COMPLETED),
            effects=ran(1),
            acks=[Ack(did="saw", id="a", seq=9, type="output", state="running")],
        ),
    ),
    "another event was shown": (
        "lost",
        look(
            record(start(), COMPLETED),
            effects=ran(1),
            acks=[Ack(did="saw", id="a", seq=2, type="output", state="pending")],
        ),
    ),
    "a cancel": ("lost", look(record(start(), COMPLETED), effects=ran(1), acks=[Ack(did="cancel", id="a", took=True)])),
    "a decision": (
        "lost",
        look(record(ASKED, tool="approved"), acks=[Ack(did="decide", id="a", took=True, text="Ada")]),
    ),
    "an artifact": (
        "lost",
        look(
            record(start(), to("completed", truncated=True, content="…", artifact="x"), tool="report"),
            effects=ran(1, tool="report"),
            artifacts={"x": b"half"},
            texts={"a": "half of it"},
        ),
    ),
    "two effects of one attempt": ("repeated", look(record(start(), COMPLETED), effects=ran(1, 1))),
    "a rerun of what must not": ("repeated", look(record(start(), RERUN, start(2), COMPLETED), effects=ran(1, 2))),
    "a rerun, by luck without harm": ("wrong", look(record(start(), RERUN, start(2), COMPLETED), effects=ran(2))),
    "a rerun that nobody approved": (
        "repeated",
        look(record(start(), RERUN, start(2), COMPLETED, tool="confirm"), effects=ran(1, 2, tool="confirm")),
    ),
    "a rerun that was denied": (
        "repeated",
        look(
            record(start(), RERUN, event("approval_given", approved=False, by=""), start(2), COMPLETED, tool="confirm"),
            effects=ran(1, 2, tool="confirm"),
        ),
    ),
    "a retry after a timeout": (
        "repeated",
        look(record(start(), to("retrying", error=error("timeout")), start(2), COMPLETED), effects=ran(1, 2)),
    ),
    "more retries than allowed": (
        "wrong",
        look(
            record(
                start(),
                to("retrying", error=FAILED),
                start(2),
                to("retrying", error=FAILED),
                start(3),
                COMPLETED,
                tool="flaky",
            ),
            effects=ran(1, 2, 3, tool="flaky"),
        ),
    ),
    "an effect without intent": ("wrong", look(record(to("failed", error=error("tool_error"))), effects=ran(1))),
    "an attempt skipped": ("wrong", look(record(to("initializing"), start(2), COMPLETED), effects=ran(2))),
    "another key": ("wrong", look(record(start(), COMPLETED), effects=ran(1, key="other"))),
    "a key of two calls": (
        "wrong",
        look(record(start(), COMPLETED), record(start(), COMPLETED, id="b"), effects=[*ran(1), *ran(1, id="b")]),
    ),
    "another tool": ("wrong", look(record(start(), COMPLETED), effects=ran(1, tool="put"))),
    "two ends": ("wrong", look(record(start(), COMPLETED, to("failed", error=UNKNOWN)), effects=ran(1))),
    "something after the end": ("wrong", look(record(start(), COMPLETED, event("note", text="")), effects=ran(1))),
    "an edge that is not there": ("wrong", look(record(to("running"), COMPLETED))),
    "a state that slipped": ("wrong", look(record(("note", "running", {}), to("failed", error=UNKNOWN)))),
    "a gap": ("wrong", look(gap(), effects=ran(1))),
    "listed twice": ("wrong", look(record(start(), COMPLETED), record(start(), COMPLETED), effects=ran(1))),
    "left behind": ("wrong", look(record(start()), effects=ran(1))),
    "left in the queue": ("wrong", look(record(), acks=[Ack(did="submit", id="a")])),
    "completed without running": ("wrong", look(record(start(), COMPLETED))),
    "from the cache though it has none": ("wrong", look(record(to("completed", output=1, cached=True)))),
    "another outcome": ("wrong", look(record(start(), COMPLETED), effects=ran(1), acks=[ack("failed", "tool_error")])),
    "another output": ("wrong", look(record(start(), COMPLETED), effects=ran(1), acks=[ack(output=2)])),
    "an effect that is denied": (
        "wrong",
        look(record(start(), to("failed", error=error("tool_unavailable"))), effects=ran(1)),
    ),
    "in doubt, but called a failure": (
        "wrong",
        look(record(start(), RERUN, to("failed", error=error("tool_error"))), effects=ran(1)),
    ),
    "unknown though it never started": ("wrong", look(record(TAKEN_OVER, to("failed", error=UNKNOWN)))),
    "given up too soon": (
        "wrong",
        look(record(start(), TAKEN_OVER, to("failed", error=UNKNOWN), tool="put"), effects=ran(1, tool="put")),
    ),
    "not approved": (
        "wrong",
        look(record(ASKED, start(), COMPLETED, tool="approved"), effects=ran(1, tool="approved")),
    ),
    "trouble in a child": ("wrong", look(acks=[Ack(did="trouble", text="an error in the log")])),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_broken_is_found(name: str) -> None:
    kind, verdict = PLANTED[name]
    assert verdict.count(kind) == 1, verdict.findings


def test_calls_are_counted_once() -> None:
    verdict = look(
        *(one for one, _, _ in [SOUND["in doubt"]]),
        effects=ran(1, 1, 1),
        acks=[Ack(did="submit", id="a"), Ack(did="submit", id="a"), ack("failed", "outcome_unknown", None)],
    )
    assert (verdict.calls, verdict.acked, verdict.unknown) == (1, 1, 1)
    assert verdict.count("repeated") == 1
