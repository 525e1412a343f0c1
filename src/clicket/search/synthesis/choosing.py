"""Which sentences answer: each is judged by a few plain signs, then the best are taken one by one.

What is taken changes what is wanted next: words of the question that have been covered count less, a document that a taken
sentence names counts more, another sentence of the same document less. So the choice follows the question's chain from
document to document. The signs are shares between 0 and 1; their weights are round numbers whose neighbours do as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from clicket.search.synthesis.expecting import expected, kin, tells
from clicket.search.synthesis.reading import Page, Sentence, mentions
from clicket.search.text.terms import terms

__all__ = ["Choice", "choose"]

_COVERS = 6.0
"""Has words of the question, by rarity, in itself or in the title of its document."""
_ANSWERS = 2.5
"""Has those words that the document which led here lacks."""
_TELLS = 1.7
"""Holds a thing of the kind that was asked for, or names the document that may."""
_LED = 1.5
"""Is of a document that another one names, in a sentence about the question."""
_LEADS = 0.5
"""Names another document that was found."""
_OPENS = 0.5
"""Is the first of its document."""
_RANK = 0.7
"""Less, for each step down the logarithm of the document's place."""
_ALIKE = 0.5
"""What a word counts that says the same as one of the question."""
_COVERED = 0.6
"""The share of its weight that a word of the question loses each time it is covered."""
_AGAIN = 0.3
"""Less, for each sentence that is there of the same document, or of one with the same name."""
_CHAIN = 0.4
"""More, for a document that a sentence names which is there."""
_SCORE = attrgetter("score")
_NAMED = 0.15
"""A sentence that has nothing of the question is cited only of a document which another one names, in a sentence that has
this share of it."""
_NEAR = 8
"""Documents of which every sentence is judged; of others those that share something with the question, and the first."""


class Choice(NamedTuple):
    page: Page
    sentence: Sentence
    covers: float
    """The share of the question's words that it has, by rarity."""


class _Candidate:
    """A sentence that may be taken: how good it is, and for each term of the question, by number, the share that it has."""

    __slots__ = ("has", "is_apt", "leads", "page", "rounded", "score", "sentence")

    def __init__(self, page: Page, sentence: Sentence) -> None:
        self.page = page
        self.sentence = sentence
        self.score = self.rounded = 0.0
        self.has: dict[int, float] = {}
        self.leads: tuple[Page, ...] = ()
        self.is_apt = False


class _Question:
    """What is asked: its terms by number, how much each weighs (in all 1), what says the same, and the kind of answer."""

    __slots__ = ("alike", "kind", "numbered", "wanted", "weights")

    def __init__(self, question: str, weigh: Callable[[Sequence[str]], Sequence[float]]) -> None:
        asked = list(dict.fromkeys(terms(question)))
        weights = weigh(asked)
        total = sum(weights) or 1.0
        alike = kin(asked)
        self.numbered = list(enumerate(asked))
        self.weights = [weight / total for weight in weights]
        self.alike = [(number, alike[term]) for number, term in self.numbered if term in alike]
        self.wanted = frozenset(asked).union(*alike.values())
        self.kind = expected(question)

    def shares(self, there: frozenset[str]) -> dict[int, float]:
        """The terms that a sentence has, or says in other words."""
        if self.wanted.isdisjoint(there):
            return {}
        has = {number: 1.0 for number, term in self.numbered if term in there}
        for number, others in self.alike:
            if number not in has and not others.isdisjoint(there):
                has[number] = _ALIKE
        return has

    def weight(self, there: frozenset[str]) -> float:
        return sum([self.weights[number] for number, term in self.numbered if term in there])


