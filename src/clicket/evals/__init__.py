"""Evaluations: cases, agents and checks give a report. Cases are written by hand, read from files, or made of turns that are on
record; these are replayed without any effect.

    from clicket.evals import Case, evaluate, text_contains

    report = await evaluate([Case("What is 2 + 3?")], agent, text_contains("5"))
    print(report)

- `case`: `Case`, also of a turn on record
- `replay`: recorded results in place of tools
- `trial`: what came of a case with an agent, and what checks say of it
- `checks`: those that most evaluations need
- `evaluate`: runs cases with agents
- `report`, `formats`: figures of an evaluation; as text, Markdown, HTML and JUnit's XML
- `results`: results in a store: an interrupted evaluation goes on, and is compared with the last one
- `datasets`: cases in files, and those of pydantic-evals
"""

from __future__ import annotations

from clicket.evals.case import Case, cases_of
from clicket.evals.checks import (
    calls_in_order,
    judge,
    max_cost,
    max_seconds,
    max_steps,
    no_call,
    text_contains,
    value_equals,
)
from clicket.evals.datasets import from_pydantic_evals, load_cases, save_cases, to_pydantic_evals
from clicket.evals.evaluate import evaluate
from clicket.evals.formats import html, junit, markdown
from clicket.evals.report import Report
from clicket.evals.results import report_of, runs_of
from clicket.evals.trial import Check, Trial
from clicket.model.evaluation import AgentFigures, EvalRun, RecordedCall, Score

__all__ = [
    "AgentFigures",
    "Case",
    "Check",
    "EvalRun",
    "RecordedCall",
    "Report",
    "Score",
    "Trial",
    "calls_in_order",
    "cases_of",
    "evaluate",
    "from_pydantic_evals",
    "html",
    "judge",
    "junit",
    "load_cases",
    "markdown",
    "max_cost",
    "max_seconds",
    "max_steps",
    "no_call",
    "report_of",
    "runs_of",
    "save_cases",
    "text_contains",
    "to_pydantic_evals",
    "value_equals",
]
