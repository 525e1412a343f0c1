"""`/evals`: evaluations and their results. Their cases may be made of any caller's turns, so a key needs the scope `admin`."""

from __future__ import annotations

import re
from typing import get_args

from clicket.errors import NotFound
from clicket.evals import Report, Trial, report_of, runs_of
from clicket.model.evaluation import EvalReport, EvalRun, EvalRunPage, EvalTrial, Outcome
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, page_of
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]

_RUN = r"^[0-9]{14}-[0-9A-Za-z]{1,12}$"
_NUMBER = re.compile(r"\d+")


async def listing(request: Request) -> Response:
    limit, cursor = request.query("limit", 100), request.query("cursor")
    found = [
        run
        async for run in runs_of(request.principal.sees, request.query("name"))
        if cursor is None or run.run < cursor
    ]
    page = found[:limit]
    return json_response(EvalRunPage(items=page, cursor=page[-1].run if len(found) > limit else None))


async def report(request: Request) -> Response:
    runtime, name = request.principal.sees, request.path("name")
    run = await _run(runtime, name, request.path("run"))
    found = await report_of(runtime, name, run.run)
    wanted = {each: request.query(each) for each in ("case", "agent", "outcome")}
    place = {agent: number for number, agent in enumerate(run.agents)}
    trials = sorted(
        (each for each in found.trials if _is_wanted(found, each, **wanted)),
        key=lambda trial: (_order(trial.name), place.get(trial.agent, 0), trial.agent),
    )
    limit, begin = request.query("limit", 100), int(request.query("cursor", "0"))
    end = begin + limit
    return json_response(
        EvalReport(
            run=run,
            figures=sorted(found.figures, key=lambda each: place.get(each.agent, 0)),
            newly_failed=len(found.newly_failed),
            newly_passed=len(found.newly_passed),
            trials=[_shown(found, each) for each in trials[begin:end]],
            cursor=str(end) if end < len(trials) else None,
        )
    )


async def _run(runtime: object, name: str, run: str) -> EvalRun:
    async for each in runs_of(runtime, name):
        if each.run == run:
            return each
    raise NotFound(f"there is no run {run:.100} of the evaluation {name!r:.100}.")


def _is_wanted(report: Report, trial: Trial, case: str | None, agent: str | None, outcome: Outcome | None) -> bool:
    if case not in (None, trial.name) or agent not in (None, trial.agent):
        return False
    if outcome is None:
        return True
    is_new = report.passed_before(trial) is (not trial.passed)
    return trial.passed is outcome.endswith("passed") and (is_new or not outcome.startswith("newly"))


def _order(case: str) -> str:
    """`case-2` comes before `case-10`."""
    return _NUMBER.sub(lambda found: found[0].zfill(12), case)


def _shown(report: Report, trial: Trial) -> EvalTrial:
    thread = trial.case.metadata.get("thread")
    return EvalTrial(
        case=trial.name,
        agent=trial.agent,
        passed=trial.passed,
        before=report.passed_before(trial),
        why=trial.why,
        message=trial.case.message,
        expected=trial.case.expected,
        text=trial.text,
        value=trial.value,
        error=trial.error,
        scores=list(trial.scores),
        calls=list(trial.calls),
        thread=thread if isinstance(thread, str) else None,
        steps=trial.steps,
        tokens=trial.usage.total,
        cost=trial.usage.cost,
        seconds=trial.seconds,
    )


OPERATIONS = tagged(
    "evals",
    Operation(
        route="GET /evals",
        description="Runs of evaluations whose results are kept, the newest first.",
        handler=listing,
        scopes=("admin",),
        parameters=(
            Parameter(name="name", description="Only runs of this evaluation.", max_length=64),
            *page_of("Runs", pattern=_RUN),
        ),
        responses={200: ResponseSpec(description="A page of runs.", schema=EvalRunPage)},
    ),
    Operation(
        route="GET /evals/{name}/{run}",
        description="One run: the figures of each agent, and a page of its trials. While it runs, trials that end may be missed between "
        "two pages.",
        handler=report,
        scopes=("admin",),
        parameters=(
            Parameter(name="case", description="Only trials of this case.", max_length=4_000),
            Parameter(name="agent", description="Only trials of this agent.", max_length=64),
            Parameter(
                name="outcome",
                description="Only these trials. Newly: otherwise than in the last run of the same name.",
                choices=get_args(Outcome),
            ),
            *page_of("Trials"),
        ),
        responses={200: ResponseSpec(description="The run.", schema=EvalReport)},
        problems=(404,),
    ),
)
