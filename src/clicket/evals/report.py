"""`Report`: the trials of an evaluation, and their figures for each agent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clicket.evals.trial import Trial
from clicket.model.evaluation import AgentFigures
from clicket.model.printable import marked

__all__ = ["Report", "changes", "headline"]

_MAX_SHOWN = 50


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`before`: which trials, by `AGENT/CASE`, passed in the last run of this name; None: there was none, or results are not kept."""

    name: str
    at: float
    seconds: float
    trials: tuple[Trial, ...]
    commit: str = ""
    run: str = ""
    before: dict[str, bool] | None = None

    def __repr__(self) -> str:
        return f"<report {self.name}: {self.passed} of {len(self.trials)} passed>"

    def __str__(self) -> str:
        return _text(self)

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(trial.agent for trial in self.trials))

    @property
    def passed(self) -> int:
        return sum(trial.passed for trial in self.trials)

    @property
    def rate(self) -> float:
        """The part of the trials that passed, from 0 to 1."""
        return self.passed / len(self.trials) if self.trials else 0.0

    @property
    def failed(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.passed]

    @property
    def figures(self) -> list[AgentFigures]:
        """For each agent."""
        return [_figures(agent, [each for each in self.trials if each.agent == agent]) for agent in self.agents]

    @property
    def newly_failed(self) -> list[Trial]:
        """Those that passed in the last run."""
        return [trial for trial in self.failed if self.passed_before(trial) is True]

    @property
    def newly_passed(self) -> list[Trial]:
        """Those that failed in the last run."""
        return [trial for trial in self.trials if trial.passed and self.passed_before(trial) is False]

    def passed_before(self, trial: Trial) -> bool | None:
        """Whether it passed in the last run; None: it was not in it."""
        return None if self.before is None else self.before.get(f"{trial.agent}/{trial.name}")


def _figures(agent: str, trials: Sequence[Trial]) -> AgentFigures:
    count = len(trials) or 1
    times = sorted(trial.seconds for trial in trials) or [0.0]
    return AgentFigures(
        agent=agent,
        trials=len(trials),
        passed=sum(trial.passed for trial in trials),
        steps=sum(trial.steps for trial in trials) / count,
        calls=sum(len(trial.calls) for trial in trials) / count,
        cost=sum(trial.usage.cost for trial in trials),
        tokens=sum(trial.usage.total for trial in trials),
        median_seconds=times[len(times) // 2],
        slowest_seconds=times[-1],
    )


def _text(report: Report) -> str:
    """For a terminal."""
    lines = [headline(report)]
    lines += [
        f"  {each.agent}: {each.passed} of {each.trials} ({each.rate:.0%}), {each.steps:.1f} steps, {each.calls:.1f} calls, "
        f"{each.tokens:,} tokens, {each.cost:.4f} spent, median {each.median_seconds:.2f} s"
        for each in report.figures
    ]
    lines += [f"  {trial.agent}/{trial.name}: {trial.why}" for trial in report.failed[:_MAX_SHOWN]]
    if len(report.failed) > _MAX_SHOWN:
        lines.append(f"  … and {len(report.failed) - _MAX_SHOWN} more that failed")
    return "\n".join([*map(marked, lines), *map(marked, changes(report))])


def headline(report: Report) -> str:
    """Its name, its commit, and how much passed."""
    commit = f" at {report.commit[:10]}" if report.commit else ""
    return f"{report.name}{commit}: {report.passed} of {len(report.trials)} passed ({report.rate:.0%}) in {report.seconds:.1f} s"


def changes(report: Report) -> list[str]:
    """Lines that say what differs from the last run."""
    lines = []
    for what, trials in (("newly failed", report.newly_failed), ("newly passed", report.newly_passed)):
        if trials:
            named = ", ".join(f"{trial.agent}/{trial.name}" for trial in trials[:_MAX_SHOWN])
            more = f" and {len(trials) - _MAX_SHOWN} more" if len(trials) > _MAX_SHOWN else ""
            lines.append(f"  {what} since the last run: {named}{more}")
    return lines
