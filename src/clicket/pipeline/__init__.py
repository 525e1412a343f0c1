"""The six stages of a call, and the policy that the second one asks."""

from __future__ import annotations

from clicket.pipeline.authorize import Authorize
from clicket.pipeline.execute import Execute
from clicket.pipeline.find import Find
from clicket.pipeline.persist import Persist
from clicket.pipeline.pipeline import Pipeline
from clicket.pipeline.policy import Policy, Request, Verdict
from clicket.pipeline.process import Process
from clicket.pipeline.stage import Stage
from clicket.pipeline.validate import Validate

__all__ = [
    "Authorize",
    "Execute",
    "Find",
    "Persist",
    "Pipeline",
    "Policy",
    "Process",
    "Request",
    "Stage",
    "Validate",
    "Verdict",
]
