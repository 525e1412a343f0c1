"""The built-in analyzer. The completeness score estimates the probability that the best five documents hold all that is needed.

Its weights were fitted on three public question sets, after one round and after two, with and without titles; its accuracy is in
the docs. It knows terms, names and the scores of the ranking; it does not understand the question.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp

from clicket.search.findings import Analysis, Findings
from clicket.search.planning.bridges import MIN_BRIDGE_SCORE, BridgeFinder
from clicket.search.protocols import Collection
from clicket.search.ranking.profiles import DocumentProfile, profile_of
from clicket.search.ranking.term_match import QuestionTerms
from clicket.search.text.names import name_key

__all__ = ["CoverageAnalyzer"]

_BEST = 5
_MAX_AREAS = 5
_LOWEST, _HIGHEST = -20.0, 20.0
_WEIGHTS = {"coverage": 3.1, "second": 0.27, "drop": 0.5, "borne": 0.5, "open": -2.3}
_BIAS = -3.3


class CoverageAnalyzer:
    """The built-in `Analyzer`. Its components:

    - `coverage`: the share of the question's terms, by weight, that the best documents have
    - `borne`: the share of the names in the question that are names of the best documents
    - `second`: the score of the second best document; `drop`: the largest step between neighbouring scores
    - `open`: the score of the best bridge
    """

    def __init__(self, collection: Collection | None = None, *, finder: BridgeFinder | None = None) -> None:
        self._finder = finder or BridgeFinder(collection)

    async def analyze(self, findings: Findings) -> Analysis:
        found = self._finder.bridges(findings)
        best = [profile_of(findings.documents[one]) for one, _ in findings.ranked[:_BEST]]
        components = {
            "coverage": self._coverage(findings, best),
            "borne": self._borne(findings, best),
            **_shape([score for _, score in findings.ranked[: _BEST + 1]]),
            "open": found[0].score if found else 0.0,
        }
        value = _BIAS + sum(weight * components[name] for name, weight in _WEIGHTS.items())
        return Analysis(
            completeness_score=round(1 / (1 + exp(-min(max(value, _LOWEST), _HIGHEST))), 6) if best else 0.0,
            unexplored_areas=tuple(one.name for one in found if one.score >= MIN_BRIDGE_SCORE)[:_MAX_AREAS],
            components={name: round(figure, 6) for name, figure in components.items()},
            by="coverage",
        )

    def _coverage(self, findings: Findings, best: list[DocumentProfile]) -> float:
        wanted = QuestionTerms.of(findings.question).terms
        term_weights = self._finder.term_weights
        profiles = [profile_of(one) for one in findings.documents.values()] if self._finder.collection is None else []
        term_weights.learn(wanted, profiles)
        there = set[str]().union(*[profile.all_terms.keys() & wanted for profile in best])
        total, has = (
            sum(map(term_weights.__getitem__, wanted)),
            sum([term_weights[one] for one in wanted if one in there]),
        )
        return has / total if total else 0.0

    def _borne(self, findings: Findings, best: list[DocumentProfile]) -> float:
        named = [name_key(one) for one in self._finder.question_names(findings.question)]
        return sum(any(name in profile.names for profile in best) for name in named) / len(named) if named else 0.0


def _shape(scores: list[float]) -> dict[str, float]:
    steps = [before - after for before, after in pairwise(scores[1:])]
    return {"second": scores[1] if len(scores) > 1 else 0.0, "drop": max(steps, default=0.0)}
