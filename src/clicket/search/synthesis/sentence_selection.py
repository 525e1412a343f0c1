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
from operator import mul

import msgspec

from clicket.model.text.terms import fold, terms
from clicket.search.synthesis.answer_types import answer_type, may_contain, related_terms
from clicket.search.synthesis.source_documents import Sentence, SourceDocument, mentions

__all__ = ["WEIGHTS", "Candidate", "Question", "candidates_of", "select_sentences"]

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
_SHORT_DOCUMENT = 40
"""All statements of a document are scored if it has no more than this. Of others, those with terms of the question."""
_ENOUGH = 0.8
"""If the best statement covers less of the question than this, several documents are needed."""
_ABOUT_AS_GOOD, _FEW = 3.0, 3
"""If the best statement covers the question: how much lower than it the others may score, and how many are kept whatever they score."""
_Row = tuple[Sentence, bool]
"""A statement, and whether it mentions other documents."""
_Name = tuple[SourceDocument, str, frozenset[str]]
"""A document, one of its names, and the terms of that."""
_TOKEN = re.compile(r"[\w/.:-]+")
_SIGN = re.compile(r"[\d/.:_-]")
_JOINT = re.compile(r"\d|\w[./:_-]+\w|^/\w")
"""Numbers, versions, identifiers, names of files."""
_QUESTION_WORDS = re.compile(r"\bhow (?:many|much|often|long|old|far|big|large)\b", re.IGNORECASE)


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A statement with its features and, for each term of the question by number, the share that it has."""

    document: SourceDocument
    sentence: Sentence
    features: list[float] = []
    """None at all if it cannot answer."""
    score: float = 0.0
    has: dict[int, float] = {}
    covers: float = 0.0
    """The share of the question's terms that it has, by weight, with its heading, its lead and the title of its document."""


class Question:
    """The question: its terms by number with their weights (1 in all), related terms, and the type of answer."""

    __slots__ = ("_shares", "exact", "kind", "numbered", "of", "related", "wanted", "weights")

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
        folded = fold(question)
        tokens = [one.strip(".:-") for one in _TOKEN.findall(folded)] if _SIGN.search(folded) else []
        self.exact = [one.strip("/") for one in tokens if _JOINT.search(one)]
        self._shares: dict[frozenset[str], tuple[dict[int, float], float]] = {}

    def shares(self, there: frozenset[str]) -> tuple[dict[int, float], float]:
        """The share of each term of the question that these terms contain or are related to, and their weight."""
        found = self.wanted & there
        known = self._shares.get(found)
        if known is None:
            has = {number: 1.0 for number, term in self.numbered if term in found}
            for number, others in self.related:
                if number not in has and not others.isdisjoint(found):
                    has[number] = _RELATED_SHARE
            known = self._shares[found] = has, self.sum(has)
        return known

    def sum(self, has: dict[int, float]) -> float:
        return sum([self.weights[number] * share for number, share in has.items()])

    def weight(self, there: frozenset[str], title: frozenset[str] = frozenset()) -> float:
        return sum([self.weights[number] for number, term in self.numbered if term in there or term in title])


