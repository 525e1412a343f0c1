"""`python -m benchmarks.search.fit_ranking DATA [--write]`: fits the weights by which documents are ranked, each set left out once.

The weights are fitted to two of the three public sets, from zero, and recall at 5 of the third one is measured by searching it with them.
The first ranking decides what the second round asks for, so the questions are searched again with the fitted weights, and the weights are
fitted again. `--write` puts the table into SEARCH.md; `--show` prints weights that are fitted to all sets, beside the package's.
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
from unittest.mock import patch

import numpy as np

from benchmarks.report import commit, table
from benchmarks.search.data import DataMissing, Set, load
from benchmarks.search.figures import mean, recall
from benchmarks.search.model_section import write_section
from clicket.search import Index, deep_search
from clicket.search.ranking import ranker
from clicket.search.ranking.features import Features, link_features

_TIMES = 2
"""How often questions are searched and weights fitted, in turn."""
_STEPS, _RATE, _DECAY = 500, 0.05, 0.1
"""Of the descent: steps, their size, and how much large weights cost. Weights that are held small carry over to another set better."""
_STRONG = 0.25
"""The standard deviation of a feature counts as at least this: rare features get no large weights."""
_LOWEST = -50.0
"""Differences of scores below this count as this: their exponential is next to nothing."""
_NO_LINKS = [0.0] * 8
Weights = tuple[np.ndarray, np.ndarray]
"""For a document alone, and the final ones."""


@dataclass(frozen=True)
class Ranking:
    """The documents of one ranking of one question, and which of them are needed."""

    features: Features
    asked: Sequence[float]
    meant: Sequence[float]
    needed: np.ndarray


def search(index: Index, one: Set, weights: Weights | None) -> tuple[list[list[Ranking]], float]:
    """Search all questions. For each question its rankings, and recall at 5 of all."""
    rankings, recalls = [], []
    with _weights(weights):
        for question in one.questions:
            with _recorded(frozenset(question.gold)) as found:
                result = asyncio.run(deep_search(question.text, engine=index))
            rankings.append(found)
            recalls.append(recall([document.id for document in result.documents], question.gold, 5))
    return rankings, 100 * mean(recalls)


@contextmanager
def _recorded(gold: frozenset[str]) -> Iterator[list[Ranking]]:
    found: list[Ranking] = []
    scores_of, scored = ranker.LinkRanker._scores, ranker._scored

    def scores(self, findings, documents):  # type: ignore[no-untyped-def]
        needed = np.array([document.id in gold for document in documents])

        def record(features, asked, meant, column):  # type: ignore[no-untyped-def]
            found.append(Ranking(features, asked, meant, needed))
            return scored(features, asked, meant, column)

        with patch.object(ranker, "_scored", record):
            return scores_of(self, findings, documents)

    with patch.object(ranker.LinkRanker, "_scores", scores):
        yield found


@contextmanager
def _weights(given: Weights | None) -> Iterator[None]:
    if given is None:
        yield
        return
    alone, final = ([float(weight) for weight in each] for each in given)
    alone += [0.0] * (len(final) - len(alone))
    with patch.object(ranker, "_COLUMNS", [alone, final, *ranker._COLUMNS[2:]]):
        yield


def _package() -> Weights:
    return np.array(ranker._COLUMNS[0][: ranker._ALONE]), np.array(ranker._COLUMNS[1])


def fit(questions: Sequence[Sequence[Ranking]]) -> Weights:
    """Weights for a document alone, from the first rankings; then the final ones, from all rankings."""
    first = [each[0] for each in questions if each]
    alone = _descend([(np.array(one.features.rows), one.needed) for one in first])
    return alone, _descend([(_rows(one, alone), one.needed) for each in questions for one in each[:2]])


def _rows(one: Ranking, alone: np.ndarray) -> np.ndarray:
    own = np.array(one.features.rows)
    strengths = ranker._strengths(one.features, [float(score) for score in own @ alone])
    found = link_features(one.features, strengths)
    links = np.array([found.get(at, _NO_LINKS) for at in range(len(own))])
    return np.column_stack([own, links, np.array(one.asked), np.array(one.meant)])


def _descend(given: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Weights that set each needed document of a ranking apart from all that are not needed: the mean of the logarithm of its share of
    the sum of exponentials is the highest (Adam)."""
    lists = [(rows, needed) for rows, needed in given if needed.any() and not needed.all()]
    everything = np.vstack([rows for rows, _ in lists])
    scale = np.maximum(everything.std(axis=0), _STRONG)
    starts = np.cumsum([0, *[len(rows) for rows, _ in lists]])[:-1]
    of_list = np.repeat(np.arange(len(lists)), [len(rows) for rows, _ in lists])
    rows, needed = everything / scale, np.concatenate([one for _, one in lists]).astype(float)
    share = needed / np.add.reduceat(needed, starts)[of_list]
    weights, mean_step, mean_square = np.zeros((3, rows.shape[1]))
    for step in range(1, _STEPS + 1):
        scores = rows @ weights
        scores = np.exp(np.maximum(scores - np.maximum.reduceat(scores, starts)[of_list], _LOWEST))
        others = np.add.reduceat(scores * (1 - needed), starts)[of_list]
        gained = share / (others + scores)
        lost = np.add.reduceat(gained, starts)[of_list]
        slope = rows.T @ ((1 - needed) * scores * lost - others * gained) / len(lists) + _DECAY * weights
        mean_step = 0.9 * mean_step + 0.1 * slope
        mean_square = 0.999 * mean_square + 0.001 * slope**2
        weights = weights - _RATE * (mean_step / (1 - 0.9**step)) / (np.sqrt(mean_square / (1 - 0.999**step)) + 1e-8)
    return weights / scale


