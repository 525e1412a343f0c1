"""Scaling: how fast passages are indexed, what a question costs at 100,000 of them, and an unchanged folder read again."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.search.data import Set
from benchmarks.search.figures import mean
from benchmarks.search.measure import cost
from benchmarks.search.progress import progress
from benchmarks.search.vectors import minilm
from clicket.search import Index, deep_search

__all__ = ["embedding", "folder_again", "indexing", "many", "synthesised"]

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def synthesised(sets: Sequence[Set], count: int) -> list[dict[str, str]]:
    """All passages of all sets, and then new ones of their sentences and of halves of their titles, until there are enough.

    So words, names and lengths are distributed as in the real ones. The seed is fixed.
    """
    rows = [{**row, "id": f"{one.name}:{row['id']}"} for one in sets for row in one.passages][:count]
    chance = random.Random(11)
    sentences = [_SENTENCE.split(row["text"]) for row in rows]
    titles = [row["title"].split() for row in rows if row["title"].split()]
    while len(rows) < count:
        first, second = chance.choice(titles), chance.choice(titles)
        text = [chance.choice(chance.choice(sentences)) for _ in range(chance.choice((2, 3, 4)))]
        title = " ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])
        rows.append({"id": f"made:{len(rows)}", "title": title, "text": " ".join(text)})
    return rows


def indexing(passages: Sequence[dict[str, str]], path: Path) -> dict[str, float]:
    """Into a new file, as one change."""
    path.unlink(missing_ok=True)
    wall, cpu = time.perf_counter(), time.process_time()
    with Index.open(path) as index:
        index.add(passages)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "passages": len(passages),
        "seconds": wall,
        "cpu_seconds": cpu,
        "per_second": len(passages) / wall,
        "per_cpu_second": len(passages) / cpu,
        "bytes": path.stat().st_size,
    }


def many(sets: Sequence[Set], count: int, questions: int, path: Path) -> dict[str, Any]:
    """Index `count` passages and run questions of every set, three rounds each, over the index alone."""
    made = indexing(synthesised(sets, count), path)
    asked = [question.text for one in sets for question in _spread(one.questions, questions // len(sets))]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.search.scale", str(path)],
        cwd=ROOT,
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return {**made, "questions": len(asked), **json.loads(done.stdout)}


async def _cost(index: Index, asked: Sequence[str]) -> dict[str, float]:
    begun = time.process_time()
    await deep_search("Who was there first?", engine=index, max_loop=1)
    first, spent, tell = time.process_time() - begun, [], progress("scale: questions")
    walls = []
    for number, text in enumerate(asked, start=1):
        begun, wall = time.process_time(), time.perf_counter()
        await deep_search(text, engine=index, max_loop=3)
        spent.append(time.process_time() - begun)
        walls.append(time.perf_counter() - wall)
        tell(number, len(asked))
    return {"first_cpu_ms": 1e3 * first, "wall_ms": 1e3 * mean(walls), **cost(spent)}


def embedding(sets: Sequence[Set], count: int) -> dict[str, float]:
    """The cost of MiniLM: passages as an index passes them, questions one by one, on one thread."""
    rows = [row for one in sets for row in _spread(one.passages, count // len(sets))]
    asked = [question.text for one in sets for question in _spread(one.questions, count // len(sets))]
    begun = time.process_time()
    model = minilm()  # reads the weights
    loaded = time.process_time()
    model.embed([f"{row['title']}\n{row['text']}" for row in rows])
    embedded = time.process_time()
    for text in asked:
        model.embed([text])
    return {
        "passages": len(rows),
        "loading_cpu_ms": 1e3 * (loaded - begun),
        "passage_cpu_ms": 1e3 * (embedded - loaded) / len(rows),
        "question_cpu_ms": 1e3 * (time.process_time() - embedded) / len(asked),
    }


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """So many of them, evenly from all."""
    count = min(count, len(items))
    return [items[at * len(items) // count] for at in range(count)]


def folder_again(passages: Iterable[dict[str, str]], count: int, place: Path, path: Path) -> dict[str, float]:
    """A folder of `count` text files: indexed, then again with nothing changed, then with one file changed."""
    place.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    for number, row in zip(range(count), cycle(passages), strict=False):
        folder = place / f"{number // 500:03}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:05}.txt").write_text(
            f"{row['title']}\n\n{row['text']}\n", encoding="utf-8", errors="replace"
        )
    out: dict[str, float] = {"files": sum(1 for _ in place.rglob("*.txt"))}
    with Index.open(path) as index:
        for name in ("first", "unchanged", "one_changed"):
            if name == "one_changed":
                (place / "000" / "00000.txt").write_text("Another text altogether.\n", encoding="utf-8")
            wall, cpu = time.perf_counter(), time.process_time()
            index.add_folder(place)
            out[f"{name}_seconds"] = time.perf_counter() - wall
            out[f"{name}_cpu_seconds"] = time.process_time() - cpu
        out["documents"] = index.count
    return out


if __name__ == "__main__":  # a fresh process: it has not seen the passages before
    with Index.open(sys.argv[1]) as opened:
        print(json.dumps(asyncio.run(_cost(opened, json.load(sys.stdin)))))
