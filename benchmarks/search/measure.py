"""Asks the questions of a set, as a user would: an index, `deep_search`, and nothing that a user does not have."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.search.data import Question, Set
from benchmarks.search.figures import auc, bins, has, interval, mean, percentile, recall
from benchmarks.search.vectors import Kept
from clicket.model.document import Document
from clicket.search import Index, SearchResult, deep_search

__all__ = ["METHODS", "Asked", "Method", "calibration", "cost", "figures", "indexed", "measure", "progress", "summary"]

SENTENCES = 8
"""Cited sentences that an answer is looked for in; an answer that cites more is judged by the first of them."""

_SILENCE = 10.0
"""Seconds between two lines on the same work."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the table."""

    name: str
    title: str
    rounds: int
    """0 is one question to the index, and no deep search."""
    titles: bool = True
    vectors: bool = False


METHODS = (
    Method(name="text", title="One search, BM25, text only", rounds=0, titles=False),
    Method(name="single", title="One search, BM25, title and text", rounds=0),
    Method(name="round1", title="Deep search, 1 round", rounds=1),
    Method(name="round2", title="Deep search, 2 rounds", rounds=2),
    Method(name="round3", title="Deep search, 3 rounds", rounds=3),
    Method(name="untitled", title="Deep search, 3 rounds, titles removed", rounds=3, titles=False),
    Method(name="hybrid", title="One search, BM25 and MiniLM", rounds=0, vectors=True),
    Method(name="minilm1", title="Deep search with MiniLM, 1 round", rounds=1, vectors=True),
    Method(name="minilm2", title="Deep search with MiniLM, 2 rounds", rounds=2, vectors=True),
    Method(name="minilm3", title="Deep search with MiniLM, 3 rounds", rounds=3, vectors=True),
    Method(
        name="minilm-untitled",
        title="Deep search with MiniLM, 3 rounds, titles removed",
        rounds=3,
        titles=False,
        vectors=True,
    ),
)


@dataclass(kw_only=True)
class Asked:
    """One question, and what came of it."""

    ids: tuple[str, ...]
    cpu: float
    rounds: int = 0
    queries: int = 0
    stopped: str = ""
    score: float = 0.0
    """`completeness_score` of the last round."""
    cited: int = 0
    wrong: int = 0
    """Citations that are not in the passages of the set, word for word, at their place."""
    answered: bool | None = None
    """None where there is no answer to look for."""
    notes: tuple[str, ...] = field(default=())


def progress(what: str) -> Callable[[int, int], None]:
    """Tells on stderr how far it is: in place on a terminal, elsewhere a line now and then, and one at the end."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if sys.stderr.isatty():
            print(
                f"\r{what}: {done:,} of {total:,}\x1b[K", end="\n" if done >= total else "", file=sys.stderr, flush=True
            )
        elif done >= total or time.monotonic() - told > _SILENCE:
            told = time.monotonic()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return tell


def indexed(path: Path, passages: Sequence[dict[str, str]], *, titles: bool, kept: Kept | None, name: str) -> Index:
    """A fresh index of the passages; vectors come from the folder that keeps them."""
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


def measure(one: Set, methods: Iterable[Method], folder: Path, kept: Kept | None) -> dict[str, list[Asked]]:
    """Every question of the set by every method. Methods over the same index follow each other, so that it is made once."""
    out: dict[str, list[Asked]] = {}
    wanted = list(methods)
    for titles, vectors in ((True, False), (False, False), (True, True), (False, True)):
        group = [method for method in wanted if (method.titles, method.vectors) == (titles, vectors)]
        if not group or (vectors and kept is None):
            continue
        path = folder / f"{one.name}.db"
        with indexed(path, one.passages, titles=titles, kept=kept if vectors else None, name=one.name) as index:
            for method in group:
                out[method.name] = asyncio.run(_ask(one, method, index))
    return {method.name: out[method.name] for method in wanted if method.name in out}


async def _ask(one: Set, method: Method, index: Index) -> list[Asked]:
    tell, texts = progress(f"{one.name}: {method.title}"), {row["id"]: row["text"] for row in one.passages}
    await index.search("warm up")  # what is read once is not the first question's to pay
    if method.rounds:
        await deep_search("Who was there first?", engine=index, max_loop=1)
    asked = []
    for number, question in enumerate(one.questions, start=1):
        asked.append(await _one(question, method, index, texts))
        tell(number, len(one.questions))
    return asked


async def _one(question: Question, method: Method, index: Index, texts: dict[str, str]) -> Asked:
    begun = time.process_time()
    if not method.rounds:
        found = await index.search(question.text, k=10)
        return Asked(ids=tuple(document.id for document in found), cpu=time.process_time() - begun)
    result = await deep_search(question.text, engine=index, max_loop=method.rounds)
    cpu = time.process_time() - begun
    _within_limits(result, method.rounds)
    wrong = [one for one in result.citations if not one.holds(Document(id=one.doc, text=texts.get(one.doc, "")))]
    answered = None
    if question.answer is not None:
        answered = has([one.text for one in result.citations[:SENTENCES]], question.answer)
    return Asked(
        ids=tuple(document.id for document in result.documents),
        cpu=cpu,
        rounds=len(result.rounds),
        queries=sum(len(one.queries) for one in result.rounds),
        stopped=result.stopped,
        score=result.rounds[-1].completeness_score if result.rounds else 0.0,
        cited=len(result.citations),
        wrong=len(wrong),
        answered=answered,
        notes=result.notes,
    )


def _within_limits(result: SearchResult, rounds: int) -> None:
    queries = [query for one in result.rounds for query in one.queries]
    if len(result.rounds) > rounds or any(len(one.queries) > 5 for one in result.rounds):
        raise AssertionError(f"more rounds or queries than allowed: {result.question}")
    if len(set(queries)) != len(queries):
        raise AssertionError(f"a query was repeated: {result.question}")


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
    """Does `completeness_score` tell the questions whose gold is all in the first five from the others?"""
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
