"""Evaluations as they are listed and shown: runs, figures of agents, and trials with their scores and tool calls."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clicket.model.codec import encode

__all__ = [
    "AgentFigures",
    "EvalReport",
    "EvalRun",
    "EvalRunPage",
    "EvalTrial",
    "Outcome",
    "RecordedCall",
    "Score",
]

Outcome = Literal["passed", "failed", "newly_failed", "newly_passed"]
"""Which trials a report shows. Newly: otherwise than in the last run of the same name."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call of a model, and what the model read as its result. `arguments` are a text if they were not a JSON object."""

    tool: str
    arguments: Any = {}
    content: str = ""
    failed: bool = False

    def __str__(self) -> str:
        text = self.arguments if isinstance(self.arguments, str) else encode(self.arguments).decode()
        return f"{self.tool}({text if len(text) <= 200 else text[:200] + '…'})"


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a check says: from 0 to 1. `why`: for a person."""

    check: str
    passed: bool
    value: float = 1.0
    why: str = ""


class AgentFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of all trials of one agent. Times are seconds; `cost` and `tokens` are sums, `steps` and `calls` are means of a trial."""

    agent: str
    trials: int
    passed: int
    steps: float
    calls: float
    cost: float
    tokens: int
    median_seconds: float
    slowest_seconds: float

    @property
    def rate(self) -> float:
        return self.passed / self.trials if self.trials else 0.0


class EvalRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an evaluation. `ended_at` None: it was interrupted, or runs; then `agents`, `passed` and `rate` are not known yet."""

    name: str
    run: str
    began_at: float
    work: str
    """A digest of cases, agents and checks."""
    total: int
    commit: str = ""
    ended_at: float | None = None
    passed: int = 0
    rate: float | None = None
    """The part of its trials that passed."""
    agents: list[str] = []
    seconds: float = 0.0


class EvalRunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, the newest first. `cursor` fetches the next page; None: there is none."""

    items: list[EvalRun]
    cursor: str | None = None


class EvalTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case with one agent. `why`: why it did not pass. `calls`: the tool calls in order, with their results. `before`:
    whether it passed in the last run of the same name; None: it was not in it. `thread`: the one on record of which the case was made."""

    case: str
    agent: str
    passed: bool
    before: bool | None = None
    why: str = ""
    message: str = ""
    expected: Any = None
    text: str = ""
    value: Any = None
    error: str = ""
    scores: list[Score] = []
    calls: list[RecordedCall] = []
    thread: str | None = None
    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Figures and counts are of all its trials, `trials` are a page of them in the order of their cases. `cursor` fetches the
    next page; None: there is none."""

    run: EvalRun
    figures: list[AgentFigures]
    newly_failed: int
    newly_passed: int
    trials: list[EvalTrial]
    cursor: str | None = None
