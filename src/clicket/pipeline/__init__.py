"""The six stages of a call, and the policy that the authorize stage applies."""

from __future__ import annotations

from clicket.pipeline.authorize import Authorize
from clicket.pipeline.execute import Execute
from clicket.pipeline.find import Find
from clicket.pipeline.persist import Persist
from clicket.pipeline.pipeline import Pipeline, refusal
from clicket.pipeline.policy import Decision, Policy, Request, Rule, Verdict
from clicket.pipeline.policy_config import declared_policy
from clicket.pipeline.process import Process
from clicket.pipeline.rules import Condition
from clicket.pipeline.validate import Deferred, Judged, Validate

__all__ = [
    "Authorize",
    "Condition",
    "Decision",
    "Deferred",
    "Execute",
    "Find",
    "Judged",
    "Persist",
    "Pipeline",
    "Policy",
    "Process",
    "Request",
    "Rule",
    "Validate",
    "Verdict",
    "declared_policy",
    "refusal",
]
