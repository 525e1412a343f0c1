"""What a reason to stop a call does, wherever the call is: its caller or a person cancels it, its time is up, the runtime closes.

The order of the rules is their meaning: of several that hold the first one counts.
"""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = ["AfterStop", "StoppedCall", "after_stop"]


class StoppedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    is_under_way: bool = False
    """Its attempt starts, runs, or waits for its next one."""
    waiting_for: str | None = None
    has_body: bool = False
    """A body runs that can be stopped. It may wait for a person meanwhile."""
    is_asked_by_tool: bool = False
    """What it waits for is the answer to a question of its tool."""
    waits_outside: bool = False
    """Its body has returned, and another system ends the call."""


class AfterStop(Enum):
    STOP_BODY = "stop the body; what it does then ends the call"
    TELL_TOOL = "tell the tool that no answer came"
    WAIT_FOR_CHECK = "do nothing: what the tool's check finds decides how the call ends"
    CLOSE_WAIT = "take no result from outside any more, then end the call"
    END = "end the call"


def after_stop(call: StoppedCall, reason: str) -> AfterStop:
    if call.is_under_way and (call.waiting_for is None or call.has_body):
        return AfterStop.STOP_BODY
    if reason == "approval" and call.is_asked_by_tool:
        return AfterStop.TELL_TOOL
    if call.waiting_for == "reconcile" and reason != "shutdown":
        return AfterStop.WAIT_FOR_CHECK
    return AfterStop.CLOSE_WAIT if call.waits_outside else AfterStop.END
