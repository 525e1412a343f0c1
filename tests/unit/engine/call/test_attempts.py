"""The order of the rules for an attempt that ended, as a table: a row says what is true, and which rule counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from clicket.engine.call.attempts import AfterAttempt, EndedAttempt, after_attempt

RETRIES = {"has_retries": True}

RULES: list[tuple[dict[str, Any], AfterAttempt]] = [
    ({"needs": "credential", "is_lost": True, "has_check": True}, AfterAttempt.WAIT_FOR_CREDENTIAL),
    ({"needs": "input", **RETRIES, "is_transient": True}, AfterAttempt.ASK_PERSON),
    ({**RETRIES, "is_transient": True}, AfterAttempt.RETRY),
    ({**RETRIES, "is_transient": True, "is_attended": False}, AfterAttempt.END),
    ({"is_transient": True}, AfterAttempt.END),
    ({**RETRIES}, AfterAttempt.END),
    ({**RETRIES, "stopped": "attempt", "is_repeatable": True}, AfterAttempt.RETRY),
    ({**RETRIES, "stopped": "attempt", "is_repeatable": True, "may_go_on": False}, AfterAttempt.STOP),
    ({**RETRIES, "stopped": "attempt", "is_transient": True}, AfterAttempt.END),
    ({**RETRIES, "stopped": "idle", "has_check": True}, AfterAttempt.CHECK),
    ({"stopped": "attempt", "has_check": True}, AfterAttempt.CHECK),
    ({"stopped": "cancel", "has_check": True}, AfterAttempt.END),
    ({"stopped": "attempt", "has_check": True, "is_attended": False}, AfterAttempt.END),
    ({"stopped": "attempt", "has_check": True, "is_repeatable": True}, AfterAttempt.END),
    ({"is_lost": True, "has_check": True}, AfterAttempt.CHECK),
    ({"is_lost": True, "is_transient": True, **RETRIES, "has_check": True}, AfterAttempt.RETRY),
    ({"has_check": True}, AfterAttempt.END),
]


@pytest.mark.parametrize(("facts", "verdict"), RULES, ids=[f"{list(facts)}" for facts, _ in RULES])
def test_the_first_rule_that_holds_counts(facts: dict[str, Any], verdict: AfterAttempt) -> None:
    assert after_attempt(EndedAttempt(**facts)) is verdict


def test_a_body_that_may_still_run_or_must_not_run_twice_is_not_attempted_again() -> None:
    flags = ["is_transient", "is_lost", "may_go_on", "is_attended", "has_retries", "is_repeatable", "has_check"]
    for stopped in ("", "attempt", "idle", "cancel"):
        for chosen in itertools.product((True, False), repeat=len(flags)):
            attempt = EndedAttempt(stopped=stopped, **dict(zip(flags, chosen, strict=True)))
            verdict = after_attempt(attempt)
            if not attempt.is_attended:
                assert verdict is AfterAttempt.END
            if verdict is AfterAttempt.RETRY:
                assert attempt.has_retries
                assert attempt.is_repeatable or not stopped
                assert attempt.may_go_on or not stopped
