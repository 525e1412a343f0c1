"""Which statements of the documents answer the question, the best first.

A statement scores by features: the terms of the question in it, in its heading, its lead and the title of its document; numbers and
identifiers of the question; the type of answer; the documents that mention its document. After each statement that is taken, the terms
that it covers count less in a second score, so that the selection follows the question from document to document. Statements are taken by
one score and the other in turn: the first serves questions that one document answers, the second those that need several.

The weights are round numbers, and neighbouring values do as well. Weights that were learnt on some of the sets did worse on the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from operator import attrgetter, mul
from typing import NamedTuple

import msgspec

from clicket.search.synthesis.answer_types import answer_type, may_contain, related_terms
from clicket.search.synthesis.source_documents import Sentence, SourceDocument, mentions
from clicket.search.synthesis.statements import Statement
from clicket.text.terms import fold, terms

__all__ = ["WEIGHTS", "Candidate", "Question", "SelectedSentence", "candidates_of", "select_sentences"]

WEIGHTS = (
    ("own",         6.0),  # the share of the question's terms, by weight, that it has
    ("context",     4.0),  # … that only its heading or lead has
    ("outer",       4.0),  # … that only the title of its document has
    ("residue",     2.5),  # … of those that the document which mentions its document lacks
    ("subject",     2.0),  # a definition: it begins with what is asked for
    ("exact",       1.0),  # the share of the question's numbers and identifiers that it has as a whole
    ("typed",       1.7),  # it may contain an answer of the right type, or mentions another document that may
    ("mentioned",   1.5),  # its document is mentioned by another one, in a sentence with terms of the question
    ("first",       0.5),  # it is the first one of its document
    ("rank",       -0.7),  # the logarithm of the document's rank
    ("thin",       -1.0),  # near 1 for very short ones
    ("form",        1.0),  # what it is: see `_FORMS`
)  # fmt: skip
_FORMS = {"heading": -1.5, "label": -1.0, "open": -2.0, "lead": 0.3, "code": -1.0}
"""A heading and a label seldom state a fact, a sentence that ends with a colon never does; with what follows it is often the answer,
unless that is a program."""
_VALUES = tuple(weight for _, weight in WEIGHTS)
_RELATED_SHARE = 0.5
"""The share that a related term counts."""
_COVERS = _VALUES[0]
_COVERED_LOSS = 0.6
"""The share of its weight that a term of the question loses each time it is covered."""
_SAME_DOCUMENT = 0.3
"""Subtracted for each sentence taken from the same document, or from one of the same name."""
_CHAIN = 0.4
"""Added for a document that a taken sentence mentions."""
_READ_WHOLE, _SHORT_DOCUMENT = 8, 40
"""The best documents, if they have no more statements than this: all of them are scored. Of others, those with terms of the question."""
_ENOUGH = 0.8
"""If the best statement covers less of the question than this, several documents are needed."""
_ABOUT_AS_GOOD = 4.0
_SCORE = attrgetter("score")
_FOLLOWED = attrgetter("followed")
_TOKEN = re.compile(r"[\w/.:-]+")
_JOINT = re.compile(r"\d|\w[./:_-]+\w|^/\w")
"""Numbers, versions, identifiers, names of files."""
_QUESTION_WORDS = re.compile(r"\bhow (?:many|much|often|long|old|far|big|large)\b", re.IGNORECASE)


class SelectedSentence(NamedTuple):
    document: SourceDocument
    sentence: Sentence
    covers: float
    """The share of the question's terms that it has, by weight, with its heading, its lead and the title of its document."""


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A statement with its features and, for each term of the question by number, the share that it has."""

    document: SourceDocument
    sentence: Sentence
    features: list[float] = []
    score: float = 0.0
    followed: float = 0.0
    """The score, less what was taken already covers."""
    has: dict[int, float] = {}
    terms: frozenset[str] = frozenset()
    covers: float = 0.0
    is_mentioned: bool = False
    """Does another document mention its document?"""
    mentioned: tuple[SourceDocument, ...] = ()


class Question:
    """The question: its terms by number with their weights (1 in all), related terms, and the type of answer."""

    __slots__ = ("exact", "kind", "numbered", "of", "related", "wanted", "weights")

    def __init__(self, question: str, weigh: Callable[[Sequence[str]], Sequence[float]]) -> None:
        asked = list(dict.fromkeys(terms(_QUESTION_WORDS.sub(" ", question))))
        weights = weigh(asked)
        total = sum(weights) or 1.0
        related = related_terms(asked)
        self.numbered = list(enumerate(asked))
        self.weights = [weight / total for weight in weights]
        self.related = [(number, related[term]) for number, term in self.numbered if term in related]
        self.wanted = frozenset(asked).union(*related.values())
        self.kind = answer_type(question)
        self.of = dict(zip(asked, self.weights, strict=True))
        tokens = [one.strip(".:-") for one in _TOKEN.findall(fold(question))]
        self.exact = [one.strip("/") for one in tokens if _JOINT.search(one)]

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


def select_sentences(asked: Question, candidates: list[Candidate], most: int) -> list[SelectedSentence]:
    """At most `most` of the candidates, the best first."""
    left = list(asked.weights)
    chosen: list[Candidate] = []
    named: set[int] = set()
    while candidates:
        best = max(candidates, key=_FOLLOWED if _follows(chosen) else _SCORE)
        chosen.append(best)
        if len(chosen) == most:
            break
        mentioned = {document.rank for document in best.mentioned} - named
        named |= mentioned
        lost = {number: left[number] * _COVERED_LOSS for number in best.has}
        for number, loss in lost.items():
            left[number] -= loss
        terms, key = best.terms, best.document.key
        candidates = [
            one
            for one in candidates
            if one.terms != terms and (one.document is not best.document or not _overlap(one.sentence, best.sentence))
        ]
        for one in candidates:
            more = _CHAIN if one.document.rank in mentioned else 0.0
            less = 0.0
            for number, share in one.has.items():
                if number in lost:
                    less += lost[number] * share
            less = (_SAME_DOCUMENT if one.document.key == key else 0.0) + _COVERS * less
            if more:
                one.score = round(one.score + more, 6)
            if more or less:
                one.followed += more - less
    return [SelectedSentence(one.document, one.sentence, one.covers) for one in _needed(chosen)]


def _needed(chosen: list[Candidate]) -> list[Candidate]:
    """Those that are about as good as the best one, if it covers the question and no other document is needed for it."""
    if not chosen or chosen[0].covers < _ENOUGH or chosen[0].mentioned or chosen[0].is_mentioned:
        return chosen
    least = chosen[0].score - _ABOUT_AS_GOOD
    return [one for one in chosen if one.score >= least]


def _follows(chosen: Sequence[Candidate]) -> bool:
    """Is the next statement taken by the score that follows the question from document to document?"""
    return len(chosen) % 2 == 1 or (len(chosen) == 2 and chosen[0].covers < _ENOUGH)


def _overlap(one: Sentence, other: Sentence) -> bool:
    return one.start < other.end and other.start < one.end


def candidates_of(asked: Question, documents: Sequence[SourceDocument]) -> list[Candidate]:
    """The statements that may answer, scored, in the order of the documents."""
    wanted = asked.wanted
    by_document = []
    for document in documents:
        whole = document.rank < _READ_WHOLE and len(document.sentences) <= _SHORT_DOCUMENT
        by_document.append(
            [
                Candidate(document, sentence, terms=statement.terms)
                for number, sentence in enumerate(document.sentences)
                for statement in (sentence.statement,)
                if whole or number == 0 or not wanted.isdisjoint(statement.terms) or _context_has(statement, wanted)
            ]
        )
    candidates = [one for of_document in by_document for one in of_document]
    _find_mentions(candidates, documents)
    mentioned_by = _best_mentions(candidates, asked)
    for document, of_document in zip(documents, by_document, strict=True):
        _score(asked, document, of_document, mentioned_by.get(document.rank, (0.0, None)))
    return [one for one in candidates if one.features] or candidates


def _context_has(statement: Statement, wanted: frozenset[str]) -> bool:
    return not (wanted.isdisjoint(statement.heading) and wanted.isdisjoint(statement.lead_terms))


def _score(
    asked: Question,
    document: SourceDocument,
    candidates: Sequence[Candidate],
    mention: tuple[float, SourceDocument | None],
) -> None:
    """Set features and score of the candidates of one document that are eligible."""
    weights, numbered = asked.weights, asked.numbered
    by, source = mention
    unmet = [number for number, term in numbered if source is not None and term not in source.terms]
    whole = sum([weights[number] for number in unmet]) or 1.0
    title = {number: 1.0 for number, term in numbered if term in document.title}
    rank = math.log1p(document.rank)
    sections: dict[frozenset[str], dict[int, float]] = {}
    for one in candidates:
        statement = one.sentence.statement
        heading = statement.heading
        if heading not in sections:
            sections[heading] = asked.shares(heading)
        has = asked.shares(statement.terms)
        near = _joined(has, sections[heading])
        if statement.lead_terms:
            near = _joined(near, asked.shares(statement.lead_terms))
        one.has = {**has, **title}
        if not near and not title and source is None:
            continue
        own = sum([weights[number] * share for number, share in has.items()])
        context = own if near is has else sum([weights[number] * share for number, share in near.items()])
        outer = sum([weights[number] * (1 - near.get(number, 0.0)) for number in title])
        one.covers = context + outer
        one.is_mentioned = source is not None
        text = one.sentence.text
        one.features = [
            own,
            context - own,
            outer,
            sum([weights[number] * has.get(number, 0.0) for number in unmet]) / whole,
            _subject(asked, statement.order),
            _exact_share(asked.exact, text) if asked.exact else 0.0,
            1.0 if one.mentioned or may_contain(text, asked.kind) else 0.0,
            by,
            1.0 if one is candidates[0] else 0.0,
            rank,
            1 / (1 + len(statement.order)),
            _FORMS.get(statement.kind, 0.0),
        ]
        one.score = one.followed = round(sum(map(mul, _VALUES, one.features)), 6)


def _joined(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {**one, **{number: max(share, one.get(number, 0.0)) for number, share in other.items()}} if other else one


def _subject(asked: Question, order: Sequence[str]) -> float:
    """The weight of the question's terms with which the statement begins."""
    if asked.kind != "definition":
        return 0.0
    return sum([asked.of.get(term, 0.0) for term in dict.fromkeys(order[:3])])


