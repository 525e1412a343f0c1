"""How far a search is, and where it could go on. The score is an estimate of "all that is needed is among the best five".

Its weights were fitted on three public sets of questions, after one round and after two, with titles and without; what
it is worth there is in the docs. It sees words, names and the shape of the ranking: it does not understand the question.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp

from clicket.search.dossier import Analysis, Dossier
from clicket.search.parts import Collection
from clicket.search.planning.bridges import bridges, question_names
from clicket.search.planning.planner import OPEN
from clicket.search.ranking.pages import Page, page_of
from clicket.search.ranking.statistics import Statistics
from clicket.search.text.names import name_key
from clicket.search.text.terms import terms

__all__ = ["CoverageAnalyzer"]

_BEST = 5
_MAX_AREAS = 5
_LOWEST, _HIGHEST = -20.0, 20.0
_WEIGHTS = {"coverage": 3.1, "second": 0.27, "drop": 0.5, "borne": 0.5, "open": -2.3}
_BIAS = -3.3


class CoverageAnalyzer:
    """The default `Analyzer`. Components: `coverage`, the share of the question's words (the rare ones count more) that the
    best documents have; `borne`, the share of its names that some of them bear; `second`, the score of the second best;
    `drop`, the deepest step down among the best; `open`, the worth of the best name that nobody has asked for; `new`, the
    share of the best that the last round brought."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._statistics = Statistics(collection)
        self._named: tuple[str, list[str]] | None = None

    async def analyze(self, dossier: Dossier) -> Analysis:
        ways = bridges(dossier, self._collection, self._statistics)
        best = [page_of(dossier.documents[one]) for one, _ in dossier.ranked[:_BEST]]
        components = {
            "coverage": self._coverage(dossier, best),
            "borne": self._borne(dossier, best),
            **_shape([score for _, score in dossier.ranked[: _BEST + 1]]),
            "open": ways[0].worth if ways else 0.0,
            "new": _new(dossier, best),
        }
        value = _BIAS + sum(weight * components[name] for name, weight in _WEIGHTS.items())
        return Analysis(
            completeness_score=round(1 / (1 + exp(-min(max(value, _LOWEST), _HIGHEST))), 6) if best else 0.0,
            unexplored_areas=tuple(one.name for one in ways if one.worth >= OPEN)[:_MAX_AREAS],
            components={name: round(figure, 6) for name, figure in components.items()},
            by="coverage",
        )

    def _coverage(self, dossier: Dossier, best: list[Page]) -> float:
        wanted = list(dict.fromkeys(terms(dossier.question)))
        found = [page_of(one) for one in dossier.documents.values()] if self._collection is None else []
        self._statistics.learn(wanted, found)
        total = sum(self._statistics[term] for term in wanted)
        has = sum(self._statistics[term] for term in wanted if any(term in page.known for page in best))
        return has / total if total else 0.0

    def _borne(self, dossier: Dossier, best: list[Page]) -> float:
        if self._named is None or self._named[0] != dossier.question:
            found = question_names(dossier.question, self._collection)
            self._named = (dossier.question, [name_key(one) for one in found])
        named = self._named[1]
        return sum(any(name in page.names for page in best) for name in named) / len(named) if named else 0.0


def _shape(scores: list[float]) -> dict[str, float]:
    steps = [before - after for before, after in pairwise(scores[1:])]
    return {"second": scores[1] if len(scores) > 1 else 0.0, "drop": max(steps, default=0.0)}


def _new(dossier: Dossier, best: list[Page]) -> float:
    before = {key for one in dossier.rounds[:-1] for key in one.documents}
    return sum(page.id not in before for page in best) / len(best) if best else 0.0
