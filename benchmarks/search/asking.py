"""Runs the questions of one set by one method, in its own process, so that rows share no caches.

It uses what a user has: an index and `deep_search`. `python -m benchmarks.search.asking JOB` writes the results to
stdout, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.search.data import Question, Set, load
from benchmarks.search.figures import has
from benchmarks.search.methods import METHODS, Method
from benchmarks.search.progress import progress
from benchmarks.search.vectors import Kept
from clicket.model.document import Document
from clicket.search import Index, SearchResult, deep_search

__all__ = ["Asked", "ask"]

SENTENCES = 8
"""In how many cited sentences the answer is searched; of more citations only the first count."""


@dataclass(kw_only=True)
class Asked:
    """One question and its result."""

    ids: tuple[str, ...]
    cpu: float
    rounds: int = 0
    queries: int = 0
    stopped: str = ""
    score: float = 0.0
    """`completeness_score` of the last round."""
    cited: int = 0
    wrong: int = 0
    """Citations that are not verbatim in the passages of the set at their offsets."""
    answered: bool | None = None
    """None if the question has no answer."""


def ask(one: Set, method: Method, path: Path, vectors: Path | None) -> list[Asked]:
    """Every question of the set, in a fresh process, over the index at `path`."""
    job = {"data": one.folder, "set": one.name, "limit": one.limit, "method": method.name, "path": str(path)}
    job["vectors"] = None if vectors is None else str(vectors)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.search.asking", json.dumps(job)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{one.name}: {method.title}: the process that asked ended with {done.returncode}")
    return [Asked(**row) for row in json.loads(done.stdout)]


def main(words: list[str]) -> None:
    job = json.loads(words[0])
    (one,) = load(job["data"], limit=job["limit"], only=job["set"])
    method = next(method for method in METHODS if method.name == job["method"])
    kept = Kept(Path(job["vectors"])) if job["vectors"] else None
    with Index.open(job["path"], embedder=kept) as index:
        rows = asyncio.run(_ask(one, method, index))
    print(json.dumps([asdict(row) for row in rows]))


async def _ask(one: Set, method: Method, index: Index) -> list[Asked]:
    tell, texts = progress(f"{one.name}: {method.title}"), {row["id"]: row["text"] for row in one.passages}
    await index.search("warm up")  # one-time reads do not count for the first question
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
    )


def _within_limits(result: SearchResult, rounds: int) -> None:
    queries = [query for one in result.rounds for query in one.queries]
    if len(result.rounds) > rounds or any(len(one.queries) > 5 for one in result.rounds):
        raise AssertionError(f"more rounds or queries than allowed: {result.question}")
    if len(set(queries)) != len(queries):
        raise AssertionError(f"a query was repeated: {result.question}")


if __name__ == "__main__":
    main(sys.argv[1:])
