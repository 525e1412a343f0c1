"""The order of the rules for a call that was claimed, as a table: a row says what is true, and which rule counts."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from clicket.engine.call.claimed import AfterClaim, ClaimedCall, after_claim
from clicket.engine.call.doubt import AfterDoubt, Doubt, after_doubt

REPEAT, CHECK, ASK = Doubt(may_repeat=True), Doubt(may_repeat=False, has_check=True), Doubt(may_repeat=False, asks=True)
UNKNOWN = Doubt(may_repeat=False)

RULES: list[tuple[dict[str, Any], AfterClaim]] = [
    ({"deaths": 3, "is_cancelled": True, "waits_outside": True}, AfterClaim.GIVE_UP),
    ({"can_run": False, "was_started": True, "is_cancelled": True, "is_overdue": True}, AfterClaim.RELEASE),
    ({"can_run": False, "is_cancelled": True, "is_overdue": True}, AfterClaim.END_CANCELLED),
    ({"can_run": False, "is_cancelled": True, "is_turn": True}, AfterClaim.RELEASE),
    ({"can_run": False, "is_overdue": True}, AfterClaim.END_OVERDUE),
    ({"can_run": False, "is_decided": True}, AfterClaim.RELEASE),
    ({"was_started": True, "waits_outside": True, "is_cancelled": True}, AfterClaim.WAIT_OUTSIDE),
    ({"was_started": True, "is_cancelled": True, "is_repeatable": True}, AfterClaim.END_CANCELLED),
    ({"was_started": True, "is_cancelled": True, "ends_calls": True, "is_repeatable": True}, AfterClaim.REPEAT),
    ({"was_started": True, "is_cancelled": True, "doubt": UNKNOWN}, AfterClaim.END_UNKNOWN),
    ({"was_started": True, "is_decided": True}, AfterClaim.REPEAT),
    ({"was_started": True, "doubt": CHECK}, AfterClaim.CHECK),
    ({"was_started": True, "doubt": ASK}, AfterClaim.ASK),
    ({"was_started": True, "doubt": UNKNOWN}, AfterClaim.END_UNKNOWN),
    ({"is_cancelled": True, "is_decided": True}, AfterClaim.END_CANCELLED),
    ({"is_cancelled": True, "ends_calls": True}, AfterClaim.QUEUE),
    ({"is_decided": True, "is_overdue": True}, AfterClaim.APPLY_DECISION),
    ({"is_overdue": True}, AfterClaim.QUEUE),
    ({"deaths": 2}, AfterClaim.QUEUE),
]


@pytest.mark.parametrize(("facts", "verdict"), RULES, ids=[f"{list(facts)}" for facts, _ in RULES])
def test_the_first_rule_that_holds_counts(facts: dict[str, Any], verdict: AfterClaim) -> None:
    assert after_claim(ClaimedCall(**{"max_deaths": 3, "doubt": REPEAT, **facts})) is verdict


def test_a_body_runs_again_only_if_its_tool_allows_it_or_it_never_began() -> None:
    flags = [name for name, field in _fields().items() if field.default in (True, False)]
    for chosen in itertools.product((True, False), repeat=len(flags)):
        for doubt in (REPEAT, CHECK, ASK, UNKNOWN):
            call = ClaimedCall(max_deaths=3, doubt=doubt, **dict(zip(flags, chosen, strict=True)))
            verdict = after_claim(call)
            if verdict in (AfterClaim.QUEUE, AfterClaim.REPEAT) and call.was_started:
                assert doubt is REPEAT
            if not call.can_run and not call.deaths:
                assert verdict in (AfterClaim.RELEASE, AfterClaim.END_CANCELLED, AfterClaim.END_OVERDUE)


@pytest.mark.parametrize(
    ("doubt", "verdict"),
    [
        (Doubt(may_repeat=True, has_check=True, asks=True), AfterDoubt.REPEAT),
        (Doubt(may_repeat=False, has_check=True, asks=True, is_cancelled=True), AfterDoubt.CHECK),
        (Doubt(may_repeat=False, asks=True), AfterDoubt.ASK),
        (Doubt(may_repeat=False, asks=True, is_cancelled=True), AfterDoubt.END_UNKNOWN),
        (UNKNOWN, AfterDoubt.END_UNKNOWN),
    ],
)
def test_an_attempt_whose_outcome_is_not_known(doubt: Doubt, verdict: AfterDoubt) -> None:
    assert after_doubt(doubt) is verdict


def _fields() -> dict[str, Any]:
    return {field.name: field for field in msgspec.structs.fields(ClaimedCall)}
