"""What becomes of a call that this process has just claimed: nobody else runs it, and it has not ended.

The order of the rules is their meaning: of several that hold the first one counts.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from clicket.engine.call.doubt import AfterDoubt, Doubt, after_doubt

__all__ = ["AfterClaim", "ClaimedCall", "after_claim"]


class ClaimedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is on record, and what this process can do."""

    deaths: int = 0
    """How many of its processes died over it since it last made progress; 0 if its last owner handed it back."""
    max_deaths: int
    can_run: bool = True
    """Its tool is registered here, and this process may run it."""
    is_turn: bool = False
    """It is a turn of an agent, which ends itself, with the calls that it made."""
    was_started: bool = False
    """An attempt is under way by the record: it runs or streams."""
    waits_outside: bool = False
    """Its body has returned, and another system ends the call."""
    is_cancelled: bool = False
    """A cancel is on record."""
    ends_calls: bool = False
    """Its body has begun, and is resumed also after a cancel, to end the calls that it made."""
    is_overdue: bool = False
    """Its deadline has passed."""
    is_decided: bool = False
    """A person has denied it, or answered in the tool's place, and its last owner did not apply that. An approved call is queued: it is not
    authorized again, so nobody is asked a second time."""
    is_repeatable: bool = False
    """The tool says that its attempts can be repeated, whatever is done with those in doubt."""
    doubt: Doubt
    """For the attempt that was under way."""


class AfterClaim(Enum):
    GIVE_UP = "end as outcome_unknown: too many processes died over it"
    END_CANCELLED = "end as cancelled"
    END_OVERDUE = "end as timeout: its deadline has passed"
    RELEASE = "release it: another process runs it"
    WAIT_OUTSIDE = "go on waiting for the other system"
    REPEAT = "record that the attempt failed, and queue the call"
    CHECK = "ask the tool's check"
    ASK = "ask a person whether to run it again"
    END_UNKNOWN = "end as outcome_unknown"
    APPLY_DECISION = "apply the person's decision"
    QUEUE = "queue the call, or wait on for the person's decision"


_IN_DOUBT = {
    AfterDoubt.REPEAT: AfterClaim.REPEAT,
    AfterDoubt.CHECK: AfterClaim.CHECK,
    AfterDoubt.ASK: AfterClaim.ASK,
    AfterDoubt.END_UNKNOWN: AfterClaim.END_UNKNOWN,
}


def after_claim(call: ClaimedCall) -> AfterClaim:
    if call.deaths >= call.max_deaths:
        return AfterClaim.GIVE_UP
    if not call.can_run:
        if call.was_started:
            return AfterClaim.RELEASE  # its tool's options decide, and they are not known here
        if call.is_cancelled and not call.is_turn:
            return AfterClaim.END_CANCELLED
        return AfterClaim.END_OVERDUE if call.is_overdue else AfterClaim.RELEASE
    if call.waits_outside:
        return AfterClaim.WAIT_OUTSIDE
    is_cancelled = call.is_cancelled and not call.ends_calls
    if call.was_started and not (is_cancelled and call.is_repeatable):
        return _IN_DOUBT[after_doubt(call.doubt)]
    if is_cancelled:
        return AfterClaim.END_CANCELLED
    if call.is_decided:
        return AfterClaim.APPLY_DECISION
    return AfterClaim.QUEUE
