"""All documents of a search in one order: by what they say, and by who mentions them. The same dossier, the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from operator import mul

from clicket.model.document import Document
from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.ranking.measuring import Measured, Measurer, link_figures
from clicket.search.ranking.pages import Page, page_of
from clicket.search.ranking.sighting import Question
from clicket.search.ranking.statistics import Statistics
from clicket.search.ranking.weights import FINAL, FIRST, SOFTNESS

__all__ = ["LinkRanker", "scored", "strengths"]


_DEEP, _DEEPER = 6, 10


class LinkRanker:
    """The default `Ranker`. With a collection, words are weighed by it; without one, by what was found. `near` tells how near
    documents are to the question by meaning, where the collection does not."""

    def __init__(
        self,
        collection: Collection | None = None,
        near: Callable[[str, Sequence[Document]], Sequence[float]] | None = None,
    ) -> None:
        self._collection = collection
        self._near = near
        self._statistics = Statistics(collection)
        self._measurer: Measurer | None = None

    def rank(self, dossier: Dossier) -> Sequence[tuple[str, float]]:
        if not dossier.documents:
            return []
        near_the_top = _near_the_top(dossier)
        documents = [one for key, one in dossier.documents.items() if key in near_the_top]
        pages = [page_of(one) for one in documents]
        near = None if self._near is None else self._near(dossier.question, documents)
        _, scores = self.judged(dossier.question, pages, near)
        ranked = list(zip((page.id for page in pages), scores, strict=True))
        least = round(min(scores, default=0.0) - 1, 6)
        ranked += [(key, least) for key in dossier.documents if key not in near_the_top]
        return sorted(ranked, key=lambda one: (-one[1], one[0]))

    def judged(
        self, question: str, pages: Sequence[Page], near: Sequence[float] | None = None
    ) -> tuple[Measured, list[float]]:
        if near is None and self._collection is not None:
            near = self._collection.similarities(question, [one.id for one in pages])
        if self._measurer is None or self._measurer.question.text != question:
            self._measurer = Measurer(Question.of(question), self._statistics)
        measured = self._measurer.measure(pages, near)
        return measured, scored(measured)


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


def scored(measured: Measured) -> list[float]:
    first = [_sum(FIRST, row) for row in measured.figures]
    linked = link_figures(measured, strengths(measured, first))
    return [round(_sum(FINAL, [*row, *more]), 6) for row, more in zip(measured.figures, linked, strict=True)]
