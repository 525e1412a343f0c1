"""Why a session has ended, in the words that results use."""

from __future__ import annotations

import signal
from typing import Literal

import msgspec

from clicket.errors import ClicketError
from clicket.sandbox import Exit

__all__ = ["Fate", "SessionGone", "StopReason", "fate_of"]

BROKEN = 70
"""The worker's exit status when a program has left it nothing to go on with."""

StopReason = Literal["timeout", "cancel", "memory", "disk", "output", "protocol"]


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """`killed` and the reason, or `crashed` and the signal or exit code. `detail` continues a sentence: "it wrote too much"."""

    status: Literal["killed", "crashed"]
    reason: str
    detail: str = ""


class SessionGone(ClicketError):
    """The worker had ended, or ended while it was asked something; `fate` says how."""

    code = "session_gone"

    def __init__(self, fate: Fate) -> None:
        text = f"The session has ended, {fate.status} ({fate.reason}): {fate.detail}. Start another one."
        super().__init__(text, status=fate.status, reason=fate.reason)
        self.fate = fate


def fate_of(exit: Exit) -> Fate:
    """Of a cage that ended without our doing."""
    if exit.memory:
        return Fate(status="killed", reason="memory", detail="it used more memory than it may")
    reason = f"exit code {exit.code}"
    if exit.signal is not None:
        try:
            reason = signal.Signals(exit.signal).name
        except ValueError:
            reason = f"signal {exit.signal}"
    broken = " because the program broke what the worker itself needs" if exit.code == BROKEN else ""
    return Fate(status="crashed", reason=reason, detail=f"the Python process ended with {reason}{broken}")