def fitted(indexes: Mapping[str, Index], sets: Sequence[Set]) -> Weights:
    weights: Weights | None = None
    for _ in range(_TIMES):
        questions = [each for one in sets for each in search(indexes[one.name], one, weights)[0]]
        weights = fit(questions)
    assert weights is not None
    return weights


_INTRODUCTION = (
    "`python -m benchmarks.search.fit_ranking DATA --write` fits the weights of the ranking of documents to two of the public sets, from "
    "zero, and searches the third one with them. Recall at 5, no model:"
)


def section(indexes: Mapping[str, Index], sets: Sequence[Set], limits: Mapping[str, float]) -> str:
    rows: list[list[str]] = [["required"], ["fitted to the other two sets"], ["the weights of the package"]]
    for one in sets:
        others = fitted(indexes, [other for other in sets if other is not one])
        rows[0].append(f"{limits[one.name]:.1f}" if one.name in limits else "–")
        rows[1].append(f"{search(indexes[one.name], one, others)[1]:.1f}")
        rows[2].append(f"{search(indexes[one.name], one, None)[1]:.1f}")
        print(f"{one.title}: {rows[1][-1]}, {rows[2][-1]}", file=sys.stderr)
    made = f"At commit {commit()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    heads = ["", *(one.title for one in sets)]
    return "\n\n".join(
        ["### The ranking of documents, each set left out once", _INTRODUCTION, table(heads, rows), made]
    )


REQUIRED = {"2wiki": 95.2, "hotpotqa": 94.6, "musique": 66.8}
"""Recall at 5 of each set with weights that were fitted to the others, before the answers were made better."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fit_ranking", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="the folder with the question sets")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set")
    parser.add_argument("--show", action="store_true", help="print weights that are fitted to all sets")
    parser.add_argument("--write", action="store_true", help="put the table into SEARCH.md")
    options = parser.parse_args(words)
    if options.write and options.limit:
        parser.error("--write is for all questions: leave out --limit")
    try:
        sets = load(options.data, limit=options.limit)
    except DataMissing as missing:
        print(f"fit_ranking: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fit-ranking-") as scratch:
        indexes = {one.name: Index.open(Path(scratch) / f"{one.name}.db") for one in sets}
        for one in sets:
            indexes[one.name].add(one.passages)
        if options.show:
            print(_shown(fitted(indexes, sets)))
        made = section(indexes, sets, REQUIRED)
        for index in indexes.values():
            index.close()
    print(made)
    if options.write:
        write_section("fit-ranking", made)
    return 0


def _shown(found: Weights) -> str:
    own = _package()
    alone = [*found[0], *[0.0] * (len(found[1]) - len(found[0]))]
    before = [*own[0], *[0.0] * (len(own[1]) - len(own[0]))]
    rows = [
        [row[0], f"{alone[at]:.1f}", f"{found[1][at]:.1f}", f"{before[at]:.1f}", f"{own[1][at]:.1f}"]
        for at, row in enumerate(ranker._WEIGHTS)
    ]
    return table(["", "alone", "final", "package: alone", "package: final"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
