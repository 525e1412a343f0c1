"""All documents of a search in one order: by what they say, and by who mentions them. The same dossier, the same order."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.ranking.measuring import Measured, Question, link_figures, measure
from clicket.search.ranking.pages import Page, page_of
from clicket.search.ranking.statistics import Statistics
from clicket.search.ranking.weights import FINAL, FIRST, SOFTNESS

__all__ = ["LinkRanker", "scored", "strengths"]


class LinkRanker:
    """The default `Ranker`. With a collection, words are weighed by it; without one, by what was found."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._statistics = Statistics(collection)

    def rank(self, dossier: Dossier) -> Sequence[tuple[str, float]]:
        if not dossier.documents:
            return []
        pages = [page_of(one) for one in dossier.documents.values()]
        _, scores = self.judged(dossier.question, pages)
        return sorted(zip((page.id for page in pages), scores, strict=True), key=lambda one: (-one[1], one[0]))

    def judged(self, question: str, pages: Sequence[Page]) -> tuple[Measured, list[float]]:
        near = None if self._collection is None else self._collection.similarities(question, [one.id for one in pages])
        measured = measure(Question.of(question), pages, self._statistics, near)
        return measured, scored(measured)


def _sum(weights: Sequence[float], row: Sequence[float]) -> float:
    return sum(weight * figure for weight, figure in zip(weights, row, strict=True))


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


def scored(measured: Measured) -> list[float]:
    first = [_sum(FIRST, row) for row in measured.figures]
    linked = link_figures(measured, strengths(measured, first))
    return [round(_sum(FINAL, [*row, *more]), 6) for row, more in zip(measured.figures, linked, strict=True)]
