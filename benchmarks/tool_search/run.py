"""How often tool search finds the right tool, and how long it takes: `python -m benchmarks.tool_search.run [--public FOLDER]`.

1,000 tools, and requests in plain language. Figures: how often the tool that can do it is the first, among the first three, and among the
first five. Times are CPU times of one search, after all tools were read; `--missed` prints the requests that fail.
`--public` measures the sets of other people, too: see `public.py`. `--embedder NAME` ranks as with the setting
`tool_ranking = "embeddings"` and this `tool_embedder`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, thread_time

from benchmarks.tool_search.catalog import ListedTool, catalog, many, others
from benchmarks.tool_search.public import public_sets
from benchmarks.tool_search.requests import Request, requests
from clicket.models.embedding.kinds import embedder_of
from clicket.ports import Embedder
from clicket.tools.search.index import ToolIndex
from clicket.tools.search.text_similarity import TextSimilarity

FIRST = 5
FIGURES = {"first": 1, "among_three": 3, "among_five": 5}
TRIES = 3
"""Each search is timed so often, and the best counts: the machine has other things to do."""


class Compared(ToolIndex):
    """It encodes every request anew, so that each search is timed with the encoding of its request."""

    def __init__(self, tools: list[ListedTool], embedder: Embedder) -> None:
        self._similarity = TextSimilarity(embedder)
        super().__init__(tools, texts=self._similarity)
        asyncio.run(self._similarity.prepare())

    def search(self, request: str, *, limit: int = 5, among: Collection[str] | None = None) -> list[str]:
        self._similarity.encode(request)
        return super().search(request, limit=limit, among=among)


def made(tools: list[ListedTool], embedder: Embedder | None) -> ToolIndex:
    return ToolIndex(tools) if embedder is None else Compared(tools, embedder)


def places(index: ToolIndex, asked: list[Request]) -> list[int | None]:
    """For each request the place of the first right tool, from 1; None: it is not among the first 20."""
    found: list[int | None] = []
    for request in asked:
        names = index.search(request.text, limit=20)
        found.append(next((place for place, name in enumerate(names, 1) if name in request.tools), None))
    return found


def share(found: list[int | None], first: int) -> float:
    return sum(place is not None and place <= first for place in found) / len(found)


def times(index: ToolIndex, asked: list[Request]) -> list[float]:
    took: list[float] = []
    for request in asked:
        tries: list[float] = []
        for _ in range(TRIES):
            start = thread_time()
            index.search(request.text, limit=FIRST)
            tries.append(1000 * (thread_time() - start))
        took.append(min(tries))
    return took


def figures_of(took: list[float]) -> dict[str, float]:
    return {
        "median": round(median(took), 2),
        "p99": round(quantiles(took, n=100)[98], 2),
        "most": round(max(took), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--embedder", metavar="NAME")
    parser.add_argument("--public", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    embedder = embedder_of(options.embedder) if options.embedder else None
    tools = catalog()
    start = perf_counter()
    index = made(tools, embedder)
    built = 1000 * (perf_counter() - start)
    start = perf_counter()
    index.put(tools[17])
    one = 1000 * (perf_counter() - start)
    figures: dict[str, object] = {"tools": len(index), "built_ms": round(built, 1), "one_tool_ms": round(one, 3)}
    both = made([*tools, *others()], embedder)
    sets = {"own": (index, requests()), "own, second catalog": (both, requests("other.txt"))}
    for title, public in (public_sets(options.public) if options.public else {}).items():
        sets[title] = (made(public.tools, embedder), public.requests)
    for title, (searched, asked) in sets.items():
        found = places(searched, asked)
        figures[title] = {
            "tools": len(searched),
            "requests": len(asked),
            **{name: round(100 * share(found, first), 1) for name, first in FIGURES.items()},
        }
        if options.missed:
            for request, place in zip(asked, found, strict=True):
                if place is None or place > FIRST:
                    print(place, request.tools[0], "|", request.text, "|", searched.search(request.text, limit=6))
    asked = requests()
    figures["ms_1000"] = figures_of(times(index, asked))
    if embedder is None:
        figures["ms_10000"] = figures_of(times(ToolIndex(many(10_000)), asked))
    print(json.dumps(figures, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
