"""From questions to the figures of a set: an index for each form of its passages, every method over it, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.search.asking import Asked, ask
from benchmarks.search.data import Set
from benchmarks.search.figures import auc, bins, interval, mean, percentile, recall
from benchmarks.search.methods import Method
from benchmarks.search.progress import progress
from benchmarks.search.vectors import Kept
from clicket.search import Index

__all__ = ["calibration", "cost", "figures", "indexed", "measure", "summary"]

_TIMES = 5
"""Fresh processes for each row without vectors. Of each question the least CPU time counts: what it costs beyond that is due to other work
on the machine. The results of all are the same."""


def indexed(path: Path, passages: Sequence[dict[str, str]], *, titles: bool, kept: Kept | None, name: str) -> Index:
    """A fresh index of the passages; vectors come from the cache folder."""
    path.unlink(missing_ok=True)
    given = passages if titles else [{**one, "title": ""} for one in passages]
    if kept is None:
        index = Index.open(path)
        index.add(given)
        return index
    with kept.filling(name if titles else f"{name}-untitled"):
        index = Index.open(path, embedder=kept)
        index.add(given, on_progress=progress(f"{name}: vectors{'' if titles else ', titles removed'}"))
    return index


def measure(one: Set, methods: Iterable[Method], folder: Path, vectors: Path | None) -> dict[str, list[Asked]]:
    """Every question of the set by every method. Methods over the same index run in sequence, so that it is built once."""
    out: dict[str, list[Asked]] = {}
    wanted, path = list(methods), folder / f"{one.name}.db"
    for titles, near in ((True, False), (False, False), (True, True), (False, True)):
        group = [method for method in wanted if (method.titles, method.vectors) == (titles, near)]
        if not group or (near and vectors is None):
            continue
        place = vectors if near else None
        indexed(path, one.passages, titles=titles, kept=Kept(place) if place else None, name=one.name).close()
        for method in group:
            times = [ask(one, method, path, place) for _ in range(1 if near else _TIMES)]
            out[method.name] = [min(rows, key=lambda row: row.cpu) for rows in zip(*times, strict=True)]
    return {method.name: out[method.name] for method in wanted if method.name in out}


# --- from questions to figures ----------------------------------------------------------------------------------------


def summary(one: Set, asked: Sequence[Asked]) -> dict[str, Any]:
    """The figures of one row; shares are from 0 to 1."""
    golds = [question.gold for question in one.questions]
    shares = {k: [recall(row.ids, gold, k) for row, gold in zip(asked, golds, strict=True)] for k in (2, 5, 10)}
    answered = [float(row.answered) for row in asked if row.answered is not None]
    return {
        "questions": len(asked),
        **{f"recall@{k}": mean(values) for k, values in shares.items()},
        **{f"recall@{k}_interval": interval(values) for k, values in shares.items()},
        "all_gold@5": mean([float(value == 1) for value in shares[5]]),
        "found": mean([recall(row.ids, gold, len(row.ids)) for row, gold in zip(asked, golds, strict=True)]),
        "answers": len(answered),
        "answered": mean(answered) if answered else None,
        "answered_interval": interval(answered) if answered else None,
        "citations": sum(row.cited for row in asked),
        "most_citations": max((row.cited for row in asked), default=0),
        "wrong_citations": sum(row.wrong for row in asked),
        "rounds": mean([row.rounds for row in asked]),
        "queries": mean([row.queries for row in asked]),
        "stopped": dict(sorted(Counter(row.stopped for row in asked if row.stopped).items())),
        **cost([row.cpu for row in asked]),
    }


def cost(seconds: Sequence[float]) -> dict[str, float]:
    return {"cpu_ms": 1e3 * mean(seconds), "cpu_ms_p95": 1e3 * percentile(seconds, 0.95)}


def calibration(one: Set, asked: Sequence[Asked]) -> dict[str, Any]:
    """Does `completeness_score` separate the questions whose gold is all in the first five from the others?"""
    scores = [row.score for row in asked]
    good = [recall(row.ids, question.gold, 5) == 1 for row, question in zip(asked, one.questions, strict=True)]
    judged = [row for row in asked if row.answered is not None]
    return {
        "auc": auc(scores, good),
        "auc_answer": auc([row.score for row in judged], [bool(row.answered) for row in judged]),
        "mean_score": mean(scores),
        "share_good": mean([float(ok) for ok in good]),
        "bins": bins(scores, good),
    }


def figures(one: Set, rows: dict[str, list[Asked]]) -> dict[str, Any]:
    return {
        "title": one.title,
        "passages": len(one.passages),
        "questions": len(one.questions),
        "rows": {name: summary(one, asked) for name, asked in rows.items()},
        "calibration": {name: calibration(one, asked) for name, asked in rows.items() if asked and asked[0].rounds},
    }
