"""What a call needs next, as a table: a row says what is known of the call, and which rule counts."""

from __future__ import annotations

from itertools import product

import pytest

from clicket.engine.call.next_step import NextStep, WaitingCall, next_step

RULES: list[tuple[set[str], NextStep]] = [
    (set(), NextStep.TAKE_SLOT),
    ({"is_left"}, NextStep.GIVE_AWAY),
    ({"is_asked"}, NextStep.ASK_PERSON),
    ({"is_asked", "is_left"}, NextStep.ASK_PERSON),
    ({"is_asked", "waits_for_person"}, NextStep.KEEP),
    ({"is_asked", "waits_for_person", "is_left"}, NextStep.GIVE_AWAY),
    ({"is_asked", "is_early", "needs_credentials", "may_be_cached"}, NextStep.ASK_PERSON),
    ({"is_early", "needs_credentials", "may_be_cached", "is_left"}, NextStep.WAIT_FOR_TIME),
    ({"needs_deps", "needs_credentials", "may_be_cached", "is_left"}, NextStep.WAIT_FOR_DEPS),
    ({"needs_credentials", "may_be_cached"}, NextStep.FIND_CREDENTIALS),
    ({"may_be_cached"}, NextStep.FIND_RESULT),
    ({"may_be_cached", "is_left"}, NextStep.FIND_RESULT),
]


@pytest.mark.parametrize(("holds", "step"), RULES)
def test_the_first_rule_that_holds_counts(holds: set[str], step: NextStep) -> None:
    assert next_step(WaitingCall(**dict.fromkeys(holds, True))) is step


def test_a_call_takes_a_slot_only_if_nothing_holds_it_back() -> None:
    names = WaitingCall.__struct_fields__
    for values in product((False, True), repeat=len(names)):
        facts = dict(zip(names, values, strict=True))
        step = next_step(WaitingCall(**facts))
        held = any(facts[name] for name in names if name != "waits_for_person")
        assert (step is NextStep.TAKE_SLOT) is not held, facts
