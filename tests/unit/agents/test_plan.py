"""Four commands change a plan, along its table; an invalid command changes nothing and returns the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.agents.plan import MAX_STEPS, Plan, Step, apply_command
from clicket.errors import ClicketError, InvalidInput, InvalidTransition
from clicket.kernel import PLAN_STEP, PlanStep

TEXTS = st.one_of(st.sampled_from(["a", "b", "c"]), st.text(max_size=4), st.none(), st.integers())
NEEDS = st.one_of(st.none(), st.lists(st.integers(-1, 5), max_size=3), st.integers(0, 4), st.text(max_size=1))
STEPS = st.lists(
    st.one_of(TEXTS, st.fixed_dictionaries({"text": TEXTS}, optional={"depends_on": NEEDS, "title": TEXTS})), max_size=5
)
COMMANDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "command": st.sampled_from(
            ["create", "create", "update", "mark_step", "mark_step", "finish", "destroy", None, 7]
        )
    },
    optional={
        "title": TEXTS,
        "steps": st.one_of(STEPS, st.none(), st.text(max_size=2)),
        "step_index": st.one_of(st.integers(-1, 6), st.none(), st.booleans(), st.text(max_size=1)),
        "step_status": st.one_of(st.sampled_from([*map(str, PlanStep), "done"]), st.none()),
        "step_notes": TEXTS,
        "summary": TEXTS,
    },
)


def check(plan: Plan) -> None:
    assert 1 <= len(plan.steps) <= MAX_STEPS
    for number, step in enumerate(plan.steps, start=1):
        assert step.text
        assert number not in step.depends_on
        assert all(1 <= need <= len(plan.steps) for need in step.depends_on)
    # Some step can always start, or all open steps wait for blocked ones.
    is_open = [step for step in plan.steps if step.status in (PlanStep.NOT_STARTED, PlanStep.IN_PROGRESS)]
    if is_open and not any(step.status is PlanStep.BLOCKED for step in plan.steps):
        assert plan.ready()
    assert Plan.of(plan.body()) == plan


@given(st.lists(COMMANDS, max_size=12))
def test_any_commands_leave_a_plan_that_makes_sense(commands: list[dict[str, Any]]) -> None:
    plan: Plan | None = None
    for command in commands:
        try:
            after = apply_command(plan, command)
        except ClicketError:
            continue
        check(after)
        if command["command"] == "mark_step" and plan is not None:
            for old, new in zip(plan.steps, after.steps, strict=True):
                assert old.status is new.status or new.status in PLAN_STEP.edges[old.status]
        if command["command"] == "update" and plan is not None:
            before = {step.text: step.status for step in reversed(plan.steps)}
            assert all(step.status is before.get(step.text, PlanStep.NOT_STARTED) for step in after.steps)
        if command["command"] == "finish":
            assert after == plan
            assert after.is_completed
        plan = after


def made(*steps: Any) -> Plan:
    return apply_command(None, {"command": "create", "title": "T", "steps": list(steps)})


def test_steps_wait_for_the_one_before_unless_they_say_otherwise() -> None:
    assert made("a", "b", "c").ready() == [1]
    plan = made("a", {"text": "b", "depends_on": []}, {"text": "c", "depends_on": [1, 2]})
    assert plan.ready() == [1, 2]
    plan = plan.marked(1, PlanStep.COMPLETED).marked(2, PlanStep.IN_PROGRESS)
    assert plan.ready() == [2]
    assert plan.marked(2, PlanStep.COMPLETED).ready() == [3]
    assert plan.marked(2, PlanStep.BLOCKED).ready() == []


@pytest.mark.parametrize("before", list(PlanStep))
@pytest.mark.parametrize("after", list(PlanStep))
def test_a_step_moves_only_along_its_table(before: PlanStep, after: PlanStep) -> None:
    plan = Plan(steps=(Step(text="a", status=before),))
    if before is after or after in PLAN_STEP.edges[before]:
        assert plan.marked(1, after).steps[0].status is after
        seen = apply_command(plan, {"command": "mark_step", "step_index": 1, "step_status": str(after)})
        assert seen.steps[0].status is after
    else:
        with pytest.raises(InvalidTransition):
            plan.marked(1, after)
        with pytest.raises(ClicketError, match="step 1"):
            apply_command(plan, {"command": "mark_step", "step_index": 1, "step_status": str(after)})


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ({"command": "destroy"}, "command must be one of"),
        ({}, "command must be one of"),
        ({"command": "create", "steps": []}, "1 to 50"),
        ({"command": "create", "steps": ["x"] * 51}, "1 to 50"),
        ({"command": "create", "steps": "x"}, "1 to 50"),
        ({"command": "create", "steps": ["a", " "]}, "step 2 has no text"),
        (
            {"command": "create", "steps": [{"text": "a", "depends_on": [2]}, {"text": "b", "depends_on": [1]}]},
            "circle",
        ),
        ({"command": "create", "steps": [{"text": "a", "depends_on": [1]}]}, "depends_on of step 1"),
        ({"command": "update", "steps": ["a"]}, "Make one with create"),
        ({"command": "finish"}, "Make one with create"),
    ],
)
def test_what_makes_no_sense_says_what_to_do(command: dict[str, Any], reason: str) -> None:
    with pytest.raises(ClicketError, match=reason):
        apply_command(None, command)


def test_a_plan_that_is_under_way_is_not_made_anew_and_not_finished_early() -> None:
    plan = made("a", "b")
    with pytest.raises(ClicketError, match="Change it with update"):
        apply_command(plan, {"command": "create", "steps": ["c"]})
    with pytest.raises(ClicketError, match="steps 1, 2 are not completed"):
        apply_command(plan, {"command": "finish"})
    for index in (0, 3, "1", True, None):
        with pytest.raises(InvalidInput, match="step_index"):
            apply_command(plan, {"command": "mark_step", "step_index": index, "step_status": "completed"})
    done = plan.marked(1, PlanStep.COMPLETED).marked(2, PlanStep.COMPLETED)
    assert apply_command(done, {"command": "finish"}) == done
    assert made("c") == apply_command(done, {"command": "create", "title": "T", "steps": ["c"]})
    kept = apply_command(plan.marked(1, PlanStep.COMPLETED, "it went well"), {"command": "update", "steps": ["a", "x"]})
    assert [(step.text, str(step.status), step.notes) for step in kept.steps] == [
        ("a", "completed", "it went well"),
        ("x", "not_started", ""),
    ]
    assert "1. [x] a: completed" in kept.as_text()
