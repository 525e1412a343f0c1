"""What follows on an attempt that ended without an output: it raised, or its body was stopped.

The order of the rules is their meaning: of several that hold the first one counts.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

__all__ = ["AfterAttempt", "EndedAttempt", "after_attempt"]


class EndedAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    needs: Literal["", "credential", "input"] = ""
    """What the body asked for when it ended: another credential of its caller, or a person's answer."""
    stopped: str = ""
    """Why the body was stopped; empty: it ended by itself."""
    is_transient: bool = False
    """There are retries, and the next attempt may succeed where this one failed."""
    is_lost: bool = False
    """The body's process or machine was lost while it ran."""
    may_go_on: bool = True
    """Nothing has ended the call meanwhile, such as a cancel."""
    is_attended: bool = True
    """The body has returned, and its caller has not left. One that still runs must not run twice at the same time."""
    has_retries: bool = False
    is_repeatable: bool = False
    has_check: bool = False
    """Its tool can say whether an attempt had its effect."""


class AfterAttempt(Enum):
    WAIT_FOR_CREDENTIAL = "wait for a credential of the caller"
    ASK_PERSON = "ask a person what the body asked"
    RETRY = "back off, then attempt again"
    STOP = "end the call, as it was asked to"
    CHECK = "ask the tool's check"
    END = "end the call with what ended the attempt"


def after_attempt(attempt: EndedAttempt) -> AfterAttempt:
    if attempt.needs == "credential":
        return AfterAttempt.WAIT_FOR_CREDENTIAL
    if attempt.needs == "input":
        return AfterAttempt.ASK_PERSON
    if attempt.has_retries and attempt.is_attended:
        if attempt.stopped and not attempt.may_go_on:
            return AfterAttempt.STOP
        if attempt.is_repeatable if attempt.stopped else attempt.is_transient:
            return AfterAttempt.RETRY
    is_in_doubt = attempt.stopped in ("attempt", "idle") or (attempt.is_lost and not attempt.stopped)
    if is_in_doubt and attempt.has_check and attempt.is_attended and not attempt.is_repeatable:
        return AfterAttempt.CHECK
    return AfterAttempt.END
