"""Results of evaluations in a store: a document for each run, and one for each trial as it ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from shutil import which
from typing import Any, Self

import msgspec

from clicket import system
from clicket.errors import NotFound
from clicket.evals.report import Report
from clicket.evals.trial import Trial
from clicket.model.codec import decode, encode
from clicket.model.evaluation import EvalRun
from clicket.model.ids import new_id
from clicket.model.ports import Records
from clicket.safety.vault import hide

__all__ = ["Results", "commit_of", "report_of", "runs_of"]

RUN = "eval.run"
TRIAL = "eval.trial"
_PAGE = 500
_KEPT = 100
"""Runs of one name."""
_COMMITS = ("CLICKET_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA")


class Results:
    """Of one run, which begins here or goes on."""

    def __init__(self, records: Records, summary: EvalRun, known: dict[str, dict[str, Trial]]) -> None:
        self._records = records
        self._summary = summary
        self._known = known
        self.run: str = summary.run
        self.commit: str = summary.commit

    @classmethod
    async def of(cls, rt: Any, name: str, *, commit: str, work: str, total: int) -> Self:
        """The last run of this name, if it was interrupted and had the same work on the same commit; else a new one."""
        records = rt.host.records
        earlier = [summary async for summary in runs_of(rt, name)]
        last = earlier[0] if earlier else None
        if last is not None and last.ended_at is None and (last.work, last.commit) == (work, commit):
            known: dict[str, dict[str, Trial]] = {}
            async for trial in _trials(records, last.name, last.run):
                known.setdefault(trial.agent, {})[trial.name] = trial
            return cls(records, last, known)
        for old in earlier[_KEPT - 1 :]:
            await _remove(records, old)
        now = system.now()
        summary = EvalRun(
            name=name,
            run=f"{int(now * 1_000):014d}-{new_id()[-6:]}",
            began_at=now,
            work=work,
            total=total,
            commit=commit,
        )
        await records.put_document(RUN, f"{name}/{summary.run}", encode(summary), 0)
        return cls(records, summary, {})

    def known(self, agent: str) -> dict[str, Trial]:
        return self._known.get(agent, {})

    async def keep(self, trial: Trial) -> None:
        """Without the case's messages and recordings, and without secrets."""
        case = msgspec.structs.replace(trial.case, history=(), calls=None)
        body = hide(msgspec.to_builtins(msgspec.structs.replace(trial, case=case)))
        key = f"{_place(self._summary)}/{trial.agent}/{trial.name}"
        await self._records.put_document(TRIAL, key, encode(body), None)

    async def ended(self, report: Report) -> Report:
        summary = msgspec.structs.replace(
            self._summary,
            ended_at=system.now(),
            passed=report.passed,
            rate=report.rate,
            agents=report.agents,
            seconds=self._summary.seconds + report.seconds,
        )
        await self._records.put_document(RUN, _place(summary), encode(summary), None)
        before = await _before(self._records, summary)
        return msgspec.structs.replace(report, before=before)


async def runs_of(rt: Any, name: str | None = None) -> AsyncIterator[EvalRun]:
    """The runs of a name, or of all, the newest first."""
    found = [summary async for summary in _summaries(rt.host.records, name)]
    for summary in sorted(found, key=lambda each: each.run, reverse=True):
        yield summary


async def report_of(rt: Any, name: str, run: str | None = None) -> Report:
    """The report of a run (default: the last one that has ended), without the messages of its cases."""
    records = rt.host.records
    listed = [
        each async for each in runs_of(rt, name) if each.run == run or (run is None and each.ended_at is not None)
    ]
    if not listed:
        raise NotFound(f"there is no run {run or 'that has ended'} of the evaluation {name!r}.")
    summary = listed[0]
    trials = [trial async for trial in _trials(records, name, summary.run)]
    return Report(
        name=name,
        at=summary.began_at,
        seconds=summary.seconds,
        commit=summary.commit,
        run=summary.run,
        trials=tuple(trials),
        before=await _before(records, summary),
    )


async def commit_of() -> str:
    """Of the working folder, or as the environment says; empty if neither knows."""
    for name in _COMMITS:
        if os.environ.get(name):
            return os.environ[name][:40]
    git = which("git")
    if git is None:
        return ""
    running = await asyncio.create_subprocess_exec(
        git, "rev-parse", "HEAD", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    said, _ = await running.communicate()
    return said.decode().strip() if running.returncode == 0 else ""


def _place(summary: EvalRun) -> str:
    return f"{summary.name}/{summary.run}"


async def _before(records: Records, summary: EvalRun) -> dict[str, bool] | None:
    """What passed in the last run of this name that ended before; None: there is none."""
    found = [
        each async for each in _summaries(records, summary.name) if each.ended_at is not None and each.run < summary.run
    ]
    if not found:
        return None
    last = max(found, key=lambda each: each.run)
    return {f"{trial.agent}/{trial.name}": trial.passed async for trial in _trials(records, last.name, last.run)}


async def _summaries(records: Records, name: str | None) -> AsyncIterator[EvalRun]:
    async for body in _bodies(records, RUN, "" if name is None else f"{name}/"):
        try:
            yield msgspec.convert(decode(body), EvalRun)
        except (msgspec.ValidationError, ValueError):  # another program wrote it
            continue


async def _trials(records: Records, name: str, run: str) -> AsyncIterator[Trial]:
    async for body in _bodies(records, TRIAL, f"{name}/{run}/"):
        try:
            yield msgspec.convert(decode(body), Trial)
        except (msgspec.ValidationError, ValueError):
            continue


async def _bodies(records: Records, kind: str, prefix: str) -> AsyncIterator[bytes]:
    after = prefix
    while True:
        page = await records.documents(kind, after=after, limit=_PAGE)
        for document in page:
            if not document.key.startswith(prefix):
                return
            yield document.body
        if len(page) < _PAGE:
            return
        after = page[-1].key


async def _remove(records: Records, summary: EvalRun) -> None:
    """The summary last: what is left of a run that was half removed is found again."""
    prefix = f"{_place(summary)}/"
    while True:
        page = [
            each for each in await records.documents(TRIAL, after=prefix, limit=_PAGE) if each.key.startswith(prefix)
        ]
        if not page:
            break
        for document in page:
            await records.delete_document(TRIAL, document.key)
    await records.delete_document(RUN, _place(summary))
