"""Names that the best documents mention and that were not asked for yet: bridges to the next hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import exp
from typing import Any

import msgspec

from clicket.model.text.terms import terms_of_each
from clicket.model.tool_tables import MAX_QUERIES
from clicket.search.findings import Findings
from clicket.search.protocols import Collection, has_terms_alone
from clicket.search.ranking.profiles import DocumentProfile, profile_of, terms_of_names, without_initials
from clicket.search.ranking.ranker import SOFTNESS
from clicket.search.ranking.term_match import QuestionTerms, name_context, term_positions
from clicket.search.ranking.term_weights import TermWeights
from clicket.search.text.names import FUNCTION_WORDS, flattened_lines, is_cjk, joined_key, name_key, names

__all__ = ["MIN_BRIDGE_SCORE", "MIN_SHARE", "Bridge", "BridgeFinder", "unspaced_names"]

MIN_BRIDGE_SCORE = 0.48
"""Bridges below this score are not worth a third round."""
MIN_SHARE = 0.7
"""Bridges below this share of the best score are not worth a query."""
_SOURCES = 4
"""Documents whose mentions are considered."""
_FIRST_SOURCES = 2
"""Documents whose mentions are read first. Of other documents and names only those are looked up that can give a bridge that is needed."""
_FEW_QUERIES = 3
"""Queries of a round over a collection without vectors: more of them find little, and each costs a third of the round."""
_EARLY = 0.3
"""What it counts that a name is at the start of a document."""
_COMMON = 0.3
"""A name counts only if its rarest term weighs at least this share of the highest weight."""
_MAX_WORDS = 10
_MAX_UNSPACED = 12
_MAX_UNSPACED_TEXT = 400
"""Characters: the longest name in unspaced text, and how much of a text is searched for names."""

_ARTICLES = ("the ", "a ", "an ")
_NO_OPENERS = FUNCTION_WORDS.difference(("the", "a", "an"))


class Bridge(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`name` as it is written in the document `source`; `score` is from 0 to about 1."""

    key: str
    name: str
    source: str
    score: float
    missing_terms: tuple[str, ...]
    """Terms of the question that the source does not have."""


_Mention = tuple[str, str, float, float]
"""A name that a document mentions: its key, how it is written there, and two factors of its score: how rare it is, and how close to terms
of the question."""


