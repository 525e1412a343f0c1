"""Names that the documents found mention and nobody has asked for: where the next hop may lead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp
from typing import Any

import msgspec

from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.ranking.pages import Page, name_terms, page_of, reduced
from clicket.search.ranking.sighting import Question, around, spots_of
from clicket.search.ranking.statistics import Statistics
from clicket.search.ranking.weights import SOFTNESS
from clicket.search.text.names import flattened, is_cjk, joined_key, name_key, names
from clicket.search.text.terms import terms

__all__ = ["Bridge", "bridges", "question_names", "unspaced_names"]

_SOURCES = 5
"""Documents whose names are considered."""
_COMMON = 0.3
_LONGEST = 10
_MAX_UNSPACED = 12
_RUN = 400


_last: tuple[Any, Any, int, list[Bridge]] | None = None
"""Analyzer and planner ask the same, one after the other: about the very same ranking. No document is held."""


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """`name` as it is written in `source`; `worth` is from 0 to about 1."""

    key: str
    name: str
    source: str
    worth: float
    left: tuple[str, ...]
    """Terms of the question that the source does not have."""


@lru_cache(maxsize=64)
def _stretches(question: str) -> tuple[tuple[int, int, str, int], ...]:
    """Every run of words of a question that says something: from, to, its key, and how many words."""
    words = _words(question)
    runs = [
        (low, low + size) for size in range(min(_LONGEST, len(words)), 0, -1) for low in range(len(words) - size + 1)
    ]
    if not question.isascii() or any("'" in question[start - 1 : start] for start, _ in words):
        keys = [name_key(question[words[low][0] : words[high - 1][1]]) for low, high in runs]
        says = [bool(name_terms(key)) for key in keys]
    else:  # the key of several words is made of those of each
        flat = [flattened(question[start:end]).split() for start, end in words]
        telling = [bool(terms(" ".join(one))) for one in flat]
        keys = [joined_key([word for one in flat[low:high] for word in one]) for low, high in runs]
        says = [any(telling[low:high]) for low, high in runs]
    return tuple(
        (words[low][0], words[high - 1][1], key, high - low)
        for (low, high), key, tells in zip(runs, keys, says, strict=True)
        if tells
    )


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
    found: list[tuple[int, int, str]] = []
    stretches = _stretches(question)
    for (start, end, _, size), ids in zip(stretches, collection.named([one[2] for one in stretches]), strict=True):
        if not ids or any(low < end and start < high for low, high, _ in found):
            continue
        written = question[start:end]
        if size > 1 or written[:1].isupper():
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
    unspaced = [is_cjk(one) for one in text]
    spots = [
        (text[start : start + size], start, start + size)
        for start in range(len(text))
        if unspaced[start]
        for size in range(min(_MAX_UNSPACED, len(text) - start), 1, -1)
        if unspaced[start + size - 1]
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


def bridges(dossier: Dossier, collection: Collection | None, statistics: Statistics) -> list[Bridge]:
    """Every name that could lead on, the best first. Those that were asked for, or are in the question, are not among them."""
    if not dossier.ranked:
        return []
    global _last
    last = _last
    if last is not None and last[0] is dossier.ranked and last[1] == dossier.searched and last[2] == id(collection):
        return last[3]
    found = _bridges(dossier, collection, statistics)
    _last = (dossier.ranked, dossier.searched, id(collection), found)
    return found


def _bridges(dossier: Dossier, collection: Collection | None, statistics: Statistics) -> list[Bridge]:
    question = Question.of(dossier.question)
    best = dossier.ranked[0][1]
    sources = [(page_of(dossier.documents[one]), score) for one, score in dossier.ranked[:_SOURCES]]
    blocked = "|".join([question.flat, *(reduced(f" {flattened(one)} ") for one in dossier.searched)])
    mentions = [_new_names(page, blocked, collection) for page, _ in sources]
    keys = list(dict.fromkeys(key for each in mentions for key, _ in each))
    pages = [] if collection is not None else [page_of(one) for one in dossier.documents.values()]
    statistics.learn([*question.terms, *(term for key in keys for term in name_terms(key))], pages)
    borne: dict[str, Sequence[str]] = {}
    if collection is not None:
        borne = dict(zip(keys, collection.named(keys), strict=True))
    weights = {term: statistics[term] for term in question.terms}
    total = sum(weights.values()) or 1.0
    known, most = statistics.known, statistics.most
    found: dict[str, Bridge] = {}
    for (page, score), each in zip(sources, mentions, strict=True):
        strength = exp(SOFTNESS * (score - best))
        if any(question.has(name) for name in page.names[:1]):
            strength = max(strength, 0.8)
        spots = spots_of(page, weights)
        left = tuple(term for term in question.terms if term not in page.known)
        for key, name in each:
            parts = name_terms(key)
            rarest = max([known.get(term, most) for term in parts], default=0.0) / most
            if rarest < _COMMON:
                continue
            early, near = around(page, spots, parts, weights)
            worth = strength * (0.5 + 0.5 * rarest) * (1 + near / total + 0.3 * early) / 2
            ids = borne.get(key, ())
            if ids:
                worth /= len(ids) ** 0.25
                if all(one in dossier.documents for one in ids):
                    worth *= 0.5
            elif collection is not None:
                worth *= 0.6
            worth = round(worth, 6)
            before = found.get(key)
            if before is None or worth > before.worth:
                found[key] = Bridge(key=key, name=name, source=page.id, worth=worth, left=left)
    return sorted(found.values(), key=lambda one: (-one.worth, one.key))


def _new_names(page: Page, blocked: str, collection: Collection | None) -> list[tuple[str, str]]:
    """Names that a page mentions, that are not its own, and that nobody has asked for."""
    mentioned = dict(page.mentioned)
    if page.unspaced and collection is not None:
        for name, _, _ in unspaced_names(page.text, collection):
            mentioned.setdefault(name_key(name), name)
    return [
        (key, name)
        for key, name in mentioned.items()
        if f" {key} " not in blocked
        and key not in page.names
        and not (not key.isascii() and is_cjk(key) and key in blocked)
    ]
