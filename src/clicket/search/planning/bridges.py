"""Names that the best documents mention and that were not asked for yet: bridges to the next hop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp
from typing import Any

import msgspec

from clicket.search.findings import Findings
from clicket.search.protocols import Collection
from clicket.search.ranking.profiles import DocumentProfile, profile_of, terms_of_names, without_initials
from clicket.search.ranking.ranker import SOFTNESS
from clicket.search.ranking.term_match import QuestionTerms, name_context, term_positions
from clicket.search.ranking.term_weights import TermWeights
from clicket.search.text.names import FUNCTION_WORDS, flattened, is_cjk, joined_key, name_key, names
from clicket.text.terms import terms

__all__ = ["MIN_BRIDGE_SCORE", "Bridge", "bridges", "question_names", "unspaced_names"]

MIN_BRIDGE_SCORE = 0.48
"""Bridges below this score are not worth a third round."""
_SOURCES = 5
"""Documents whose mentions are considered."""
_FIRST_SOURCES, _NEEDED = 2, 10
"""Documents whose mentions are read first, and the bridges that a round needs. Of other documents and names only those are looked up that
can give one of them."""
_HIGHEST = 1.15
"""The highest score of a bridge from a document of strength 1."""
_COMMON = 0.3
"""A name counts only if its rarest term weighs at least this share of the highest weight."""
_MAX_WORDS = 10
_MAX_UNSPACED = 12
_MAX_UNSPACED_TEXT = 400
"""Characters: the longest name in unspaced text, and how much of a text is searched for names."""

_NO_OPENERS = FUNCTION_WORDS.difference(("the", "a", "an"))

_last: tuple[Any, Any, int, list[Bridge]] | None = None
"""The bridges of the last ranking: analyzer and planner ask for the same ones, one after the other."""


class Bridge(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`name` as it is written in the document `source`; `score` is from 0 to about 1."""

    key: str
    name: str
    source: str
    score: float
    missing_terms: tuple[str, ...]
    """Terms of the question that the source does not have."""


@lru_cache(maxsize=64)
def _word_runs(question: str) -> tuple[tuple[int, int, str], ...]:
    """Every run of words of a question that has a term and may be a name, not a single word in lower case: start, end, key."""
    words = _words(question)
    # A name that is written in lower case neither begins nor ends with a function word. This leaves half of the runs.
    opens = [question[start:end] not in _NO_OPENERS for start, end in words]
    closes = [question[start:end] not in FUNCTION_WORDS for start, end in words]
    runs = [
        (low, low + size)
        for size in range(min(_MAX_WORDS, len(words)), 0, -1)
        for low in range(len(words) - size + 1)
        if opens[low] and closes[low + size - 1]
    ]
    if not question.isascii() or any("'" in question[start - 1 : start] for start, _ in words):
        keys = [name_key(question[words[low][0] : words[high - 1][1]]) for low, high in runs]
        has_term = [bool(terms_of_names(keys)[key]) for key in keys]
    else:  # faster: the key of a run is made of the keys of its words
        flat = [flattened(question[start:end]).split() for start, end in words]
        with_terms = [0, *accumulate([bool(terms(" ".join(one))) for one in flat])]
        firsts, all_words = [0, *accumulate(map(len, flat))], [word for one in flat for word in one]
        keys = [joined_key(all_words[firsts[low] : firsts[high]]) for low, high in runs]
        has_term = [with_terms[low] < with_terms[high] for low, high in runs]
    return tuple(
        (words[low][0], words[high - 1][1], key)
        for (low, high), key, keep in zip(runs, keys, has_term, strict=True)
        if keep and (high - low > 1 or question[words[low][0]].isupper())
    )


def question_names(question: str, collection: Collection | None) -> list[str]:
    """Names in the question, in order: names of documents (of overlapping ones the longest), and words that look like names."""
    found: list[tuple[int, int, str]] = []
    if collection is not None:
        found = _document_names(question, collection)
    for name, start, end in names(question):
        if not any(low < end and start < high for low, high, _ in found):
            found.append((start, end, name))
    return [name for _, _, name in sorted(found)]


def _document_names(question: str, collection: Collection) -> list[tuple[int, int, str]]:
    """Parts of the question that are names of documents."""
    found: list[tuple[int, int, str]] = []
    word_runs = _word_runs(question)
    for (start, end, _), ids in zip(word_runs, collection.named([one[2] for one in word_runs]), strict=True):
        if ids and not any(low < end and start < high for low, high, _ in found):
            found.append((start, end, question[start:end]))
    for name, start, end in unspaced_names(question, collection):
        if not any(low < end and start < high for low, high, _ in found):
            found.append((start, end, name))
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