class BridgeFinder:
    """Finds names. Planner and analyzer of a search share one, because they ask for the same names, one after the other."""

    def __init__(self, collection: Collection | None = None, term_weights: TermWeights | None = None) -> None:
        self.collection = collection
        self.needed = _FEW_QUERIES if has_terms_alone(collection) else MAX_QUERIES
        """The bridges that a round needs, one for each query."""
        self.term_weights = term_weights or TermWeights(collection)
        self._named: tuple[str, list[str]] = ("", [])
        self._last: tuple[Any, Any, list[Bridge]] = ((), (), [])
        """The bridges of the last ranking, with this and the queries."""
        self._mentions: tuple[str, dict[str, tuple[DocumentProfile, list[_Mention]]]] = ("", {})
        """Of the last question: what documents mention, by id. They are often among the best after several rounds."""

    def question_names(self, question: str) -> list[str]:
        """Names in the question, in order: names of documents (of overlapping ones the longest), and words that look like names."""
        if self._named[0] != question:
            self._named = (question, _question_names(question, self.collection))
        return self._named[1]

    def bridges(self, findings: Findings) -> list[Bridge]:
        """Bridges, the best first, as many as the next round needs. Names that were asked for, or are in the question, are left out."""
        if not findings.ranked:
            return []
        last = self._last
        if last[0] is findings.ranked and last[1] == findings.searched:
            return last[2]
        found = self._found(findings)
        self._last = (findings.ranked, findings.searched, found)
        return found

    def _found(self, findings: Findings) -> list[Bridge]:
        question = QuestionTerms.of(findings.question)
        best = findings.ranked[0][1]
        sources: list[tuple[float, DocumentProfile]] = []
        for id, score in findings.ranked[:_SOURCES]:
            profile = profile_of(findings.documents[id])
            strength = exp(SOFTNESS * (score - best))
            if strength < 0.8 and profile.names and question.contains(profile.names[0]):
                strength = 0.8
            sources.append((strength, profile))
        blocked = f"{question.flat}|{without_initials(flattened_lines(findings.searched))}"
        found: dict[str, Bridge] = {}
        self._add(found, sources[:_FIRST_SOURCES], question, blocked, findings)
        least = self._least(found, findings)
        # Of the others, those that can give a bridge that is needed: this is the highest score of one.
        others = [one for one in sources[_FIRST_SOURCES:] if one[0] * (2 + _EARLY) / 2 >= least]
        self._add(found, others, question, blocked, findings)
        return sorted(found.values(), key=lambda one: (-one.score, one.key))

    def _add(
        self,
        found: dict[str, Bridge],
        sources: Sequence[tuple[float, DocumentProfile]],
        question: QuestionTerms,
        blocked: str,
        findings: Findings,
    ) -> None:
        """Add the names that these documents mention. Each document has a strength from 0 to 1."""
        highest: dict[str, tuple[float, str, DocumentProfile]] = {}
        """Of each name: the highest score that it can have, how it is written there, and in which document."""
        mentions = self._mentions_of([profile for _, profile in sources], question, findings)
        for (strength, profile), each in zip(sources, mentions, strict=True):
            for key, name, rarity, closeness in each:
                if f" {key} " in blocked or (not key.isascii() and is_cjk(key) and key in blocked):
                    continue
                score = strength * rarity * closeness / 2
                if key not in highest or score > highest[key][0]:
                    highest[key] = (score, name, profile)
        missing: dict[str, tuple[str, ...]] = {}
        order = sorted(highest, key=lambda key: -highest[key][0])
        for part in (order[: self.needed], order[self.needed :]):
            least = self._least(found, findings)
            some = [key for key in part if highest[key][0] >= least]
            if not some:
                break
            documents_named = [()] * len(some) if self.collection is None else self.collection.named(some)
            for key, ids in zip(some, documents_named, strict=True):
                score, name, profile = highest[key]
                if ids:
                    score /= len(ids) ** 0.25
                    if findings.documents.keys() >= set(ids):
                        score *= 0.5
                elif self.collection is not None:
                    score *= 0.6
                score = round(score, 6)
                if key not in found or score > found[key].score:
                    if profile.id not in missing:
                        missing[profile.id] = tuple([one for one in question.terms if one not in profile.all_terms])
                    found[key] = Bridge(
                        key=key, name=name, source=profile.id, score=score, missing_terms=missing[profile.id]
                    )

    def _least(self, found: dict[str, Bridge], findings: Findings) -> float:
        """The score from which on another bridge matters: that of the last one that is needed; after the first round that of the best, or
        what is worth a query."""
        if len(found) < (1 if findings.loop > 1 else self.needed):
            return 0.0
        scores = sorted([one.score for one in found.values()], reverse=True)
        return min(scores[0], MIN_BRIDGE_SCORE) if findings.loop > 1 else scores[self.needed - 1]

    def _mentions_of(
        self, profiles: Sequence[DocumentProfile], question: QuestionTerms, findings: Findings
    ) -> list[list[_Mention]]:
        """The names that each document mentions, without its own, those in the question, and common words."""
        if self._mentions[0] != question.text or self.collection is None:  # then weights change with every round
            self._mentions = (question.text, {})
        known = self._mentions[1]
        new = [one for one in profiles if one.id not in known or known[one.id][0] is not one]
        if new:
            read = [profile_of(one) for one in findings.documents.values()] if self.collection is None else []
            named = [self._names_in(one, question.flat) for one in new]
            keys = list(dict.fromkeys([key for each in named for key, _ in each]))
            parts_of = terms_of_names(keys)
            self.term_weights.learn([*question.terms, *[term for key in keys for term in parts_of[key]]], read)
            weights = {term: self.term_weights[term] for term in question.terms}
            for profile, each in zip(new, named, strict=True):
                parts = [parts_of[key] for key, _ in each]
                known[profile.id] = (profile, _weighed(profile, each, parts, weights, self.term_weights))
        return [known[one.id][1] for one in profiles]

    def _names_in(self, profile: DocumentProfile, question: str) -> list[tuple[str, str]]:
        """Names that a document mentions, without its own and those in the question: key, and how it is written."""
        mentioned = dict(profile.mentions)
        if profile.unspaced and self.collection is not None:
            for name, _, _ in unspaced_names(profile.text, self.collection):
                mentioned.setdefault(name_key(name), name)
        own = profile.names
        return [one for one in mentioned.items() if f" {one[0]} " not in question and one[0] not in own]


