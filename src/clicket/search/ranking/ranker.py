"""Scores all documents of a search: by their own text, and by the documents that mention them. The same findings give the same
ranking."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from clicket.model.document import Document
from clicket.search.findings import Findings
from clicket.search.protocols import Collection, has_terms_alone
from clicket.search.ranking.features import FeatureExtractor, Features, link_features
from clicket.search.ranking.profiles import profile_of
from clicket.search.ranking.term_match import QuestionTerms
from clicket.search.ranking.term_weights import TermWeights

__all__ = ["SOFTNESS", "LinkRanker", "max_read"]

SOFTNESS = 0.25
"""How fast the strength of a document falls with its score: low, because a weak document may mention the right one."""
_MAX_READ, _MAX_READ_ELSEWHERE = (7, 3), (10, 5)
"""Documents of the question and of each later query that are scored: over a collection without vectors, and elsewhere."""

# Without vectors and with them: the weight for a document alone, and the final one. They were learnt on three public question sets, but
# for `anchor`; a set that is held out loses up to 2.3 points. The rows are in the order of the columns of `features`.
_WEIGHTS = (
    ("words",    -0.8, -0.9, -0.8, -1.4),  # BM25 of the question
    ("whole",     1.7,  1.1,  1.6,  1.3),  # the same, with names of the question counted as a whole
    ("close",     3.2,  1.8,  2.4,  2.5),  # the share of the question that is close together
    ("length",   -0.4, -0.6,  0.2, -0.1),  # the logarithm of the number of terms
    ("anchor",    2.2,  2.0,  2.4,  2.6),  # one of its names is in the question
    ("novel",     3.1,  2.4,  3.0,  2.7),  # the share of the question that better documents do not have
    ("mentions",  0.2, -1.6,  0.2, -1.9),  # it mentions a name that is in the question
    ("meaning",   0.0,  0.0,  5.8,  2.2),  # similarity of vectors, if there are some
    ("link",      0.0,  1.6,  0.0,  1.2),  # the strength of the best document that mentions it
    ("residue",   0.0,  2.9,  0.0,  3.8),  # … times the share of the question that only the mentioned one has
    ("early",     0.0,  1.2,  0.0,  2.2),  # … times how early the mention is
    ("sibling",   0.0,  1.0,  0.0,  1.3),  # … by its place among all documents that are mentioned there
    ("anchored",  0.0,  1.4,  0.0,  1.3),  # the same, from documents that the question names
    ("joint",     0.0,  3.5,  0.0,  3.8),  # the strength of the best one that it mentions, times the share that both have
    ("crowd",     0.0, -1.1,  0.0, -1.9),  # the logarithm of the strength of all documents that mention it
    ("name",      0.0,  0.5,  0.0,  0.6),  # the number of terms of the name by which it is mentioned
    ("asked",     0.0,  5.1,  0.0,  0.0),  # the share of a later round's query that is close together
    ("meant",     0.0,  0.0,  0.0,  9.2),  # similarity to such a query, if there are vectors
)  # fmt: skip
_ALONE = 8
"""Features of a document alone; the others are those of its links and of later queries."""
_COLUMNS = [[float(row[column]) for row in _WEIGHTS] for column in range(1, 5)]


def max_read(collection: Collection | None) -> tuple[int, int]:
    """How many documents of the first query are scored, and of each later one."""
    return _MAX_READ if has_terms_alone(collection) else _MAX_READ_ELSEWHERE


class LinkRanker:
    """The built-in `Ranker`. Term weights come from the collection, or from the documents found if there is none."""

    def __init__(self, collection: Collection | None = None, *, term_weights: TermWeights | None = None) -> None:
        self._collection = collection
        self._term_weights = term_weights or TermWeights(collection)
        self._read = max_read(collection)
        self._extractor: FeatureExtractor | None = None

    def rank(self, findings: Findings) -> Sequence[tuple[str, float]]:
        if not findings.documents:
            return []
        worth_reading = _worth_reading(findings, *self._read)
        documents = [one for key, one in findings.documents.items() if key in worth_reading]
        scores = self._scores(findings, documents)
        ranked = [(-score, one.id) for one, score in zip(documents, scores, strict=True)]
        least = round(min(scores, default=0.0) - 1, 6)
        ranked += [(-least, key) for key in findings.documents if key not in worth_reading]
        return [(key, -score) for score, key in sorted(ranked)]

    def _scores(self, findings: Findings, documents: Sequence[Document]) -> list[float]:
        profiles = [profile_of(one) for one in documents]
        if self._extractor is None or self._extractor.question.text != findings.question:
            self._extractor = FeatureExtractor(QuestionTerms.of(findings.question), self._term_weights)
        similarities = self._similarities(findings.question, documents)
        features = self._extractor.extract(profiles, similarities)
        later = [query for one in findings.rounds[1:] for query in one.queries]
        asked = self._extractor.query_features(profiles, later)
        meant = [0.0] * len(profiles)
        for near in (self._similarities(query, documents) for query in later if similarities is not None):
            meant = list(map(max, meant, near or meant))
        return _scored(features, asked, meant, 0 if similarities is None else 2)

    def _similarities(self, text: str, documents: Sequence[Document]) -> Sequence[float] | None:
        ids = [one.id for one in documents]
        return None if self._collection is None else self._collection.similarities(text, ids)


def _worth_reading(findings: Findings, most_first: int, most: int) -> frozenset[str]:
    """Ids of the first documents of each query; the others are ranked last."""
    found = [one for each in findings.rounds for one in each.found]
    near = {key for place, one in enumerate(found) for key in one.documents[: most if place else most_first]}
    return frozenset(near) or frozenset(findings.documents)


def _strengths(features: Features, first: Sequence[float]) -> list[float]:
    """The strength of each document alone, from 0 to 1. For each name in the question, the best document of that name has 1."""
    if not first:
        return []
    most = max(first)
    found = [exp(SOFTNESS * (score - most)) for score in first]
    for _, bearers in features.anchors:
        best = max(first[one] for one in bearers)
        for one in bearers:
            found[one] = max(found[one], exp(SOFTNESS * (first[one] - best)))
    return found


def _weighted(score: float, weights: Sequence[float], row: Sequence[float]) -> float:
    """The score with eight more features. Written out, because a loop or `sum(map(mul, …))` takes more than twice as long."""
    a, b, c, d, e, f, g, h = weights
    i, j, k, m, n, o, p, q = row
    return score + a * i + b * j + c * k + d * m + e * n + f * o + g * p + h * q


def _scored(features: Features, asked: Sequence[float], meant: Sequence[float], column: int) -> list[float]:
    alone = _COLUMNS[column][:_ALONE]
    own = _COLUMNS[column + 1][:_ALONE]
    *of_links, of_asked, of_meant = _COLUMNS[column + 1][_ALONE:]
    linked = link_features(features, _strengths(features, [_weighted(0.0, alone, row) for row in features.rows]))
    scores = []
    for at, row in enumerate(features.rows):
        score = _weighted(of_asked * asked[at] + of_meant * meant[at], own, row)
        scores.append(round(_weighted(score, of_links, linked[at]) if at in linked else score, 6))
    return scores