def bridges(findings: Findings, collection: Collection | None, term_weights: TermWeights) -> list[Bridge]:
    """Bridges, the best first, as many as the next round needs. Names that were asked for, or are in the question, are left out."""
    if not findings.ranked:
        return []
    global _last
    last = _last
    if last is not None and last[0] is findings.ranked and last[1] == findings.searched and last[2] == id(collection):
        return last[3]
    found = _bridges(findings, collection, term_weights)
    _last = (findings.ranked, findings.searched, id(collection), found)
    return found


def _bridges(findings: Findings, collection: Collection | None, term_weights: TermWeights) -> list[Bridge]:
    question = QuestionTerms.of(findings.question)
    best = findings.ranked[0][1]
    sources = [(profile_of(findings.documents[one]), score) for one, score in findings.ranked[:_SOURCES]]
    strengths = []
    for profile, score in sources:
        strength = exp(SOFTNESS * (score - best))
        if any(question.contains(name) for name in profile.names[:1]):
            strength = max(strength, 0.8)
        strengths.append((strength, profile))
    blocked = "|".join([question.flat, *(without_initials(f" {flattened(one)} ") for one in findings.searched)])
    found: dict[str, Bridge] = {}
    _add_bridges(found, strengths[:_FIRST_SOURCES], question, blocked, findings, collection, term_weights)
    others = [one for one in strengths[_FIRST_SOURCES:] if one[0] * _HIGHEST >= _least(found, findings)]
    _add_bridges(found, others, question, blocked, findings, collection, term_weights)
    return sorted(found.values(), key=lambda one: (-one.score, one.key))


def _least(found: dict[str, Bridge], findings: Findings) -> float:
    """The score from which on another bridge matters: that of the last one that is needed; after the first round that of the best, or
    what is worth a query."""
    scores = sorted([one.score for one in found.values()], reverse=True)
    if findings.loop > 1:
        return min(scores[0], MIN_BRIDGE_SCORE) if scores else 0.0
    return scores[_NEEDED - 1] if len(scores) >= _NEEDED else 0.0


def _add_bridges(
    found: dict[str, Bridge],
    sources: Sequence[tuple[float, DocumentProfile]],
    question: QuestionTerms,
    blocked: str,
    findings: Findings,
    collection: Collection | None,
    term_weights: TermWeights,
) -> None:
    """Add the names that these documents mention. Each document has a strength from 0 to 1."""
    mentions = [_new_names(profile, blocked, collection) for _, profile in sources]
    keys = list(dict.fromkeys(key for each in mentions for key, _ in each))
    if not keys:
        return
    profiles = [] if collection is not None else [profile_of(one) for one in findings.documents.values()]
    parts_of = terms_of_names(keys)
    term_weights.learn([*question.terms, *[term for key in keys for term in parts_of[key]]], profiles)
    weights = {term: term_weights[term] for term in question.terms}
    total = sum(weights.values()) or 1.0
    known, most = term_weights.known, term_weights.max_weight
    highest: dict[str, tuple[float, str, DocumentProfile]] = {}
    """Of each name: the highest score that it can have, how it is written there, and in which document."""
    for (strength, profile), each in zip(sources, mentions, strict=True):
        positions = term_positions(profile, weights)
        for key, name in each:
            parts = parts_of[key]
            rarest = max([known.get(term, most) for term in parts], default=0.0) / most
            if rarest < _COMMON:
                continue
            early, near = name_context(profile, positions, parts, weights)
            score = strength * (0.5 + 0.5 * rarest) * (1 + near / total + 0.3 * early) / 2
            if key not in highest or score > highest[key][0]:
                highest[key] = (score, name, profile)
    order = sorted(highest, key=lambda key: -highest[key][0])
    for part in (order[:_NEEDED], order[_NEEDED:]):
        least = _least(found, findings)
        some = [key for key in part if highest[key][0] >= least]
        documents_named = [()] * len(some) if collection is None else collection.named(some)
        for key, ids in zip(some, documents_named, strict=True):
            score, name, profile = highest[key]
            if ids:
                score /= len(ids) ** 0.25
                if findings.documents.keys() >= set(ids):
                    score *= 0.5
            elif collection is not None:
                score *= 0.6
            score = round(score, 6)
            if key not in found or score > found[key].score:
                missing = tuple([term for term in question.terms if term not in profile.all_terms])
                found[key] = Bridge(key=key, name=name, source=profile.id, score=score, missing_terms=missing)


def _new_names(profile: DocumentProfile, blocked: str, collection: Collection | None) -> list[tuple[str, str]]:
    """Names that a document mentions, without its own and those in `blocked`."""
    mentioned = dict(profile.mentions)
    if profile.unspaced and collection is not None:
        for name, _, _ in unspaced_names(profile.text, collection):
            mentioned.setdefault(name_key(name), name)
    return [
        (key, name)
        for key, name in mentioned.items()
        if f" {key} " not in blocked
        and key not in profile.names
        and not (not key.isascii() and is_cjk(key) and key in blocked)
    ]
