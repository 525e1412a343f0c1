"""Matches the terms of a question against one document: which of them it has, where, and how close together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from clicket.model.text.terms import terms
from clicket.search.ranking.profiles import DocumentProfile, without_initials
from clicket.search.text.names import flattened

__all__ = ["QuestionTerms", "TermMatch", "best_window", "match_terms", "name_context", "term_positions"]

_K1, _B, _TYPICAL = 1.2, 0.3, 80
_TITLE_WEIGHT = 2
_MAX_NAMES = 4
"""Names of a document that count if they are in the question."""
_WINDOW = 16
"""Terms within this distance count as close together: about a long sentence without its stopwords."""


class QuestionTerms(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    terms: tuple[str, ...]
    flat: str

    @classmethod
    def of(cls, text: str) -> QuestionTerms:
        return _question_terms(text)

    def contains(self, name: str) -> bool:
        return f" {name} " in self.flat or (not name.isascii() and len(name) > 1 and name in self.flat)


@lru_cache(maxsize=64)
def _question_terms(text: str) -> QuestionTerms:
    found = tuple(dict.fromkeys(terms(text)))
    return QuestionTerms(text=text, terms=found, flat=without_initials(f" {flattened(text)} "))


class TermMatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    profile: DocumentProfile
    bm25: dict[str, float]
    """The BM25 score of each question term that the document has."""
    positions: list[tuple[int, str]]
    """Where these terms are in the text, counted in terms."""
    proximity: float
    """The highest weight of terms within one window, as a share of the question's weight."""
    length: int
    matched_weight: float
    """The weight of all terms that it has."""
    linkable_names: list[tuple[int, str]]
    """Its names that are not in the question, by which other documents may mention it, each with its rank."""
    names_in_question: list[str]
    """Its first names, if they are in the question."""


def match_terms(
    profile: DocumentProfile, question: QuestionTerms, weights: Mapping[str, float], total: float
) -> TermMatch:
    title = profile.title_terms
    all_terms = profile.all_terms
    in_question = question.flat
    length = len(profile.terms) + _TITLE_WEIGHT * len(title)
    norm = _K1 * (1 - _B + _B * length / _TYPICAL)
    positions = term_positions(profile, weights)
    there = [term for _, term in positions]
    bm25: dict[str, float] = {}
    matched_weight = 0.0
    for term, weight in weights.items():
        if term in all_terms:
            matched_weight += weight
            count = there.count(term) + _TITLE_WEIGHT * title.count(term)
            bm25[term] = weight * count * (_K1 + 1) / (count + norm)
    linkable_names, names_in_question = [], []
    for rank, name in enumerate(profile.names):
        if name in in_question and question.contains(name):
            if rank < _MAX_NAMES:
                names_in_question.append(name)
        elif len(name) > 2 or not name.isascii():
            linkable_names.append((rank, name))
    return TermMatch(
        profile=profile,
        bm25=bm25,
        positions=positions,
        proximity=best_window(positions, weights, len(bm25)) / total,
        length=length,
        matched_weight=matched_weight,
        linkable_names=linkable_names,
        names_in_question=names_in_question,
    )


def best_window(positions: list[tuple[int, str]], weights: Mapping[str, float], distinct: int = 0) -> float:
    """The highest weight of terms within one window, each term counted once. `distinct` is the number of terms, if it is known: none
    is better than a window with all of them."""
    if not positions or positions[-1][0] - positions[0][0] < _WINDOW:  # all are in one window
        return sum([weights[term] for term in dict.fromkeys([term for _, term in positions])])
    inside: dict[str, int] = {}
    """The terms in the window, each with its last place."""
    first, together, best = 0, 0.0, 0.0
    end = positions[0][0] + _WINDOW
    for at, term in positions:
        while at >= end:
            place, gone = positions[first]
            first += 1
            end = positions[first][0] + _WINDOW
            if inside[gone] == place:
                del inside[gone]
                together -= weights[gone]
        if term not in inside:
            together += weights[term]
            if together > best:
                best = together
                if len(inside) + 1 == distinct:
                    break
        inside[term] = at
    return round(best, 9)  # without the rounding errors of adding and subtracting


def term_positions(profile: DocumentProfile, wanted: Collection[str]) -> list[tuple[int, str]]:
    """Where the terms are in the text of a document, counted in terms."""
    found: list[tuple[int, str]] = []
    if not profile.all_terms.keys().isdisjoint(wanted):
        at = -1
        index = profile.terms.index
        for term in filter(wanted.__contains__, profile.terms):
            at = index(term, at + 1)
            found.append((at, term))
    return found


def name_context(
    profile: DocumentProfile, positions: list[tuple[int, str]], name: tuple[str, ...], weights: Mapping[str, float]
) -> tuple[float, float]:
    """How early a name is in the text (1 at its start), and the weight of the question terms close to it."""
    at = profile.all_terms.get(name[0], -1) if name else -1
    if at < 0:
        return 0.0, 0.0
    near: dict[str, float] = {}
    after, before = at - _WINDOW, at + _WINDOW
    for place, term in positions:
        if place > after:
            if place >= before:
                break
            near[term] = weights[term]
    return 1 / (1 + at / 12), sum(near.values())
