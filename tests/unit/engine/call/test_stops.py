"""What a stop does, as a table: a row says where the call is and why it stops, and which rule counts."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.engine.call.stops import AfterStop, StoppedCall, after_stop

RULES: list[tuple[dict[str, Any], str, AfterStop]] = [
    ({"is_under_way": True}, "cancel", AfterStop.STOP_BODY),
    ({"is_under_way": True, "has_body": True, "waiting_for": "approval"}, "deadline", AfterStop.STOP_BODY),
    ({"is_under_way": True, "waiting_for": "external", "waits_outside": True}, "cancel", AfterStop.CLOSE_WAIT),
    ({}, "cancel", AfterStop.END),
    ({"waiting_for": "approval"}, "approval", AfterStop.END),
    ({"waiting_for": "approval", "is_asked_by_tool": True}, "approval", AfterStop.TELL_TOOL),
    ({"waiting_for": "approval", "is_asked_by_tool": True}, "deadline", AfterStop.END),
    ({"waiting_for": "reconcile"}, "cancel", AfterStop.WAIT_FOR_CHECK),
    ({"waiting_for": "reconcile"}, "shutdown", AfterStop.END),
    ({"waiting_for": "external", "waits_outside": True}, "attempt", AfterStop.CLOSE_WAIT),
    ({"waiting_for": "credential"}, "credential", AfterStop.END),
]


@pytest.mark.parametrize(("facts", "reason", "verdict"), RULES)
def test_the_first_rule_that_holds_counts(facts: dict[str, Any], reason: str, verdict: AfterStop) -> None:
    assert after_stop(StoppedCall(**facts), reason) is verdict
