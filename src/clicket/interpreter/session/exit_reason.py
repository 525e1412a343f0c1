"""Why a session has ended, in the words of results."""

from __future__ import annotations

import signal
from typing import Literal

import msgspec

from clicket.errors import ClicketError
from clicket.interpreter.sandbox import Exit

__all__ = ["ExitReason", "SessionGone", "StopReason", "exit_reason_of"]

BROKEN = 70
"""The child's exit status when the program broke the child's own state."""

StopReason = Literal["timeout", "cancel", "memory", "disk", "output", "protocol"]


class ExitReason(msgspec.Struct, frozen=True, kw_only=True):
    """`killed` and the reason, or `crashed` and the signal or exit code. `detail` is a clause: "it wrote too much"."""

    status: Literal["killed", "crashed"]
    reason: str
    detail: str = ""


class SessionGone(ClicketError):
    """The child had ended before a request, or during it."""

    code = "session_gone"

    def __init__(self, exit_reason: ExitReason) -> None:
        text = f"The session has ended, {exit_reason.status} ({exit_reason.reason}): {exit_reason.detail}. Start another one."
        super().__init__(text, status=exit_reason.status, reason=exit_reason.reason)
        self.exit_reason = exit_reason


def exit_reason_of(exit: Exit) -> ExitReason:
    """Of a sandbox process that the host did not kill."""
    if exit.memory:
        return ExitReason(status="killed", reason="memory", detail="it used more memory than it may")
    reason = f"exit code {exit.code}"
    if exit.signal is not None:
        try:
            reason = signal.Signals(exit.signal).name
        except ValueError:
            reason = f"signal {exit.signal}"
    broken = " because the program broke what the child itself needs" if exit.code == BROKEN else ""
    return ExitReason(status="crashed", reason=reason, detail=f"the Python process ended with {reason}{broken}")
