"""`python -m benchmarks.search.ablation DATA [--write]`: what each feature is worth, by leaving it out.

Each feature of the ranking of documents and of the choice of sentences gets the weight 0 in turn, and the tuning questions of all sets are
asked again. `--write` puts the table into SEARCH.md. The documentation is that of `benchmarks.search.documents`; its held-back halves are
not asked.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.report import commit, table
from benchmarks.search.answers import about_documentation
from benchmarks.search.data import DataMissing, load
from benchmarks.search.documents import SETS
from benchmarks.search.figures import has, mean, recall
from benchmarks.search.fit import DOCUMENTS, Recorder
from benchmarks.search.model_section import write_section
from clicket.search import Findings, Index, deep_search
from clicket.search.planning.question_reading import read_question
from clicket.search.ranking import ranker
from clicket.search.synthesis import sentence_selection
from clicket.search.synthesis.extractive import ExtractiveSynthesizer

_VECTORS = ("meaning", "meant")
"""Features that are 0 without vectors."""
_RULES = (
    ("loss of covered terms", "_COVERED_LOSS", 0.0),
    ("related terms", "_RELATED_SHARE", 0.0),
)  # fmt: skip
"""Rules of the choice of sentences, each with the constant that it depends on and the value at which it has no effect."""
Figures = tuple[float | None, float, float, float]
"""Recall at 5, if the supporting passages are known; the answer in the first sentence; in the first three; in all, at most eight."""


@dataclass(frozen=True)
class Task:
    question: str
    gold: tuple[str, ...]
    answers: tuple[str, ...]


@contextmanager
def without(part: str, name: str) -> Iterator[None]:
    """The package without one feature; `part` is `ranking`, `sentences` or `rule`."""
    if part == "ranking":
        names = [row[0] for row in ranker._WEIGHTS]
        columns = [
            [0.0 if one == name else weight for one, weight in zip(names, column, strict=True)]
            for column in ranker._COLUMNS
        ]
        change: Any = patch.object(ranker, "_COLUMNS", columns)
    elif part == "sentences":
        values = [0.0 if one == name else weight for one, weight in sentence_selection.WEIGHTS]
        change = patch.object(sentence_selection, "_VALUES", tuple(values))
    else:
        constant, value = next((constant, value) for title, constant, value in _RULES if title == name)
        change = patch.object(sentence_selection, constant, value)
    with change:
        yield


def features() -> list[tuple[str, str]]:
    return [
        *(("ranking", row[0]) for row in ranker._WEIGHTS if row[0] not in _VECTORS),
        *(("sentences", name) for name, _ in sentence_selection.WEIGHTS),
        *(("rule", title) for title, _, _ in _RULES),
    ]


def search(index: Index, tasks: Sequence[Task]) -> list[Findings]:
    recorder, found = Recorder(), []
    for one in tasks:
        question = read_question(one.question, index).text
        asyncio.run(deep_search(question, engine=index, synthesizer=recorder))
        found.append(recorder.findings)
    return found


def figures(index: Index, tasks: Sequence[Task], findings: Sequence[Findings]) -> Figures:
    """Refusals are not counted: the decision about an answer is fitted to the features as they are."""
    recalls: list[float] = []
    within: dict[int, list[bool]] = {1: [], 3: [], 8: []}
    extractive = ExtractiveSynthesizer(index, judges=False)
    for one, found in zip(tasks, findings, strict=True):
        if one.gold:
            recalls.append(recall([key for key, _ in found.ranked], one.gold, 5))
        if one.answers:
            texts = [cited.text for cited in extractive.extract(found).citations]
            for most, found_in in within.items():
                found_in.append(any(has(texts[:most], answer) for answer in one.answers))
    first, three, eight = (100 * mean(each) for each in within.values())
    return 100 * mean(recalls) if recalls else None, first, three, eight


def measure(data: str, limit: int | None, place: Path) -> dict[str, dict[tuple[str, str], Figures]]:
    """For each set the figures of the package, by an empty name, and without each feature."""
    found: dict[str, dict[tuple[str, str], Figures]] = {}

    def of_set(title: str, index: Index, tasks: Sequence[Task]) -> None:
        before = search(index, tasks)
        found[title] = {("", ""): figures(index, tasks, before)}
        for part, name in features():
            with without(part, name):
                findings = search(index, tasks) if part == "ranking" else before
                found[title][part, name] = figures(index, tasks, findings)
        print(f"{title}: {len(tasks)} questions", file=sys.stderr)

    for one in load(data, limit=limit):
        with Index.open(place / f"{one.name}.db") as index:
            index.add(one.passages)
            tasks = [Task(each.text, each.gold, (each.answer,) if each.answer else ()) for each in one.questions]
            of_set(one.title, index, tasks)
    for name, title in SETS.items() if DOCUMENTS.is_dir() else ():
        tuning = [one for one in about_documentation(name) if one.answers and one.row.endswith("tuning")]
        with Index.open(place / f"{name}.db") as index:
            index.add_folder(DOCUMENTS / name)
            of_set(title, index, [Task(one.question, (), one.answers) for one in tuning[:limit]])
    return found


_INTRODUCTION = (
    "`python -m benchmarks.search.ablation DATA --write` gives each feature of the ranking of documents and of the choice of sentences "
    "the weight 0 in turn, switches off each rule of that choice, and asks the tuning questions of all sets again. A cell is the change of "
    "recall@5 (where the supporting passages are known) / of the answer in the first sentence / the first three / all, at most eight, in "
    "points; refusals are not counted. A dot is no change. *Helps in*: sets in which the changes add up to less than zero."
)


def section(found: Mapping[str, Mapping[tuple[str, str], Figures]]) -> str:
    """The section of SEARCH.md, without its markers."""
    rows = [["as it is", *(_cell(of_set["", ""]) for of_set in found.values()), ""]]
    for part, name in next(iter(found.values())):
        if not name:
            continue
        changes = [_change(of_set["", ""], of_set[part, name]) for of_set in found.values()]
        helps = sum(_sum(change) < 0 for change in changes)
        rows.append([f"{part}: {name}", *(_cell(change, "+") for change in changes), str(helps)])
    made = f"At commit {commit()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    heads = ["without", *found, "helps in"]
    return "\n\n".join(["### Each feature left out", _INTRODUCTION, table(heads, rows), made])


def _change(before: Figures, after: Figures) -> Figures:
    known = None if before[0] is None or after[0] is None else after[0] - before[0]
    first, three, eight = (now - then for then, now in zip(before[1:], after[1:], strict=True))
    return known, first, three, eight


def _sum(change: Figures) -> float:
    return round(sum(one or 0.0 for one in change), 6)


def _cell(given: Figures, sign: str = "") -> str:
    shown = ["·" if sign and abs(one) < 0.05 else f"{one:{sign}.1f}" for one in given if one is not None]
    return "·" if set(shown) == {"·"} else " / ".join(shown)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ablation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="the folder with the question sets")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set")
    parser.add_argument("--write", action="store_true", help="put the table into SEARCH.md")
    options = parser.parse_args(words)
    if options.write and options.limit:
        parser.error("--write is for all questions: leave out --limit")
    try:
        with tempfile.TemporaryDirectory(prefix="ablation-") as scratch:
            made = section(measure(options.data, options.limit, Path(scratch)))
    except DataMissing as missing:
        print(f"ablation: {missing}", file=sys.stderr)
        return 2
    print(made)
    if options.write:
        write_section("ablation", made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
