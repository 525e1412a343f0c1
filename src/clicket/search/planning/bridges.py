"""Names that the documents found mention and nobody has asked for: where the next hop may lead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp
from typing import Any

import msgspec

from clicket.model.document import Document
from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.ranking.pages import Page, page_of, reduced
from clicket.search.ranking.sighting import Question, around, sight
from clicket.search.ranking.statistics import Statistics
from clicket.search.ranking.weights import SOFTNESS
from clicket.search.text.names import flattened, is_cjk, name_key, names
from clicket.search.text.terms import terms

__all__ = ["Bridge", "bridges", "question_names", "unspaced_names"]

_SOURCES = 8
"""Documents whose names are considered."""
_COMMON = 0.3
_LONGEST = 10
_MAX_UNSPACED = 12
_RUN = 400


_last: tuple[Any, Any, dict[str, Document], list[Bridge]] | None = None
"""Analyzer and planner ask the same, one after the other."""


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """`name` as it is written in `source`; `worth` is from 0 to about 1."""

    key: str
    name: str
    source: str
    worth: float
    left: tuple[str, ...]
    """Terms of the question that the source does not have."""


def question_names(question: str, collection: Collection | None) -> list[str]:
    """Names in the question, in order: those that documents bear, longest first, and those that look like names."""
    found: list[tuple[int, int, str]] = []
    if collection is not None:
        found = _borne(question, collection)
    for name, start, end in names(question):
        if not any(low < end and start < high for low, high, _ in found):
            found.append((start, end, name))
    return [name for _, _, name in sorted(found)]


def _borne(question: str, collection: Collection) -> list[tuple[int, int, str]]:
    """Stretches of the question that are names of documents."""
    words = _words(question)
    stretches = [
        (low, high)
        for size in range(min(_LONGEST, len(words)), 0, -1)
        for low in range(len(words) - size + 1)
        for high in (low + size,)
    ]
    keys = [name_key(question[words[low][0] : words[high - 1][1]]) for low, high in stretches]
    taken = [False] * len(words)
    found = []
    for (low, high), key, ids in zip(stretches, keys, collection.named(keys), strict=True):
        if not ids or any(taken[low:high]):
            continue
        start, end = words[low][0], words[high - 1][1]
        written = question[start:end]
        parts = terms(key)
        if not parts or (high - low == 1 and not is_cjk(written) and not written[:1].isupper()):
            continue
        taken[low:high] = [True] * (high - low)
        found.append((start, end, written))
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
    """Names of documents in text that is written without spaces, the longest at each place."""
    text = text[:_RUN]
    if not is_cjk(text):
        return []
    spots = [
        (text[start : start + size], start, start + size)
        for start in range(len(text))
        for size in range(min(_MAX_UNSPACED, len(text) - start), 1, -1)
        if is_cjk(text[start]) and is_cjk(text[start + size - 1])
    ]
    keys = [name_key(piece) for piece, _, _ in spots]
    taken = [False] * len(text)
    found = []
    known = collection.named(keys)
    for at in sorted(range(len(spots)), key=lambda one: (spots[one][1] - spots[one][2], spots[one][1])):
        piece, start, end = spots[at]
        if known[at] and not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            found.append((piece, start, end))
    return sorted(found, key=lambda one: one[1])


@lru_cache(maxsize=512)
def _mentioned(text: str) -> tuple[tuple[str, str, int], ...]:
    """Names in a text, each once: its key, as written, and where it begins."""
    found: dict[str, tuple[str, str, int]] = {}
    for name, start, _ in names(text):
        if len(name) > 80:
            continue
        key = reduced(f" {name_key(name)} ").strip()
        if len(key) > 2 or is_cjk(key):
            found.setdefault(key, (key, name, start))
    return tuple(found.values())


def bridges(dossier: Dossier, collection: Collection | None, statistics: Statistics) -> list[Bridge]:
    """Every name that could lead on, the best first. Those that were asked for, or are in the question, are not among them."""
    if not dossier.ranked:
        return []
    global _last
    key = (dossier.question, dossier.ranked, dossier.searched)
    if _last is not None and _last[0] == key and _last[1] is collection and _last[2] == dossier.documents:
        return _last[3]
    found = _bridges(dossier, collection, statistics)
    _last = (key, collection, dossier.documents, found)
    return found


def _bridges(dossier: Dossier, collection: Collection | None, statistics: Statistics) -> list[Bridge]:
    question = Question.of(dossier.question)
    asked = [reduced(f" {flattened(one)} ") for one in dossier.searched]
    best = dossier.ranked[0][1]
    found: dict[str, Bridge] = {}
    pages = [] if collection is not None else [page_of(one) for one in dossier.documents.values()]
    for one, score in dossier.ranked[:_SOURCES]:
        page = page_of(dossier.documents[one])
        strength = exp(SOFTNESS * (score - best))
        if any(question.has(name) for name in page.names[:1]):
            strength = max(strength, 0.8)
        for bridge in _from(page, strength, question, asked, dossier, pages, collection, statistics):
            before = found.get(bridge.key)
            if before is None or bridge.worth > before.worth:
                found[bridge.key] = bridge
    return sorted(found.values(), key=lambda one: (-one.worth, one.key))


def _from(
    page: Page,
    strength: float,
    question: Question,
    asked: Sequence[str],
    dossier: Dossier,
    pages: Sequence[Page],
    collection: Collection | None,
    statistics: Statistics,
) -> list[Bridge]:
    mentioned = [
        one
        for one in _mentioned(page.text)
        if one[0] not in page.names
        and not question.has(one[0])
        and not any(f" {one[0]} " in each or (is_cjk(one[0]) and one[0] in each) for each in asked)
    ]
    if page.unspaced and collection is not None:
        known_keys = {key for key, _, _ in mentioned}
        for name, start, _ in unspaced_names(page.text, collection):
            key = name_key(name)
            fresh = key not in known_keys and key not in page.names and not question.has(key)
            if fresh and not any(key in each for each in asked):
                mentioned.append((key, name, start))
    if not mentioned:
        return []
    parts = {key: tuple(dict.fromkeys(terms(key))) for key, _, _ in mentioned}
    statistics.learn([*question.terms, *(term for each in parts.values() for term in each)], pages)
    borne: Sequence[Sequence[str]] = [()] * len(mentioned)
    if collection is not None:
        borne = collection.named([key for key, _, _ in mentioned])
    weights = {term: statistics[term] for term in question.terms}
    total = sum(weights.values()) or 1.0
    seen = sight(page, weights, total)
    left = tuple(term for term in question.terms if term not in page.known)
    found = []
    for (key, name, _), ids in zip(mentioned, borne, strict=True):
        rarest = max((statistics[term] for term in parts[key]), default=0.0) / statistics.most
        if rarest < _COMMON:
            continue
        early, near = around(seen, parts[key], weights)
        worth = strength * (0.5 + 0.5 * rarest) * (1 + near / total + 0.3 * early) / 2
        if ids:
            worth /= len(ids) ** 0.25
            if all(one in dossier.documents for one in ids):
                worth *= 0.5
        elif collection is not None:
            worth *= 0.6
        found.append(Bridge(key=key, name=name, source=page.id, worth=round(worth, 6), left=left))
    return found