def _exact_share(exact: Sequence[str], text: str) -> float:
    folded = fold(text)
    return sum([_has_exact(folded, token) for token in exact]) / len(exact)


def _has_exact(text: str, token: str) -> float:
    """1 if the text has the token as a whole: "1.1" is not in "1.1.2"."""
    at = text.find(token)
    while at >= 0:
        end = at + len(token)
        longer = token[-1].isdigit() and text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
        if not (longer or text[max(at - 1, 0) : at].isalnum() or text[end : end + 1].isalnum()):
            return 1.0
        at = text.find(token, at + 1)
    return 0.0


def _find_mentions(candidates: Sequence[Candidate], documents: Sequence[SourceDocument]) -> None:
    """Set which other documents each sentence mentions. Names are looked up by one of their terms."""
    known: dict[str, list[tuple[SourceDocument, str, frozenset[str]]]] = {}
    for document in documents:
        for name, needed in document.names:
            known.setdefault(min(needed), []).append((document, name, needed))
    firsts = frozenset(known)
    for one in candidates:
        found: dict[int, SourceDocument] = {}
        if firsts.isdisjoint(one.terms):
            continue
        for first in firsts & one.terms:
            for document, name, needed in known[first]:
                if document is not one.document and document.rank not in found and mentions(one.sentence, name, needed):
                    found[document.rank] = document
        if found:
            one.mentioned = tuple(found[rank] for rank in sorted(found))


def _best_mentions(candidates: Sequence[Candidate], asked: Question) -> dict[int, tuple[float, SourceDocument]]:
    """For each mentioned document: the highest score of a sentence that mentions it, and the document of that sentence."""
    mentioned_by: dict[int, tuple[float, SourceDocument]] = {}
    for one in candidates:
        if not one.mentioned:
            continue
        value = round(one.document.score * asked.weight(one.terms | one.document.title), 6)
        for target in one.mentioned:
            if target.rank not in mentioned_by or value > mentioned_by[target.rank][0]:
                mentioned_by[target.rank] = (value, one.document)
    return mentioned_by
