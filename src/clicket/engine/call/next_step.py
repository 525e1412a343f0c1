"""What a call needs next, before a body of it runs.

It is asked again whenever one of these is over: nothing remembers where the call came from. The order of the rules is their meaning: of
several that hold the first one counts.
"""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = ["NextStep", "WaitingCall", "next_step"]


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that has not ended, of which no body runs."""

    is_asked: bool = False
    """The policy asks a person, and neither a person nor a grant has let the call run."""
    waits_for_person: bool = False
    """The question is staged or on record, and no grant answers it."""
    is_early: bool = False
    """Its time has not come."""
    needs_deps: bool = False
    """The run of its agent brought deps that this process does not have."""
    needs_credentials: bool = False
    """Its tool uses credentials of its caller, and they have not been looked for."""
    may_be_cached: bool = False
    """A result of an equal call may serve it, and that has not been looked for."""
    is_left: bool = False
    """Another process is to run it."""


class NextStep(Enum):
    ASK_PERSON = "ask a person, unless a grant answers"
    KEEP = "store it, and wait for the person"
    WAIT_FOR_TIME = "store it, and leave it until its time"
    WAIT_FOR_DEPS = "keep it until its run's deps are here"
    FIND_CREDENTIALS = "look for the credentials of its caller"
    FIND_RESULT = "look for the result of an equal call"
    GIVE_AWAY = "store it without an owner, for another process"
    TAKE_SLOT = "take a slot, or wait in the queue for one"


def next_step(call: WaitingCall) -> NextStep:
    if call.is_asked:
        if not call.waits_for_person:
            return NextStep.ASK_PERSON
        return NextStep.GIVE_AWAY if call.is_left else NextStep.KEEP
    if call.is_early:
        return NextStep.WAIT_FOR_TIME
    if call.needs_deps:
        return NextStep.WAIT_FOR_DEPS
    if call.needs_credentials:
        return NextStep.FIND_CREDENTIALS
    if call.may_be_cached:
        return NextStep.FIND_RESULT
    return NextStep.GIVE_AWAY if call.is_left else NextStep.TAKE_SLOT
