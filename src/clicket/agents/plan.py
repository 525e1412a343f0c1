"""A plan: a list of steps, each with a state. The model changes it by four commands; an invalid command changes nothing, and its error
says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.agents.transcript import storable
from clicket.errors import ClicketError, InvalidInput, InvalidTransition
from clicket.kernel import PLAN_STEP, PlanStep
from clicket.model.chat import ToolOffer

__all__ = ["PLAN_NAMES", "PLAN_OFFER", "Plan", "Step", "apply_command"]

MAX_STEPS = 50
_MAX_TEXT = 2_000
PLAN_NAMES = ("plan", "planning")
"""The name of the plan tool, and the name that models know from other systems."""
_COMMANDS = ("create", "update", "mark_step", "finish")
_STATES = tuple(str(state) for state in PlanStep)

PLAN_OFFER = ToolOffer(
    name="plan",
    description=(
        "Your plan. create: a title and steps. update: the steps anew; those whose text stays keep their state. mark_step: set a "
        "step's state. finish: every step is completed. Steps are carried out for you, each by an assistant who has the tools; a "
        "step given as text waits for the one before it, a step with depends_on only for those, so steps with depends_on: [] run "
        "side by side. When the work is done, answer in words without calling a tool."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": list(_COMMANDS)},
            "title": {"type": "string"},
            "steps": {
                "type": "array",
                "maxItems": MAX_STEPS,
                "items": {
                    "anyOf": [
                        {"type": "string"},
                        {
                            "type": "object",
                            "properties": {
                                "text": {"type": "string"},
                                "depends_on": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                            },
                            "required": ["text"],
                            "additionalProperties": False,
                        },
                    ]
                },
            },
            "step_index": {"type": "integer", "minimum": 1, "description": "For mark_step; the first step is 1."},
            "step_status": {"type": "string", "enum": list(_STATES)},
            "step_notes": {"type": "string"},
            "summary": {"type": "string", "description": "For finish: the final answer."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`depends_on`: numbers of other steps, from 1."""

    text: str
    status: PlanStep = PlanStep.NOT_STARTED
    notes: str = ""
    depends_on: tuple[int, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def is_completed(self) -> bool:
        return bool(self.steps) and all(step.status is PlanStep.COMPLETED for step in self.steps)

    def ready(self) -> list[int]:
        """Numbers of the steps that can run now: all that they depend on is completed."""
        return [
            number
            for number, step in enumerate(self.steps, start=1)
            if step.status in (PlanStep.NOT_STARTED, PlanStep.IN_PROGRESS)
            and all(self.steps[need - 1].status is PlanStep.COMPLETED for need in step.depends_on)
        ]

    def marked(self, number: int, status: PlanStep, notes: str | None = None) -> Plan:
        """The plan with one step in another state. Raises `InvalidTransition` if the table has no such edge; the same state is allowed."""
        step = self.steps[number - 1]
        if step.status is not status:
            PLAN_STEP.advance(step.status, status)
        new = msgspec.structs.replace(step, status=status, notes=step.notes if notes is None else notes[:_MAX_TEXT])
        return msgspec.structs.replace(self, steps=(*self.steps[: number - 1], new, *self.steps[number:]))

    def as_text(self) -> str:
        """The plan as a model reads it."""
        signs = {"completed": "x", "in_progress": ">", "blocked": "!", "not_started": " "}
        lines = [f"Plan: {self.title or 'untitled'}"]
        for number, step in enumerate(self.steps, start=1):
            note = f" ({step.notes})" if step.notes and step.status is PlanStep.BLOCKED else ""
            lines.append(f"{number}. [{signs[step.status]}] {step.text}: {step.status}{note}")
        return "\n".join(lines)

    def outcome(self) -> str:
        """The notes of its steps: the answer of a plan whose planner gave none."""
        return "\n\n".join(step.notes for step in self.steps if step.notes) or self.as_text()

    def body(self) -> dict[str, Any]:
        """The plan as JSON, for records and events."""
        steps = [{**msgspec.to_builtins(step), "depends_on": list(step.depends_on)} for step in self.steps]
        return {"title": self.title, "steps": steps}

    @classmethod
    def of(cls, body: Any) -> Plan:
        return msgspec.convert(body, cls)


def apply_command(plan: Plan | None, given: Mapping[str, Any]) -> Plan:
    """The plan after a command. Raises `ClicketError`, which says what is wrong and what to do."""
    command = given.get("command")
    if command not in _COMMANDS:
        raise InvalidInput(f"command must be one of {', '.join(_COMMANDS)}, not {command!r:.50}")
    if command == "create":
        if plan is not None and plan.steps and not plan.is_completed:
            raise ClicketError("there is a plan already. Change it with update.")
        return Plan(title=_text(given.get("title")), steps=_steps(given.get("steps"), ()))
    if plan is None:
        raise ClicketError("there is no plan yet. Make one with create.")
    if command == "update":
        title = _text(given["title"]) if given.get("title") else plan.title
        return Plan(title=title, steps=_steps(given.get("steps"), plan.steps))
    if command == "mark_step":
        return _mark(plan, given)
    rest = [str(number) for number, step in enumerate(plan.steps, 1) if step.status is not PlanStep.COMPLETED]
    if rest:
        raise ClicketError(
            f"steps {', '.join(rest)} are not completed. Mark or update them first, or answer in words to stop here."
        )
    return plan


def _mark(plan: Plan, given: Mapping[str, Any]) -> Plan:
    number, status, notes = given.get("step_index"), given.get("step_status"), given.get("step_notes")
    if type(number) is not int or not 1 <= number <= len(plan.steps):
        raise InvalidInput(f"step_index must be a step's number from 1 to {len(plan.steps)}, not {number!r:.50}")
    if status is None:
        status = str(plan.steps[number - 1].status)
    if status not in _STATES:
        raise InvalidInput(f"step_status must be one of {', '.join(_STATES)}, not {status!r:.50}")
    try:
        return plan.marked(number, PlanStep(status), None if notes is None else _text(notes))
    except InvalidTransition as refused:
        raise ClicketError(f"step {number}: {refused.message}.") from refused


def _steps(given: Any, old: Sequence[Step]) -> tuple[Step, ...]:
    if not isinstance(given, list) or not given or len(given) > MAX_STEPS:
        raise InvalidInput(f"steps must be a list of 1 to {MAX_STEPS} steps")
    before = {step.text: step for step in reversed(old)}
    made: list[Step] = []
    for number, item in enumerate(given, start=1):
        text = item
        needs = None
        if isinstance(item, Mapping):
            text, needs = item.get("text", item.get("title", item.get("step"))), item.get("depends_on")
        text = _text(text)
        if not text:
            raise InvalidInput(f"step {number} has no text")
        known = before.get(text) or Step(text=text)
        after = tuple(range(1, number)) if needs is None else _needs(number, needs, len(given))
        made.append(msgspec.structs.replace(known, depends_on=after))
    _refuse_circles(made)
    return tuple(made)


def _needs(number: int, given: Any, total: int) -> tuple[int, ...]:
    numbers = given if isinstance(given, list) else [given]
    if not all(type(need) is int and 1 <= need <= total and need != number for need in numbers):
        raise InvalidInput(f"depends_on of step {number} must be numbers of other steps, from 1 to {total}")
    return tuple(sorted(set(numbers)))


def _refuse_circles(steps: Sequence[Step]) -> None:
    left = set(range(1, len(steps) + 1))
    while left:
        free = {number for number in left if not left.intersection(steps[number - 1].depends_on)}
        if not free:
            raise InvalidInput(f"steps {', '.join(map(str, sorted(left)))} depend on each other in a circle")
        left -= free


def _text(given: Any) -> str:
    return storable(given).strip()[:_MAX_TEXT]
