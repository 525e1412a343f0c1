"""How a call ends: the one place where what stopped or broke an attempt becomes a state and an error."""

from __future__ import annotations

from clicket.errors import ClicketError
from clicket.journal import LiveCall
from clicket.kernel import State
from clicket.model import ToolError

__all__ = ["Stopped", "state_of", "stop_error"]


class Stopped(ClicketError):
    """An attempt or a wait was ended from outside. `reason`: cancel, shutdown, attempt, idle, deadline, queue, approval."""

    code = "stopped"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_ADVICE = {
    "attempt": "Raise the tool's timeout, or make it do less at once.",
    "idle": "Let the tool call ctx.progress, ctx.emit or ctx.heartbeat while it works, or raise idle_timeout.",
    "deadline": "Give the call a longer deadline.",
    "queue": "Raise max_concurrency or queue_timeout, or submit less at once.",
    "approval": "Ask again, and decide within the approval deadline.",
}


def state_of(reason: str) -> State:
    return State.CANCELLED if reason in ("cancel", "shutdown") else State.TIMEOUT


def stop_error(call: LiveCall, reason: str) -> ToolError:
    """The error of a call that was stopped, with what to do about it."""
    if state_of(reason) is State.CANCELLED:
        why = f": {call.cancel_reason}" if call.cancel_reason else ""
        return ToolError(code="cancelled", message=f"the call was cancelled{why}", type="Cancelled")
    options = call.tool.options if call.tool is not None else None
    limits = {
        "attempt": call.request.timeout or (options.timeout if options else None),
        "idle": options.idle_timeout if options else None,
        "deadline": call.request.deadline,
    }
    limit = limits.get(reason)
    what = {
        "attempt": "the attempt ran out of time",
        "idle": "the tool gave no sign of life",
        "deadline": "the whole call ran out of time",
        "queue": "the call waited too long for a free slot",
        "approval": "nobody decided in time",
    }[reason]
    after = f" after {limit:g} s" if limit is not None else ""
    return ToolError(code="timeout", message=f"{what}{after}. {_ADVICE[reason]}", type="Timeout")
