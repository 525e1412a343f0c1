"""Why a call stops. Only this module knows which reason replaces which, and only it writes the reason.

`attempt` and `idle` end the attempt, and another may follow. All other reasons end the call: cancel, shutdown, deadline. `elsewhere`: it
goes on in another process, because this one lacks what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.engine.live_call import Attempt, Call
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import ToolError

__all__ = [
    "CALLER_LEFT",
    "Parked",
    "Stopped",
    "abandon",
    "attempt_of",
    "can_stop",
    "cancel_with_caller",
    "explain",
    "forget_stop",
    "has_body",
    "is_abandoned",
    "is_parked",
    "keep_late",
    "park",
    "resume_attempts",
    "returned",
    "set_stopper",
    "state_of",
    "stop",
    "stop_error",
    "stop_inside",
    "take_parked",
]

CALLER_LEFT = "its caller was cancelled"
_ENDS_ATTEMPT = (None, "attempt", "idle")
"""Reasons that a stronger one (a cancel, the call's deadline, closing) may replace."""
_ADVICE = {
    "attempt": "Raise the tool's timeout, or make it do less at once.",
    "idle": "Let the tool call ctx.progress, ctx.emit or ctx.heartbeat while it works, or raise idle_timeout.",
    "deadline": "Give the call a longer deadline.",
    "queue": "Raise max_concurrency or queue_timeout, or submit less at once.",
    "resources": "Ask for less in the tool's resources, add nodes to the Ray cluster, or raise queue_timeout.",
    "approval": "Ask again, and decide within the approval deadline.",
    "credential": "Connect the account, or put the credential, then call again; credential_timeout sets how long calls wait.",
}
_WHAT = {
    "attempt": "the attempt ran out of time",
    "idle": "the tool reported nothing",
    "deadline": "the whole call ran out of time",
    "queue": "the call waited too long for a free slot",
    "resources": "the call waited too long for resources of the Ray cluster",
    "approval": "no decision came in time",
    "credential": "the caller's credential was not there in time",
}


class Stopped(ClicketError):
    """An attempt or a wait was ended from outside. `reason`: cancel, shutdown, attempt, idle, deadline, queue,
    resources, approval, credential."""

    code = "stopped"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Parked(ClicketError):
    """The body is over, and the call is not. `reason`: `credential` (its caller's is missing), `external` (it ends elsewhere), `input` (its
    tool needs a person's answer) or `reconcile` (its tool is asked whether the attempt had its effect). `error`: what ended the attempt,
    if its outcome is unknown or it needs an answer or a credential."""

    code = "parked"

    def __init__(self, reason: str, error: BaseException | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


def attempt_of(call: Call) -> Attempt:
    """The call's attempt, made now if there is none: from here on the body can be stopped."""
    if call.attempt is None:
        call.attempt = Attempt()
    return call.attempt


def can_stop(call: Call) -> bool:
    """Could a reason that ends the call still take effect?"""
    return not call.ending and call.stopping in _ENDS_ATTEMPT


def stop(call: Call, reason: str, why: str = "") -> None:
    """Tell a call to stop. The first reason counts, unless it ends the attempt only and this one the call.

    `why` is shown in the error of a cancelled call.
    """
    if call.ending:
        return
    before = call.stopping
    if before is None or (before in _ENDS_ATTEMPT and reason not in _ENDS_ATTEMPT):
        call.stopping = reason
        if why:
            call.cancel_reason = why
    if before is None and call.attempt is not None and call.attempt.stopper is not None:
        call.attempt.stopper()  # a body that is being stopped is not stopped twice: only the reason changes


def stop_inside(call: Call, reason: str, why: str = "") -> None:
    """Record the reason for a body that ends by itself: no stopper is called."""
    call.stopping = reason
    if why:
        call.cancel_reason = why


def park(call: Call, parked: Parked) -> None:
    """The body is over without an outcome; the engine continues the call without it (`take_parked`)."""
    attempt = attempt_of(call)
    attempt.parked, attempt.doubt = parked.reason, parked.error
    call.stopping = None  # what was to be stopped is over


def is_parked(call: Call) -> bool:
    return call.attempt is not None and bool(call.attempt.parked)


def take_parked(call: Call) -> str:
    """Why the body of the call is over. From here on it is not parked: it goes on."""
    attempt = attempt_of(call)
    reason, attempt.parked = attempt.parked, ""
    return reason


def explain(call: Call, why: str) -> None:
    """Record why a call that waits is cancelled."""
    call.cancel_reason = why


def cancel_with_caller(call: Call) -> None:
    """The caller's task was cancelled: the call is, too, unless another reason came first."""
    attempt_of(call).caller_left = True
    if call.stopping is None:
        call.stopping = "cancel"
        call.cancel_reason = CALLER_LEFT


def forget_stop(call: Call) -> None:
    """The attempt was stopped, and another one follows."""
    call.stopping = None


def has_body(call: Call) -> bool:
    """Does a body run that can be stopped?"""
    return call.attempt is not None and call.attempt.stopper is not None


def set_stopper(attempt: Attempt, stopper: Callable[[], object] | None) -> None:
    """Set the function that stops the body; None: no body runs."""
    attempt.stopper = stopper


def keep_late(attempt: Attempt, value: Any, error: BaseException | None) -> None:
    """Record what the body returned or raised after the stop."""
    attempt.late = (value, error)


def abandon(call: Call) -> None:
    """The body did not stop in its grace: the call ends without it."""
    attempt_of(call).abandoned = True


def returned(call: Call) -> None:
    """An abandoned body has returned."""
    attempt_of(call).abandoned = False


def resume_attempts(call: Call, *, retries: int, outputs: int, progress: dict[str, Any] | None) -> None:
    """Continue the counters of the process that had the call before."""
    if retries or outputs or progress is not None:
        call.attempt = Attempt(retries=retries, outputs=outputs, progress=progress)


def is_abandoned(call: Call) -> bool:
    return call.attempt is not None and call.attempt.abandoned


def state_of(reason: str) -> State:
    return State.CANCELLED if reason in ("cancel", "shutdown", "elsewhere") else State.TIMEOUT


def stop_error(call: Call, reason: str) -> ToolError:
    """The error of a stopped call, with advice."""
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
    after = f" after {limit:g} s" if limit is not None else ""
    return ToolError(code="timeout", message=f"{_WHAT[reason]}{after}. {_ADVICE[reason]}", type="Timeout")
