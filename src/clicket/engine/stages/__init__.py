"""The six stages of a call, and the policy that the authorize stage applies.

- `pipeline`: `Pipeline`, which runs the stages in this order and times them
- `find`: stage 1: is there such a tool, and may its thread use it now?
- `authorize`: stage 2: the policy allows, denies or asks
- `validate`: stage 3: do the arguments fit the schema?
- `execute`: stage 4: runs the tool, through `clicket.engine.executors`
- `process`: stage 5: the output as plain JSON, and as text for the model
- `persist`: stage 6: writes the outcome; says which outcomes count as failures of the tool
- `policy`, `rules`: the policy; its conditions on arguments
- `grant_terms`: do arguments fit the terms of a grant?
- `policy_config`: reads a policy from the settings
"""

from __future__ import annotations

from clicket.engine.stages.authorize import Authorize
from clicket.engine.stages.execute import Execute
from clicket.engine.stages.find import Find
from clicket.engine.stages.grant_terms import check_schema, fit_schema
from clicket.engine.stages.persist import Persist
from clicket.engine.stages.pipeline import Pipeline, refusal
from clicket.engine.stages.policy import Decision, Policy, Request, Rule, Verdict
from clicket.engine.stages.policy_config import declared_policy
from clicket.engine.stages.process import Process
from clicket.engine.stages.rules import Condition
from clicket.engine.stages.validate import Deferred, Judged, Validate

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
    "check_schema",
    "declared_policy",
    "fit_schema",
    "refusal",
]