def choose(
    question: str, pages: Sequence[Page], weigh: Callable[[Sequence[str]], Sequence[float]], most: int
) -> list[Choice]:
    """At most `most` sentences, the best first. `weigh` tells how rare terms are."""
    asked = _Question(question, weigh)
    candidates = _judged(asked, pages)
    having: list[list[_Candidate]] = [[] for _ in asked.weights]
    of_page: dict[int, list[_Candidate]] = {page.rank: [] for page in pages}
    for one in candidates:
        of_page[one.page.rank].append(one)
        for number in one.has:
            having[number].append(one)
    left = list(asked.weights)
    chosen: list[Choice] = []
    named: set[int] = set()
    while candidates and len(chosen) < most:
        best = max(candidates, key=_SCORE)
        covers = sum([asked.weights[number] * share for number, share in best.has.items()])
        chosen.append(Choice(best.page, best.sentence, covers))
        for number in best.has:
            lost = left[number] * _COVERED
            left[number] -= lost
            for one in having[number]:
                one.score -= _COVERS * lost * one.has[number]
        led = {page.rank for page in best.leads}
        for page in pages:
            more = -_AGAIN if page.key == best.page.key else 0.0
            if page.rank in led and page.rank not in named:
                named.add(page.rank)
                more += _CHAIN
            if more:
                for one in of_page[page.rank]:
                    one.score += more
        said = best.sentence.terms
        candidates = [one for one in candidates if one is not best and one.sentence.terms != said]
        for one in candidates:
            if one.score is not one.rounded:
                one.score = one.rounded = round(one.score, 6)
    return chosen


def _judged(asked: _Question, pages: Sequence[Page]) -> list[_Candidate]:
    """Every sentence with what speaks for it before any is taken, in the order of the pages."""
    by_page = [
        [
            _Candidate(page, sentence)
            for number, sentence in enumerate(page.sentences)
            if number == 0 or page.rank < _NEAR or not asked.wanted.isdisjoint(sentence.terms)
        ]
        for page in pages
    ]
    candidates = [one for of_page in by_page for one in of_page]
    _link(candidates, pages)
    led = _led(candidates, asked)
    weights = asked.weights
    for page, of_page in zip(pages, by_page, strict=True):
        by, source = led.get(page.rank, (0.0, None))
        unmet = [number for number, term in asked.numbered if source is not None and term not in source.terms]
        whole = sum([weights[number] for number in unmet]) or 1.0
        title = {number: 1.0 for number, term in asked.numbered if term in page.title}
        titled = _COVERS * sum([weights[number] for number in title])
        base = _LED * by - _RANK * math.log1p(page.rank) + _OPENS
        for one in of_page:
            has = asked.shares(one.sentence.terms)
            score = base
            if has:
                if unmet:
                    score += _ANSWERS * sum([weights[number] * has.get(number, 0.0) for number in unmet]) / whole
                has.update(title)
                score += _COVERS * sum([weights[number] * share for number, share in has.items()])
            else:
                has = title
                score += titled
            one.has = has
            if one.leads or tells(one.sentence.text, asked.kind):
                score += _TELLS
            if one.leads:
                score += _LEADS * max([target.score for target in one.leads])
            one.score = one.rounded = round(score, 6)
            base -= _OPENS if one is of_page[0] else 0.0
            one.is_apt = bool(has) or by >= _NAMED
    return [one for one in candidates if one.is_apt] or candidates


def _link(candidates: Sequence[_Candidate], pages: Sequence[Page]) -> None:
    """Which sentence names which other document. Names are looked up by one of their terms."""
    known: dict[str, list[tuple[Page, str, frozenset[str]]]] = {}
    for page in pages:
        for name, needed in page.names:
            known.setdefault(min(needed), []).append((page, name, needed))
    firsts = frozenset(known)
    for one in candidates:
        found: dict[int, Page] = {}
        for first in firsts & one.sentence.terms:
            for page, name, needed in known[first]:
                if page is not one.page and page.rank not in found and mentions(one.sentence, name, needed):
                    found[page.rank] = page
        if found:
            one.leads = tuple(found[rank] for rank in sorted(found))


def _led(candidates: Sequence[_Candidate], asked: _Question) -> dict[int, tuple[float, Page]]:
    """For each document that another one names: how much of the question is in the sentence that does, and whose it is."""
    led: dict[int, tuple[float, Page]] = {}
    for one in candidates:
        if not one.leads:
            continue
        value = round(one.page.score * asked.weight(one.sentence.terms | one.page.title), 6)
        for target in one.leads:
            if target.rank not in led or value > led[target.rank][0]:
                led[target.rank] = (value, one.page)
    return led
