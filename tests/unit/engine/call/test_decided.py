"""What a decision does, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.engine.call.decided import AfterDecision, after_decision


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        ({"approved": True}, AfterDecision.GO_ON),
        ({"approved": True, "arguments": {}}, AfterDecision.EDIT),
        ({"approved": True, "responded": True, "arguments": {}}, AfterDecision.ANSWER),
        ({"approved": False, "responded": True, "arguments": {}}, AfterDecision.DENY),
        ({"approved": "yes"}, AfterDecision.DENY),
        ({}, AfterDecision.DENY),
    ],
)
def test_only_what_says_yes_lets_the_call_run(decision: dict[str, Any], verdict: AfterDecision) -> None:
    assert after_decision(decision, tool_asked=False) is verdict
    assert after_decision(decision, tool_asked=True) is AfterDecision.TELL_TOOL
