"""What a benchmark script declares: its contenders, its measurements, and the required results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = [
    "Answer",
    "Column",
    "Contender",
    "Measure",
    "Question",
    "Required",
    "Row",
    "Verdict",
    "high",
    "median",
    "ratio",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One line of the table: `python -m module variant` in the environment of that name."""

    name: str
    title: str
    environment: str
    module: str
    variant: str = ""
    servers: tuple[str, ...] = ()
    """The servers that it needs, by the names of `servers.py`; each round gets fresh ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one contender, over all rounds."""

    median: Mapping[str, float] = field(default_factory=dict)
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    rounds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The figures of each round, in order."""
    versions: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of one question, by contender, and where they come from."""

    rows: Mapping[str, Row]
    commit: str
    measured_at: str
    command: str
    rounds: int
    seconds: float
    load: float
    """The machine's one-minute load before the first round: well above 0 means that other programs disturbed the run."""

    def median(self, contender: str, figure: str) -> float | None:
        row = self.rows.get(contender)
        return row.median.get(figure) if row else None

    def high(self, contender: str, figure: str) -> float | None:
        row = self.rows.get(contender)
        return row.high.get(figure) if row else None

    def ratio(self, above: str, below: str, figure: str, over: str | None = None) -> float | None:
        """`above` divided by `below` in each round; of these the median. A machine that changes its speed from round to round changes
        both of a round."""
        tops, bottoms = self._rounds(above, figure), self._rounds(below, over or figure)
        if not tops or len(tops) != len(bottoms) or not all(bottoms):
            return None
        return statistics.median(top / bottom for top, bottom in zip(tops, bottoms, strict=True)) or None

    def _rounds(self, contender: str, figure: str) -> Sequence[float]:
        row = self.rows.get(contender)
        if row is None or figure not in row.median:
            return ()
        return row.rounds.get(figure) or (row.median[figure],)


Measure = Callable[[Answer], float | None]


def median(contender: str, figure: str) -> Measure:
    return lambda answer: answer.median(contender, figure)


def high(contenders: Iterable[str], figure: str) -> Measure:
    """The highest of all rounds of all these; no figure when one of them has none."""
    names = tuple(contenders)

    def measure(answer: Answer) -> float | None:
        known = [value for name in names if (value := answer.high(name, figure)) is not None]
        return max(known) if len(known) == len(names) else None

    return measure


def ratio(above: str, below: str, figure: str, over: str | None = None) -> Measure:
    return lambda answer: answer.ratio(above, below, figure, over)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure, its heading, and how to print it."""

    figure: str
    title: str
    show: Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """One line of the table "required / measured / ok"."""

    text: str
    measure: Measure
    limit: float
    aim: float | None = None
    at_most: bool = False
    beyond: bool = False
    """Not required by the specification: judged like the others, and marked."""
    as_fraction: bool = False
    """`measure` gives the peer's figure over ours; printed inverted, as a fraction of the peer's."""
    if_missed: str = ""
    """A note for readers, shown if it is not met."""
    show: Callable[[float], str] = lambda value: f"{value:.1f} ×"

    @property
    def shown_text(self) -> str:
        return f"{self.text} (beyond what is asked)" if self.beyond else self.text

    def judge(self, answer: Answer) -> Verdict:
        value = self.measure(answer)
        met = value is not None and (value <= self.limit if self.at_most else value >= self.limit)
        aimed = self.aim is None or (value is not None and value >= self.aim)
        sign = "≤" if self.at_most or self.as_fraction else "≥"
        return Verdict(
            text=self.shown_text,
            required=f"{sign} {self.show(self.limit)}" + (f" (aim {self.show(self.aim)})" if self.aim else ""),
            measured="no figure" if value is None else self.show(value),
            ok="?" if value is None else ("yes" if aimed else "yes, aim missed") if met else "NO",
            note="" if met or value is None else self.if_missed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    text: str
    required: str
    measured: str
    ok: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One benchmark script."""

    name: str
    title: str
    about: str
    contenders: tuple[Contender, ...]
    columns: tuple[Column, ...]
    required: tuple[Required, ...] = ()
    max_rounds: int = 100
