"""All documents of a search in one order: by what they say, and by who mentions them. The same dossier, the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from operator import mul

from clicket.model.document import Document
from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.ranking.measuring import Measured, Measurer, link_figures
from clicket.search.ranking.pages import page_of
from clicket.search.ranking.sighting import Question
from clicket.search.ranking.statistics import Statistics
from clicket.search.ranking.weights import MEANING, SOFTNESS, WORDS, Weights

__all__ = ["LinkRanker", "scored", "strengths"]

_DEEP, _DEEPER = 5, 10
"""How far down a search is read, and how far that of the question."""


Near = Callable[[str, Sequence[Document]], Sequence[float] | None]


class LinkRanker:
    """The default `Ranker`. With a collection, words are weighed by it; without one, by what was found. `near` tells how near
    documents are to a text by meaning, where the collection does not."""

    def __init__(self, collection: Collection | None = None, near: Near | None = None) -> None:
        self._collection = collection
        self._near = near
        self._statistics = Statistics(collection)
        self._measurer: Measurer | None = None

    def rank(self, dossier: Dossier) -> Sequence[tuple[str, float]]:
        if not dossier.documents:
            return []
        near_the_top = _near_the_top(dossier)
        documents = [one for key, one in dossier.documents.items() if key in near_the_top]
        scores = self._scores(dossier, documents)
        ranked = list(zip((one.id for one in documents), scores, strict=True))
        least = round(min(scores, default=0.0) - 1, 6)
        ranked += [(key, least) for key in dossier.documents if key not in near_the_top]
        return sorted(ranked, key=lambda one: (-one[1], one[0]))

    def _scores(self, dossier: Dossier, documents: Sequence[Document]) -> list[float]:
        pages = [page_of(one) for one in documents]
        if self._measurer is None or self._measurer.question.text != dossier.question:
            self._measurer = Measurer(Question.of(dossier.question), self._statistics)
        meaning = self._nearness(dossier.question, documents)
        measured = self._measurer.measure(pages, meaning)
        later = [query for one in dossier.rounds[1:] for query in one.queries]
        asked = self._measurer.asked(pages, later)
        meant = [0.0] * len(pages)
        for near in (self._nearness(query, documents) for query in later if meaning is not None):
            meant = list(map(max, meant, near or meant))
        return scored(measured, asked, meant, WORDS if meaning is None else MEANING)

    def _nearness(self, text: str, documents: Sequence[Document]) -> Sequence[float] | None:
        if self._near is not None:
            return self._near(text, documents)
        if self._collection is None:
            return None
        return self._collection.similarities(text, [one.id for one in documents])


def _near_the_top(dossier: Dossier) -> frozenset[str]:
    """What is worth reading: the first few of each search, and some more of the first one, which is the question's."""
    found = [one for each in dossier.rounds for one in each.found]
    near = {key for place, one in enumerate(found) for key in one.documents[: _DEEP if place else _DEEPER]}
    return frozenset(near) or frozenset(dossier.documents)


def _sum(weights: Sequence[float], row: Sequence[float]) -> float:
    return float(sum(map(mul, weights, row)))


def strengths(measured: Measured, first: Sequence[float]) -> list[float]:
    """How strong each is by itself, from 0 to 1. The best bearer of each name of the question is as strong as can be."""
    if not first:
        return []
    most = max(first)
    found = [exp(SOFTNESS * (score - most)) for score in first]
    for _, bearers in measured.anchors:
        best = max(first[one] for one in bearers)
        for one in bearers:
            found[one] = max(found[one], exp(SOFTNESS * (first[one] - best)))
    return found


def scored(measured: Measured, asked: Sequence[float], meant: Sequence[float], weights: Weights) -> list[float]:
    first = [_sum(weights.first, row) for row in measured.figures]
    linked = link_figures(measured, strengths(measured, first))
    rows = zip(measured.figures, linked, asked, meant, strict=True)
    return [round(_sum(weights.final, [*row, *more, words, meaning]), 6) for row, more, words, meaning in rows]
