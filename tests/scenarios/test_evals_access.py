"""Evaluations over HTTP and by the client, with and without an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.scenarios.server_kit import Api, key_for, served, serving_in_thread

from clicket import Runtime
from clicket.agents import ReActAgent
from clicket.client import Client, SyncClient
from clicket.errors import NotFound
from clicket.evals import Case, RecordedCall, evaluate, text_contains
from clicket.testing import ScriptedModel

ADDED = RecordedCall(tool="add", arguments={"a": 1, "b": 2}, content="3")
CASES = [
    Case(f"number {number}", name=f"case-{number}", calls=(ADDED,), metadata={"thread": f"t{number}"})
    for number in range(1, 12)
]
FAILS = "case-2"


async def run(rt: Runtime, commit: str, *, failing: str = "", name: str = "nightly") -> None:
    wrong = failing.replace("case-", "number ") or None

    def answer(request: Any) -> Any:
        message = request.messages[-1]
        if message.role == "user":
            return [("add", {"a": 1, "b": 2})]
        return "wrong" if any(each.content == wrong for each in request.messages) else "right"

    agents = {label: _agent(answer) for label in ("two", "one")}
    await evaluate(CASES, agents, text_contains("right"), tools=rt.registry, rt=rt, name=name, commit=commit)


def _agent(answer: Any) -> Any:
    return lambda rt: ReActAgent(rt, ScriptedModel([answer] * 100))


@asynccontextmanager
async def evaluated() -> AsyncIterator[tuple[Api, Client]]:
    """Two runs: a case fails in the second, with each of two agents."""
    async with served() as it, Client(it.url) as client:
        await run(it.runtime, "c1")
        await run(it.runtime, "c2", failing=FAILS)
        yield it, client


async def test_runs_are_listed_in_pages_with_the_newest_first() -> None:
    async with evaluated() as (it, client):
        await run(it.runtime, "c3", name="other")
        page = await client.evals.list(limit=2)
        assert [(each.name, each.commit, each.passed, each.total) for each in page.items] == [
            ("other", "c3", 22, 22),
            ("nightly", "c2", 20, 22),
        ]
        assert page.items[0].rate == 1.0
        assert page.items[1].agents == ["two", "one"]
        assert page.items[1].ended_at is not None
        rest = await client.evals.list(limit=2, cursor=page.cursor)
        assert ([each.commit for each in rest.items], rest.cursor) == (["c1"], None)
        assert [each.commit for each in (await client.evals.list("nightly")).items] == ["c2", "c1"]
        for query in ({"limit": 0}, {"limit": 1_001}, {"cursor": "x"}, {"since": 1}):
            assert (await it.get("/evals", params=query)).status_code == 400


async def test_a_report_has_figures_of_all_trials_and_a_page_of_them() -> None:
    async with evaluated() as (_, client):
        run = (await client.evals.list()).items[0].run
        report = await client.evals.report("nightly", run, limit=3)
        assert [(each.agent, each.passed, each.trials) for each in report.figures] == [("two", 10, 11), ("one", 10, 11)]
        assert (report.run.commit, report.newly_failed, report.newly_passed) == ("c2", 2, 0)
        assert [(each.case, each.agent) for each in report.trials] == [
            ("case-1", "two"),
            ("case-1", "one"),
            (FAILS, "two"),
        ]
        failed = report.trials[2]
        assert (failed.passed, failed.before, failed.text, failed.thread) == (False, True, "wrong", "t2")
        assert "has no 'right'" in failed.why
        assert [(call.tool, call.content) for call in failed.calls] == [("add", "3")]
        assert [score.check for score in failed.scores] == ["text_contains"]
        seen = [each.case for each in report.trials]
        while report.cursor is not None:
            report = await client.evals.report("nightly", run, limit=3, cursor=report.cursor)
            seen += [each.case for each in report.trials]
        assert seen == [case.name for case in CASES for _ in range(2)]  # case-2 is before case-10


async def test_a_report_of_some_trials() -> None:
    async with evaluated() as (it, client):
        run = (await client.evals.list()).items[0].run
        counts = {
            outcome: len((await client.evals.report("nightly", run, outcome=outcome)).trials)
            for outcome in ("passed", "failed", "newly_failed", "newly_passed")
        }
        assert counts == {"passed": 20, "failed": 2, "newly_failed": 2, "newly_passed": 0}
        [one] = (await client.evals.report("nightly", run, case=FAILS, agent="two")).trials
        assert (one.case, one.agent) == (FAILS, "two")
        with pytest.raises(NotFound):
            await client.evals.report("nightly", "00000000000000-absent")
        with pytest.raises(NotFound):
            await client.evals.report("other", run)
        assert (await it.get(f"/evals/nightly/{run}", params={"outcome": "x"})).status_code == 400


async def test_an_evaluation_that_runs_has_no_rate_yet() -> None:
    class Stopped(BaseException):
        pass

    def stop(trial: object) -> None:
        raise Stopped

    async with served() as it, Client(it.url) as client:
        with pytest.raises(BaseExceptionGroup):
            await evaluate(
                CASES, _agent("right"), rt=it.runtime, commit="c", concurrency=1, on_trial=stop, tools=it.runtime.registry
            )  # fmt: skip
        [listed] = (await client.evals.list()).items
        assert (listed.ended_at, listed.rate) == (None, None)
        report = await client.evals.report(listed.name, listed.run)
        assert len(report.trials) == 1


async def test_evaluations_are_the_operators() -> None:
    """Their cases may be turns of any caller."""
    async with evaluated() as (it, client):
        run = (await client.evals.list()).items[0].run
        other = await key_for(it, "reader", "read", "call", "approve")
        admin = await key_for(it, "root", "admin")
        for path in ("/evals", f"/evals/nightly/{run}"):
            refused = await it.get(path, headers=other)
            assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
            assert (await it.get(path, headers=admin)).status_code == 200


def test_without_a_loop() -> None:
    with serving_in_thread() as url, SyncClient(url) as client:
        assert client.evals.list().items == []
        with pytest.raises(NotFound):
            client.evals.report("nightly", "00000000000000-absent")
