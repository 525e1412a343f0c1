"""How far a search is: what of the question the best documents have, which names are unresolved, where it could go on."""

from __future__ import annotations

from math import exp

from clicket.search.dossier import Analysis, Dossier
from clicket.search.parts import Collection
from clicket.search.planning.bridges import bridges, question_names
from clicket.search.ranking.pages import page_of
from clicket.search.ranking.statistics import Statistics
from clicket.search.text.names import name_key
from clicket.search.text.terms import terms

__all__ = ["CoverageAnalyzer"]

_BEST = 5
_OPEN = 0.45
"""A name that is worth less than this is not worth a round."""
_MAX_AREAS = 5


class CoverageAnalyzer:
    """The default `Analyzer`. Its components say what the score is made of."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._statistics = Statistics(collection)

    async def analyze(self, dossier: Dossier) -> Analysis:
        ways = bridges(dossier, self._collection, self._statistics)
        areas = tuple(one.name for one in ways if one.worth >= _OPEN)[:_MAX_AREAS]
        components = self._components(dossier)
        components["open"] = round(ways[0].worth, 6) if ways else 0.0
        return Analysis(
            completeness_score=_score(components),
            unexplored_areas=areas,
            components=components,
            by="coverage",
        )

    def _components(self, dossier: Dossier) -> dict[str, float]:
        best = [page_of(dossier.documents[one]) for one, _ in dossier.ranked[:_BEST]]
        wanted = list(dict.fromkeys(terms(dossier.question)))
        self._statistics.learn(wanted, best)
        total = sum(self._statistics[term] for term in wanted) or 1.0
        covered = sum(self._statistics[term] for term in wanted if any(term in page.known for page in best))
        named = [name_key(one) for one in question_names(dossier.question, self._collection)]
        resolved = sum(any(name in page.names or f" {name} " in page.flat for page in best) for name in named)
        before = {one for each in dossier.rounds[:-1] for one in each.documents}
        new = sum(page.id not in before for page in best)
        return {
            "coverage": round(covered / total, 6) if wanted else 0.0,
            "resolved": round(resolved / len(named), 6) if named else 1.0,
            "settled": round(1 - new / len(best), 6) if best else 0.0,
        }


def _score(components: dict[str, float]) -> float:
    value = 3 * components["coverage"] + components["resolved"] + components["settled"] - 2 * components["open"] - 1.5
    return round(1 / (1 + exp(-value)), 6)
