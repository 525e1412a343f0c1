"""`evaluate`: runs cases with agents, in runtimes of their own in memory, and lets checks judge what came of them.

The law: a case with recorded results runs no tool, and nothing of an evaluation is written into the store of the agents. A trial that is on
record is not run again, so an evaluation that was killed goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import msgspec

from clicket import system
from clicket.agents import Agent
from clicket.agents.agent import copy_on, host_of, on_record, seed_thread
from clicket.errors import ClicketError, UsageError
from clicket.evals.case import Case, calls_in
from clicket.evals.replay import RecordedTool, Recordings
from clicket.evals.report import Report
from clicket.evals.results import Results, commit_of
from clicket.evals.trial import Check, Trial, judged, name_of
from clicket.model.codec import canonical, clean
from clicket.runtime.runtime import Runtime
from clicket.safety.vault import hide, hide_text
from clicket.tools import Tool

__all__ = ["Given", "evaluate"]

Made = Callable[[Runtime], Agent]
Given = Agent | Made
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_THREAD = "case"
_MAX_ERROR = 1_000
_FINISHED = "finished"


async def evaluate(
    cases: Iterable[Case],
    agents: Given | Iterable[Given] | Mapping[str, Given],
    checks: Check | Iterable[Check] = (),
    *,
    tools: Iterable[Any] | None = None,
    name: str = "eval",
    rt: Runtime | None = None,
    commit: str | None = None,
    concurrency: int = 8,
    timeout: float = 300.0,
    on_trial: Callable[[Trial], None] | None = None,
) -> Report:
    """Run each case with each agent, and judge what came of it.

    `agents`: one, several, or several by the labels that the report has for them: an agent, or a function that makes one on a runtime
    (`lambda rt: ReActAgent(rt, model, system=…)`). An agent is made again on a runtime of the evaluation, with the tools of its own
    runtime. A case with recorded `calls` gets their results, and no tool runs; in other cases the tools run. `tools`: those of agents that
    a function makes.

    `checks`: functions of a `Trial`, see `Check`. `rt`: keeps the results in its store, under `name`, with the `commit` (default: that of
    the working folder): an evaluation that was interrupted goes on, and the report says what has changed since the last one. `concurrency`:
    cases that run at once. `timeout`: seconds for one. `on_trial` is called as each one ends.
    """
    listed = _named_cases(cases)
    subjects = [_Subject(label, given, tools) for label, given in _labelled(agents).items()]
    wanted = [checks] if callable(checks) else list(checks)
    if type(concurrency) is not int or concurrency < 1:
        raise UsageError(f"concurrency is a number from 1, not {concurrency!r}.")
    if not _NAME.fullmatch(name):
        raise UsageError(f"name: up to 64 letters, digits, '_', '-', '.' or ':', not {name!r:.100}.")
    at, started = system.now(), system.monotonic()
    commit = await commit_of() if commit is None else commit
    work = _digest(listed, subjects, wanted)
    results = None
    if rt is not None:
        results = await Results.of(rt, name, commit=commit, work=work, total=len(listed) * len(subjects))
    running = _Running(wanted, concurrency, timeout, results, on_trial)
    trials: list[Trial] = []
    for subject in subjects:
        done = {} if results is None else results.known(subject.label)
        await running.run(subject, [case for case in listed if case.name not in done], done)
        trials += [msgspec.structs.replace(done[case.name], case=case) for case in listed]
    run = "" if results is None else results.run
    seconds = system.monotonic() - started
    report = Report(name=name, at=at, seconds=seconds, commit=commit, run=run, trials=tuple(trials))
    return report if results is None else await results.ended(report)


class _Subject:
    """An agent of an evaluation. `tools`: of a runtime, for an agent that a function makes."""

    def __init__(self, label: str, given: Given, tools: Iterable[Any] | None) -> None:
        self.label = label
        self._given = given
        if tools is None and isinstance(given, Agent):
            self.tools: list[Tool] = list(host_of(given).tools())
        else:
            self.tools = list(Runtime(tools=tools or (), store="memory://").registry)
        # An agent can be made before its runtime is open.
        made = given if isinstance(given, Agent) else self._on(Runtime(tools=self.tools, store="memory://"))
        self.on_record: Mapping[str, Any] = on_record(made)

    @asynccontextmanager
    async def agent(self, tools: Iterable[Any]) -> AsyncIterator[Agent]:
        """On a runtime of its own, which has these tools."""
        async with Runtime(tools=tools, store="memory://") as rt:
            yield self._on(rt)

    def _on(self, rt: Runtime) -> Agent:
        made = copy_on(self._given, rt) if isinstance(self._given, Agent) else self._given(rt)
        if not isinstance(made, Agent):
            raise UsageError(
                f"agents: {self.label!r} makes {made!r:.100}, and an agent on the runtime that it gets is wanted."
            )
        return made


class _Running:
    """Runs cases at once, and judges and keeps each trial as it ends."""

    def __init__(
        self,
        checks: Sequence[Check],
        concurrency: int,
        timeout: float,
        results: Results | None,
        on_trial: Callable[[Trial], None] | None,
    ) -> None:
        self._checks = checks
        self._concurrency = concurrency
        self._timeout = timeout
        self._results = results
        self._on_trial = on_trial

    async def run(self, subject: _Subject, cases: Sequence[Case], done: dict[str, Trial]) -> None:
        """Adds the trials to `done`, by the names of their cases."""
        recordings: dict[str, Recordings] = {}
        replays = [case for case in cases if case.calls is not None]
        live = [case for case in cases if case.calls is None]
        stand_ins = [RecordedTool(tool, recordings) for tool in subject.tools]
        for some, tools in ((replays, stand_ins), (live, subject.tools)):
            if some:
                async with subject.agent(tools) as agent, asyncio.TaskGroup() as group:
                    queue = enumerate(some)
                    for _ in range(min(self._concurrency, len(some))):
                        group.create_task(self._work(subject.label, agent, queue, recordings, done))

    async def _work(
        self,
        label: str,
        agent: Agent,
        queue: Iterator[tuple[int, Case]],
        recordings: dict[str, Recordings],
        done: dict[str, Trial],
    ) -> None:
        for number, case in queue:
            thread = f"{_THREAD}-{number}"
            recordings[thread] = Recordings(case.calls or ())
            trial = await judged(await _tried(agent, label, case, thread, self._timeout), self._checks)
            del recordings[thread]
            if self._results is not None:
                await self._results.keep(trial)
            done[case.name] = trial
            if self._on_trial is not None:
                self._on_trial(trial)


async def _tried(agent: Agent, label: str, case: Case, thread: str, timeout: float) -> Trial:
    started = system.monotonic()
    try:
        if case.history:
            await seed_thread(agent, thread, case.history)
        async with asyncio.timeout(timeout):
            result = await agent.run(case.message, thread=thread)
    except TimeoutError:
        waits = (await agent.look(thread)).waiting_for
        await agent.stop(thread)
        what = f" It waits for {', '.join(waits)}." if waits else ""
        return Trial(case=case, agent=label, error=f"it had no answer after {timeout:g} s.{what}", seconds=timeout)
    except Exception as error:  # whatever an agent raises is the outcome of this case
        said = error.message if isinstance(error, ClicketError) else f"{type(error).__name__}: {error}"
        return Trial(
            case=case,
            agent=label,
            error=hide_text(clean(said), None)[:_MAX_ERROR],
            seconds=system.monotonic() - started,
        )
    took = system.monotonic() - started
    return Trial(
        case=case,
        agent=label,
        text=result.text,
        value=msgspec.to_builtins(result.value) if _is_plain(result.value) else result.value,
        state=str(result.state),
        stopped=result.stopped or "",
        ended=result.ended,
        steps=result.steps,
        calls=calls_in(result.new_messages),
        usage=result.usage,
        seconds=took,
        error="" if result.stopped == _FINISHED else f"the turn ended as {result.stopped!r}: {result.text[:200]}",
    )


def _is_plain(value: Any) -> bool:
    try:
        msgspec.to_builtins(value)
    except TypeError:
        return False
    return True


def _named_cases(cases: Iterable[Case]) -> list[Case]:
    listed = list(cases) if isinstance(cases, Iterable) and not isinstance(cases, str) else [None]
    named: list[Case] = []
    for number, case in enumerate(listed, 1):
        if not isinstance(case, Case):
            raise UsageError(f"cases is a list of Case('a message'), not of {case!r:.100}.")
        named.append(case if case.name else msgspec.structs.replace(case, name=f"case-{number}"))
    names = [case.name for case in named]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise UsageError(f"two cases are named {twice!r}: each needs a name of its own.")
    if not named:
        raise UsageError("there are no cases: evaluate([Case('a message')], agent).")
    return named


def _labelled(agents: Any) -> dict[str, Given]:
    if isinstance(agents, Mapping):
        found = dict(agents)
    else:
        several = [agents] if isinstance(agents, Agent) or callable(agents) else list(agents)
        found = {}
        for each in several:
            label = each.name if isinstance(each, Agent) else getattr(each, "__name__", "agent").strip("<>")
            number = 2
            while label in found:
                label, number = f"{label.rstrip('0123456789')}{number}", number + 1
            found[label] = each
    for label, each in found.items():
        if not isinstance(label, str) or not _NAME.fullmatch(label):
            raise UsageError(f"agents: {label!r:.100} is not a label: up to 64 letters, digits, '_', '-', '.' or ':'.")
        if not isinstance(each, Agent) and not callable(each):
            raise UsageError(
                f"agents: {label!r} is an agent, or a function that makes one on a runtime, not {each!r:.100}."
            )
    if not found:
        raise UsageError("there are no agents: evaluate(cases, agent).")
    return found


def _digest(cases: Sequence[Case], subjects: Sequence[_Subject], checks: Sequence[Check]) -> str:
    """Of what an evaluation has to do: an interrupted one goes on if it is the same."""
    does = {subject.label: dict(subject.on_record) for subject in subjects}
    named = [name_of(check) for check in checks]
    return sha256(canonical(hide(msgspec.to_builtins([cases, does, named])))).hexdigest()[:16]
