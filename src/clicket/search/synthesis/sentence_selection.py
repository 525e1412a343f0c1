"""Selects the sentences of the built-in answer: each sentence is scored, then the best are taken one by one.

Each sentence taken changes the scores of the others: terms of the question that it covers count less, documents that it mentions
count more, its own document counts less. So the selection follows the question from document to document. All signals are shares
between 0 and 1; the weights are round numbers, and neighbouring values do as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from clicket.search.synthesis.answer_types import answer_type, may_contain, related_terms
from clicket.search.synthesis.source_documents import Sentence, SourceDocument, mentions
from clicket.search.text.terms import terms

__all__ = ["SelectedSentence", "select_sentences"]

_COVERS = 6.0
"""It has terms of the question, by weight, in itself or in its document's title."""
_ANSWERS = 2.5
"""It has terms of the question that the document which mentions its document lacks."""
_HAS_ANSWER = 1.7
"""It may contain an answer of the right type, or mentions another document that may."""
_MENTIONED = 1.5
"""Its document is mentioned by another one, in a sentence with terms of the question."""
_MENTIONS = 0.5
"""It mentions another document that was found."""
_FIRST = 0.5
"""It is the first sentence of its document."""
_RANK = 0.7
"""Subtracted, times the logarithm of the document's rank."""
_RELATED_SHARE = 0.5
"""The share that a related term counts."""
_COVERED_LOSS = 0.6
"""The share of its weight that a term of the question loses each time it is covered."""
_SAME_DOCUMENT = 0.3
"""Subtracted for each sentence taken from the same document, or from one of the same name."""
_CHAIN = 0.4
"""Added for a document that a taken sentence mentions."""
_SCORE = attrgetter("score")
_MIN_MENTION = 0.15
"""A sentence without terms of the question is eligible only if its document is mentioned in a sentence with this share of them."""
_READ_WHOLE = 8
"""Documents of which all sentences are scored; of others those with terms of the question, and the first."""


class SelectedSentence(NamedTuple):
    document: SourceDocument
    sentence: Sentence
    covers: float
    """The share of the question's terms that it has, by weight."""


class _Candidate(msgspec.Struct, eq=False):
    """A sentence with its score and, for each term of the question by number, the share that it has."""

    document: SourceDocument
    sentence: Sentence
    score: float = 0.0
    rounded: float = 0.0
    has: dict[int, float] = {}
    mentioned: tuple[SourceDocument, ...] = ()
    is_eligible: bool = False


class _Question:
    """The question: its terms by number with their weights (1 in all), related terms, and the type of answer."""

    __slots__ = ("kind", "numbered", "related", "wanted", "weights")

    def __init__(self, question: str, weigh: Callable[[Sequence[str]], Sequence[float]]) -> None:
        asked = list(dict.fromkeys(terms(question)))
        weights = weigh(asked)
        total = sum(weights) or 1.0
        related = related_terms(asked)
        self.numbered = list(enumerate(asked))
        self.weights = [weight / total for weight in weights]
        self.related = [(number, related[term]) for number, term in self.numbered if term in related]
        self.wanted = frozenset(asked).union(*related.values())
        self.kind = answer_type(question)

    def shares(self, there: frozenset[str]) -> dict[int, float]:
        """The terms of the question that these terms contain, or are related to."""
        if self.wanted.isdisjoint(there):
            return {}
        has = {number: 1.0 for number, term in self.numbered if term in there}
        for number, others in self.related:
            if number not in has and not others.isdisjoint(there):
                has[number] = _RELATED_SHARE
        return has

    def weight(self, there: frozenset[str]) -> float:
        return sum([self.weights[number] for number, term in self.numbered if term in there])