def select_sentences(asked: Question, candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """At most `most` of the candidates, the best first."""
    lost = [0.0] * len(asked.weights)
    """What each term of the question has lost."""
    chosen: list[Candidate] = []
    scores = [one.score for one in candidates]
    followed = list(scores)
    """The second score when it was computed last. Losses only grow, so it is not higher now."""
    untaken = list(range(len(scores)))
    while untaken and len(chosen) < most:
        if _follows(chosen):
            highest = -math.inf
            best = 0
            for number in sorted(untaken, key=followed.__getitem__, reverse=True):
                if followed[number] < highest:
                    break
                less = 0.0
                for term, share in candidates[number].has.items():
                    less += lost[term] * share
                value = followed[number] = scores[number] - _COVERS * less
                if value > highest or (value == highest and number < best):
                    highest, best = value, number
        else:
            best = max(untaken, key=scores.__getitem__)
        untaken.remove(best)
        taken = candidates[best]
        if any(_repeats(taken, one) for one in chosen):
            continue
        chosen.append(taken)
        for term in taken.has:
            lost[term] += (asked.weights[term] - lost[term]) * _COVERED_LOSS
    return _needed(chosen)


def _repeats(one: Candidate, other: Candidate) -> bool:
    """Does it say the same as the other, or a part of it?"""
    first = one.sentence
    second = other.sentence
    return first.statement.terms == second.statement.terms or (
        one.document is other.document and first.start < second.end and second.start < first.end
    )


def _needed(chosen: list[Candidate]) -> list[Candidate]:
    """The first three and those that are about as good as the best one, if that covers the question; else all."""
    if not chosen or chosen[0].covers < _ENOUGH:
        return chosen
    least = chosen[0].score - _ABOUT_AS_GOOD
    return [one for place, one in enumerate(chosen) if place < _FEW or one.score >= least]


def _follows(chosen: Sequence[Candidate]) -> bool:
    """Is the next statement taken by the score that follows the question from document to document?"""
    return len(chosen) % 2 == 1 or (len(chosen) == 2 and chosen[0].covers < _ENOUGH)


def candidates_of(asked: Question, documents: Sequence[SourceDocument]) -> list[Candidate]:
    """The statements that may answer, scored, in the order of the documents."""
    wanted = asked.wanted
    names = _names(documents)
    firsts = frozenset(names)
    by_document: list[list[_Row]] = []
    mentioned_by: dict[int, tuple[float, SourceDocument]] = {}
    for document in documents:
        whole = len(document.sentences) <= _SHORT_DOCUMENT
        rows: list[_Row] = []
        for sentence in document.sentences:
            statement = sentence.statement
            terms = statement.terms
            context = (terms, statement.heading, statement.lead_terms)
            if rows and not whole and all(map(wanted.isdisjoint, context)):
                continue
            mentioned: tuple[SourceDocument, ...] = ()
            if not firsts.isdisjoint(terms):
                mentioned = _mentioned(document, sentence, [names[first] for first in firsts & terms])
            rows.append((sentence, bool(mentioned)))
            if mentioned:
                value = round(document.score * asked.weight(terms, document.title), 6)
                for target in mentioned:
                    if target.rank not in mentioned_by or value > mentioned_by[target.rank][0]:
                        mentioned_by[target.rank] = (value, document)
        by_document.append(rows)
    candidates: list[Candidate] = []
    for document, rows in zip(documents, by_document, strict=True):
        candidates += _scored(asked, document, rows, mentioned_by.get(document.rank, (0.0, None)))
    return [one for one in candidates if one.features] or candidates


def _scored(
    asked: Question, document: SourceDocument, rows: Sequence[_Row], mention: tuple[float, SourceDocument | None]
) -> list[Candidate]:
    """The statements of one document as candidates, those that are eligible with features and score."""
    weights, kind, exact = asked.weights, asked.kind, asked.exact
    by, source = mention
    unmet = [] if source is None else [number for number, term in asked.numbered if term not in source.terms]
    whole = sum([weights[number] for number in unmet]) or 1.0
    title = {number: 1.0 for number, term in asked.numbered if term in document.title}
    rank = math.log1p(document.rank)
    candidates: list[Candidate] = []
    for sentence, has_mention in rows:
        statement = sentence.statement
        order = statement.order
        has, own = asked.shares(statement.terms)
        near = has
        context = own
        outer = 0.0
        if statement.heading or statement.lead_terms:
            near = _joined(has, asked.shares(statement.heading)[0])
            near = _joined(near, asked.shares(statement.lead_terms)[0])
            context = asked.sum(near)
        if title:
            outer = sum([weights[number] * (1 - near.get(number, 0.0)) for number in title])
        if not near and not title and source is None:
            candidates.append(Candidate(document, sentence))
            continue
        text = sentence.text if exact or kind else ""
        features = [
            own,
            context - own,
            outer,
            sum([weights[number] * has.get(number, 0.0) for number in unmet]) / whole if unmet else 0.0,
            sum([asked.of.get(term, 0.0) for term in dict.fromkeys(order[:3])]) if kind == "definition" else 0.0,
            _exact_share(exact, text) if exact else 0.0,
            1.0 if has_mention or not kind or may_contain(text, kind) else 0.0,
            by,
            0.0 if candidates else 1.0,
            rank,
            1 / (1 + len(order)),
            _FORMS.get(statement.kind, 0.0),
        ]
        score = round(sum(map(mul, _VALUES, features)), 6)
        candidates.append(Candidate(document, sentence, features, score, {**has, **title}, context + outer))
    return candidates


def _joined(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {**one, **{number: max(share, one.get(number, 0.0)) for number, share in other.items()}} if other else one


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


def _names(documents: Sequence[SourceDocument]) -> dict[str, list[_Name]]:
    """The names of the documents, by one of their terms."""
    names: dict[str, list[_Name]] = {}
    for document in documents:
        for name, needed in document.names:
            names.setdefault(min(needed), []).append((document, name, needed))
    return names


def _mentioned(
    document: SourceDocument, sentence: Sentence, names: Sequence[list[_Name]]
) -> tuple[SourceDocument, ...]:
    """The other documents that a sentence of this one mentions."""
    terms = sentence.statement.terms
    found: dict[int, SourceDocument] = {}
    for some in names:
        for other, name, needed in some:
            if other is not document and needed <= terms and other.rank not in found and mentions(sentence.text, name):
                found[other.rank] = other
    return tuple(found.values())
