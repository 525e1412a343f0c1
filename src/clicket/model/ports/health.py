"""How an outcome changes the health of its tool: one table, from which every store derives its SQL or Lua.

`HEALTH_LAW` names, for each effect of an outcome, the columns that change and the rule for each. A column that is not named
keeps its value. `assignments` renders the rules of one effect in another language; `health_after` is the table in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal

import msgspec

from clicket.model.ports.records import HealthEffect, OutcomeStats, ToolHealth

__all__ = [
    "HEALTH_LAW",
    "HealthRule",
    "HealthRun",
    "assignments",
    "health_after",
    "health_after_run",
    "runs_of_outcomes",
]

HealthRule = Literal["add", "add_or_restart", "zero", "at", "at_if_unset", "cause", "tool_version"]
"""`add`: one more. `add_or_restart`: one more if the last failure was one of the same version of the tool, else 1. `zero`: 0.
`at`: the time of the outcome. `at_if_unset`: that time, unless the column has one. `cause`: the beginning of the error's
message. `tool_version`: the version of the tool that failed."""

_EVERY: Final[Mapping[str, HealthRule]] = {"updated_at": "at", "version": "add"}
HEALTH_LAW: Final[Mapping[HealthEffect, Mapping[str, HealthRule]]] = {
    "completed": {
        "completions": "add",
        "consecutive_failures": "zero",
        "first_success_at": "at_if_unset",
        "last_success_at": "at",
        **_EVERY,
    },
    "served": {"completions": "add", "first_success_at": "at_if_unset", "last_success_at": "at", **_EVERY},
    "failed": {
        "failures": "add",
        "consecutive_failures": "add_or_restart",
        "last_failure_at": "at",
        "last_error": "cause",
        "tool_version": "tool_version",
        **_EVERY,
    },
    "none": {},
}


def assignments(effect: HealthEffect, expressions: Mapping[HealthRule, str]) -> list[tuple[str, str]]:
    """The columns that an effect changes and the expression for each. `expressions` has one template for each rule; `{column}`
    in it is replaced by the column."""
    return [(column, expressions[rule].format(column=column)) for column, rule in HEALTH_LAW[effect].items()]


_PYTHON: Final[Mapping[HealthRule, str]] = {
    "add": "old.{column} + run.count",
    "add_or_restart": "(old.{column} if old.tool_version == run.tool_version else 0) + run.count",
    "zero": "0",
    "at": "run.last_at",
    "at_if_unset": "run.first_at if old.{column} is None else old.{column}",
    "cause": "run.cause",
    "tool_version": "run.tool_version",
}
_After = Callable[[ToolHealth, "HealthRun"], ToolHealth]


def _compiled(effect: HealthEffect) -> _After:
    """The rules of one effect as one expression. Every ending call runs it: a loop over the rules takes three times as long."""
    changes = ", ".join(f"{column}={value}" for column, value in assignments(effect, _PYTHON))
    source = f"lambda old, run: replace(old, {changes})"
    after: _After = eval(source, {"replace": msgspec.structs.replace})  # noqa: S307  # made of the constants above
    return after


_AFTER: Final[Mapping[HealthEffect, _After]] = {effect: _compiled(effect) for effect in HEALTH_LAW}


def health_after(health: ToolHealth | None, stats: OutcomeStats) -> ToolHealth:
    """A tool's health after an outcome."""
    return health_after_run(health, stats.tool, _run_of(stats))


def _run_of(stats: OutcomeStats) -> HealthRun:
    return HealthRun(stats.effect, 1, stats.at, stats.at, stats.cause, stats.tool_version)


def health_after_run(health: ToolHealth | None, tool: str, run: HealthRun) -> ToolHealth:
    """A tool's health after several outcomes with the same effect."""
    return _AFTER[run.effect](ToolHealth(tool=tool) if health is None else health, run)


class HealthRun(msgspec.Struct, frozen=True, gc=False):
    """Outcomes of one tool with the same effect and of the same version, one directly after the other: `add` adds `count`, `at` is
    `last_at`, and `at_if_unset` is `first_at`."""

    effect: HealthEffect
    count: int
    first_at: float
    last_at: float
    cause: str
    tool_version: str


def runs_of_outcomes(outcomes: Iterable[OutcomeStats]) -> list[HealthRun]:
    """Outcomes of one tool, in their order, as few runs: a store that writes a batch touches its row once for each run."""
    runs = [list(run) for _, run in groupby(outcomes, attrgetter("effect", "tool_version"))]
    return [
        HealthRun(run[0].effect, len(run), run[0].at, run[-1].at, run[-1].cause, run[0].tool_version) for run in runs
    ]