def select_sentences(
    question: str, documents: Sequence[SourceDocument], weigh: Callable[[Sequence[str]], Sequence[float]], most: int
) -> list[SelectedSentence]:
    """At most `most` sentences, the best first. `weigh` returns the weights of terms."""
    asked = _Question(question, weigh)
    candidates = _candidates(asked, documents)
    having: list[list[_Candidate]] = [[] for _ in asked.weights]
    of_document: dict[int, list[_Candidate]] = {document.rank: [] for document in documents}
    for one in candidates:
        of_document[one.document.rank].append(one)
        for number in one.has:
            having[number].append(one)
    left = list(asked.weights)
    chosen: list[SelectedSentence] = []
    named: set[int] = set()
    while candidates and len(chosen) < most:
        best = max(candidates, key=_SCORE)
        covers = sum([asked.weights[number] * share for number, share in best.has.items()])
        chosen.append(SelectedSentence(best.document, best.sentence, covers))
        for number in best.has:
            lost = left[number] * _COVERED_LOSS
            left[number] -= lost
            for one in having[number]:
                one.score -= _COVERS * lost * one.has[number]
        mentioned = {document.rank for document in best.mentioned}
        for document in documents:
            more = -_SAME_DOCUMENT if document.key == best.document.key else 0.0
            if document.rank in mentioned and document.rank not in named:
                named.add(document.rank)
                more += _CHAIN
            if more:
                for one in of_document[document.rank]:
                    one.score += more
        taken = best.sentence.terms
        candidates = [one for one in candidates if one is not best and one.sentence.terms != taken]
        for one in candidates:
            if one.score is not one.rounded:
                one.score = one.rounded = round(one.score, 6)
    return chosen


def _candidates(asked: _Question, documents: Sequence[SourceDocument]) -> list[_Candidate]:
    """Every sentence with its score before any is taken, in the order of the documents."""
    by_document = [
        [
            _Candidate(document, sentence)
            for number, sentence in enumerate(document.sentences)
            if number == 0 or document.rank < _READ_WHOLE or not asked.wanted.isdisjoint(sentence.terms)
        ]
        for document in documents
    ]
    candidates = [one for of_document in by_document for one in of_document]
    _find_mentions(candidates, documents)
    mentioned_by = _best_mentions(candidates, asked)
    weights = asked.weights
    for document, of_document in zip(documents, by_document, strict=True):
        by, source = mentioned_by.get(document.rank, (0.0, None))
        unmet = [number for number, term in asked.numbered if source is not None and term not in source.terms]
        whole = sum([weights[number] for number in unmet]) or 1.0
        title = {number: 1.0 for number, term in asked.numbered if term in document.title}
        titled = _COVERS * sum([weights[number] for number in title])
        base = _MENTIONED * by - _RANK * math.log1p(document.rank) + _FIRST
        for one in of_document:
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
            if one.mentioned or may_contain(one.sentence.text, asked.kind):
                score += _HAS_ANSWER
            if one.mentioned:
                score += _MENTIONS * max([target.score for target in one.mentioned])
            one.score = one.rounded = round(score, 6)
            base -= _FIRST if one is of_document[0] else 0.0
            one.is_eligible = bool(has) or by >= _MIN_MENTION
    return [one for one in candidates if one.is_eligible] or candidates


def _find_mentions(candidates: Sequence[_Candidate], documents: Sequence[SourceDocument]) -> None:
    """Set which other documents each sentence mentions. Names are looked up by one of their terms."""
    known: dict[str, list[tuple[SourceDocument, str, frozenset[str]]]] = {}
    for document in documents:
        for name, needed in document.names:
            known.setdefault(min(needed), []).append((document, name, needed))
    firsts = frozenset(known)
    for one in candidates:
        found: dict[int, SourceDocument] = {}
        for first in firsts & one.sentence.terms:
            for document, name, needed in known[first]:
                if document is not one.document and document.rank not in found and mentions(one.sentence, name, needed):
                    found[document.rank] = document
        if found:
            one.mentioned = tuple(found[rank] for rank in sorted(found))


def _best_mentions(candidates: Sequence[_Candidate], asked: _Question) -> dict[int, tuple[float, SourceDocument]]:
    """For each mentioned document: the highest score of a sentence that mentions it, and the document of that sentence."""
    mentioned_by: dict[int, tuple[float, SourceDocument]] = {}
    for one in candidates:
        if not one.mentioned:
            continue
        value = round(one.document.score * asked.weight(one.sentence.terms | one.document.title), 6)
        for target in one.mentioned:
            if target.rank not in mentioned_by or value > mentioned_by[target.rank][0]:
                mentioned_by[target.rank] = (value, one.document)
    return mentioned_by
