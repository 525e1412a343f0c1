"""What a person's decision does to the call that waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

__all__ = ["AfterDecision", "after_decision"]


class AfterDecision(Enum):
    TELL_TOOL = "give it to the tool, whatever it is: the tool has asked"
    DENY = "end the call as denied"
    ANSWER = "end the call with the person's answer in place of the tool's"
    EDIT = "run the call with other arguments, if they fit"
    GO_ON = "run the call"


def after_decision(decision: Mapping[str, Any], *, tool_asked: bool) -> AfterDecision:
    if tool_asked:
        return AfterDecision.TELL_TOOL
    if decision.get("approved") is not True:
        return AfterDecision.DENY
    if decision.get("responded") is True:
        return AfterDecision.ANSWER
    return AfterDecision.EDIT if "arguments" in decision else AfterDecision.GO_ON
