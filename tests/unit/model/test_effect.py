"""Whether a call had its effect, for each way in which it can end."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import Record, State, ToolError
from clicket.model import Effect, effect_of, is_in_doubt
from clicket.model.effect import why_none
from clicket.model.record import Attempt


def call(state: State, *outcomes: str, code: str = "", **fields: Any) -> Record:
    error = ToolError(code=code, message="", type="") if code else None
    attempts = [Attempt(number=n, started_at=0.0, outcome=outcome) for n, outcome in enumerate(outcomes, 1)]
    return Record(id="c", tool="t", thread="t", state=state, created_at=0.0, error=error, attempts=attempts, **fields)


def settled(*, happened: bool) -> dict[str, Any]:
    return {"happened": happened, "output": None, "by": "ann", "note": "", "at": 0.0, "rerun_as": None}


DENIED = {"purpose": "recovery", "approved": False}
CASES: list[tuple[Record, Effect]] = [
    (call(State.COMPLETED, "ok"), "happened"),
    (call(State.COMPLETED, "ok", cached=True), "none"),
    (call(State.COMPLETED), "none"),
    (call(State.FAILED, "tool_error", code="tool_error"), "none"),
    (call(State.FAILED, code="invalid_input"), "none"),
    (call(State.FAILED, "outcome_unknown", code="outcome_unknown"), "unknown"),
    (call(State.FAILED, code="outcome_unknown"), "unknown"),
    (call(State.FAILED, "result_unserializable", code="result_unserializable"), "unknown"),
    (call(State.FAILED, "timeout", "tool_error", code="tool_error"), "unknown"),
    (call(State.FAILED, "retrying", "tool_error", code="tool_error"), "unknown"),
    (call(State.FAILED, "retrying", code="approval_denied", approval=DENIED), "none"),
    (call(State.TIMEOUT, "timeout", code="timeout"), "unknown"),
    (call(State.TIMEOUT, "tool_error", code="timeout"), "none"),
    (call(State.TIMEOUT, code="timeout"), "none"),
    (call(State.CANCELLED, "cancelled", code="cancelled"), "unknown"),
    (call(State.CANCELLED, code="cancelled"), "none"),
    (call(State.TIMEOUT, "timeout", code="timeout", resolution=settled(happened=True)), "happened"),
    (call(State.TIMEOUT, "timeout", code="timeout", resolution=settled(happened=False)), "none"),
]


@pytest.mark.parametrize(("record", "expected"), CASES, ids=range(len(CASES)))
def test_each_end(record: Record, expected: Effect) -> None:
    assert effect_of(record) == expected
    assert is_in_doubt(record) is (expected == "unknown")
    if expected == "none":
        assert why_none(record)


def test_a_call_that_has_not_ended_is_not_in_doubt() -> None:
    assert not is_in_doubt(call(State.RUNNING, "timeout"))