def _weighed(
    profile: DocumentProfile,
    named: Sequence[tuple[str, str]],
    parts: Sequence[tuple[str, ...]],
    weights: Mapping[str, float],
    term_weights: TermWeights,
) -> list[_Mention]:
    known = term_weights.known
    most = term_weights.max_weight
    total = sum(weights.values()) or 1.0
    positions = term_positions(profile, weights)
    found = []
    for (key, name), terms in zip(named, parts, strict=True):
        rarest = max(map(known.__getitem__, terms), default=0.0) / most
        if rarest >= _COMMON:
            early, near = name_context(profile, positions, terms, weights)
            found.append((key, name, 0.5 + 0.5 * rarest, 1 + near / total + _EARLY * early))
    return found


def _question_names(question: str, collection: Collection | None) -> list[str]:
    places = [(start, end, name) for name, start, end in names(question)]
    if collection is not None:
        runs = _word_runs(question)
        known = zip(runs, collection.named([key for _, _, key in runs]), strict=True)
        unspaced = unspaced_names(question, collection)
        places = [
            *[(start, end, question[start:end]) for (start, end, _), ids in known if ids],
            *[(start, end, name) for name, start, end in unspaced],
            *places,
        ]
    found: list[tuple[int, int, str]] = []
    for start, end, name in places:
        if not any(low < end and start < high for low, high, _ in found):
            found.append((start, end, name))
    return [name for _, _, name in sorted(found)]


def _word_runs(question: str) -> list[tuple[int, int, str]]:
    """Every run of words of a question that has a term and may be a name, not a single word in lower case: start, end, key."""
    places = _words(question)
    words = [question[start:end] for start, end in places]
    flat = [one.strip() for one in flattened_lines(words).split("|")]
    # Faster: the key of a run is a part of the flattened question. Not if a mark between two words may belong to the first.
    sliced = question.isascii() and all(flat) and not any("'" in question[start - 1 : start] for start, _ in places)
    line = " ".join(flat)
    at = [0, *accumulate([len(one) + 1 for one in flat])]
    # A name that is written in lower case neither begins nor ends with a function word. This leaves half of the runs.
    opens, closes = [one not in _NO_OPENERS for one in words], [one not in FUNCTION_WORDS for one in words]
    with_terms = [0, *accumulate(map(bool, terms_of_each(words)))]
    found = []
    for size in range(min(_MAX_WORDS, len(words)), 0, -1):
        for low, high in enumerate(range(size, len(words) + 1)):
            if opens[low] and closes[high - 1] and with_terms[low] < with_terms[high]:
                start = places[low][0]
                end = places[high - 1][1]
                if size > 1 or question[start].isupper():
                    key = line[at[low] : at[high] - 1] if sliced else name_key(question[start:end])
                    found.append((start, end, joined_key(key.split()) if key.startswith(_ARTICLES) else key))
    return found


def _words(text: str) -> list[tuple[int, int]]:
    places, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        stripped = word.strip("\"'“”‘’.,;:?!()[]")
        if stripped and not is_cjk(stripped):
            start = at + word.index(stripped)
            places.append((start, start + len(stripped)))
        at += len(word)
    return places


def unspaced_names(text: str, collection: Collection) -> list[tuple[str, int, int]]:
    """Names of documents in text of a script without spaces; of overlapping ones the longest."""
    text = text[:_MAX_UNSPACED_TEXT]
    if not is_cjk(text):
        return []
    unspaced = [is_cjk(one) for one in text]
    pieces = [
        (text[start : start + size], start, start + size)
        for start in range(len(text))
        if unspaced[start]
        for size in range(min(_MAX_UNSPACED, len(text) - start), 1, -1)
        if unspaced[start + size - 1]
    ]
    keys = [name_key(piece) for piece, _, _ in pieces]
    taken = [False] * len(text)
    found = []
    known = collection.named(keys)
    for at in sorted(range(len(pieces)), key=lambda one: (pieces[one][1] - pieces[one][2], pieces[one][1])):
        piece, start, end = pieces[at]
        if known[at] and not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            found.append((piece, start, end))
    return sorted(found, key=lambda one: one[1])
