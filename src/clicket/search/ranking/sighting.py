"""One page with one question in mind: which words of it are there, where, and how close together."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clicket.search.ranking.pages import Page, reduced
from clicket.search.text.names import flattened
from clicket.search.text.terms import terms

__all__ = ["Question", "Sight", "around", "closest", "sight", "spots_of"]

_K1, _B, _TYPICAL = 1.2, 0.3, 80
_TITLE_WEIGHT = 2
_WINDOW = 16
"""Terms that stand this close together count as said together: a long sentence without its small words."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    terms: tuple[str, ...]
    flat: str

    @classmethod
    def of(cls, text: str) -> Question:
        return cls(text=text, terms=tuple(dict.fromkeys(terms(text))), flat=reduced(f" {flattened(text)} "))

    def has(self, name: str) -> bool:
        return f" {name} " in self.flat or (not name.isascii() and len(name) > 1 and name in self.flat)


class Sight(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    page: Page
    worths: dict[str, float]
    """What each word of the question that it has is worth here (BM25)."""
    spots: list[tuple[int, str]]
    """Where they stand in its text."""
    close: float
    """The most that stands close together, as a share of the question."""
    length: int
    has: float
    """The weight of all of them."""
    own: list[tuple[int, str]]
    """Names by which others may mention it, and how sure each is: those that are not in the question."""
    told: list[str]
    """Names of it that are in the question."""


def sight(page: Page, question: Question, weights: Mapping[str, float], total: float) -> Sight:
    length = len(page.terms) + _TITLE_WEIGHT * len(page.title_terms)
    norm = _K1 * (1 - _B + _B * length / _TYPICAL)
    worths: dict[str, float] = {}
    has = 0.0
    for term in weights:
        if term not in page.known:
            continue
        has += weights[term]
        count = page.terms.count(term) + _TITLE_WEIGHT * page.title_terms.count(term)
        worths[term] = weights[term] * count * (_K1 + 1) / (count + norm)
    spots = spots_of(page, worths)
    own, told = [], []
    for rank, name in enumerate(page.names):
        if question.has(name):
            told.append(name)
        elif len(name) > 2 or not name.isascii():
            own.append((rank, name))
    return Sight(
        page=page,
        worths=worths,
        spots=spots,
        close=closest(spots, weights) / total,
        length=length,
        has=has,
        own=own,
        told=told,
    )


def closest(spots: list[tuple[int, str]], weights: Mapping[str, float]) -> float:
    """The most weight that stands close together, each term counted once."""
    best = 0.0
    for first, (low, _) in enumerate(spots):
        seen = set()
        together = 0.0
        for at, term in spots[first:]:
            if at - low >= _WINDOW:
                break
            if term not in seen:
                seen.add(term)
                together += weights[term]
        best = max(best, together)
    return best


def spots_of(page: Page, weights: Mapping[str, float]) -> list[tuple[int, str]]:
    """Where the words of the question stand in a text."""
    if page.known.isdisjoint(weights):
        return []
    return [(at, term) for at, term in enumerate(page.terms) if term in weights]


def around(
    page: Page, spots: list[tuple[int, str]], name: tuple[str, ...], weights: Mapping[str, float]
) -> tuple[float, float]:
    """How early a name stands in a text (1 at its start), and how much of the question is close to it."""
    if not name or name[0] not in page.known:
        return 0.0, 0.0
    try:
        at = page.terms.index(name[0])
    except ValueError:  # it is in the title only
        return 0.0, 0.0
    near = dict.fromkeys([term for spot, term in spots if -_WINDOW < spot - at < _WINDOW])
    return 1 / (1 + at / 12), sum([weights[term] for term in near])
