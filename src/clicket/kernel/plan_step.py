"""One step of a plan. A completed step stays completed; a blocked one may be taken up again."""

from __future__ import annotations

from clicket.kernel.table import StrEnum, Table

__all__ = ["PLAN_STEP", "PlanStep"]


class PlanStep(StrEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"


PLAN_STEP = Table(
    "plan step",
    PlanStep,
    PlanStep.NOT_STARTED,
    {
        PlanStep.NOT_STARTED: {PlanStep.IN_PROGRESS, PlanStep.COMPLETED, PlanStep.BLOCKED},
        PlanStep.IN_PROGRESS: {PlanStep.COMPLETED, PlanStep.BLOCKED, PlanStep.NOT_STARTED},
        PlanStep.BLOCKED: {PlanStep.NOT_STARTED, PlanStep.IN_PROGRESS},
    },
)
