"""The question in the words of the documents: misspelt words are read as words of the index, and Chinese as English where the documents
are in the other language.

Only words that no document has are replaced. Every replacement is a note of the search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Protocol, TypeGuard

import msgspec

from clicket.errors import ClicketError
from clicket.model.text.terms import is_unspaced, terms
from clicket.search.protocols import Collection
from clicket.search.text.chinese_words import to_chinese, to_english
from clicket.search.text.names import is_cjk

__all__ = ["ReadQuestion", "Vocabulary", "read_question"]

_WORD = re.compile(r"[A-Za-z]{6,}")
"""A shorter word that no document has is rather another word than a misspelt one."""
_MIN_TERM = 5
"""Letters of a term that is corrected."""
_MIN_RATIO = 0.77
"""The share of letters that two terms must have in common, in order: one of five may be wrong, two of nine."""
_COMMON, _COMMON_NAME = 0.003, 0.05
"""The share of the passages that must have the word which is meant; and if it is a name, because a name has neighbours that are names."""
_MIN_COUNT = 2
_MIN_KNOWN = 0.5
"""The share of a question's terms that the documents have; with fewer they are in another language."""
_CHINESE = "的"
"""Nearly every Chinese text has this character."""
_MAX_READ = 2_000


class Vocabulary(Protocol):
    """A collection that can look up its terms."""

    def similar_terms(self, term: str, min_count: int) -> Sequence[tuple[str, int]]:
        """Terms of about the same length that begin like this one, each with the number of passages that contain it."""
        ...


class ReadQuestion(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    notes: tuple[str, ...] = ()


def read_question(question: str, collection: Collection | None) -> ReadQuestion:
    """The question as it is searched for; as it is given if the collection cannot be asked."""
    if collection is None or len(question) > _MAX_READ:
        return ReadQuestion(text=question)
    try:
        return _read(question, collection)
    except ClicketError:  # the search itself reports it
        return ReadQuestion(text=question)


def _read(question: str, collection: Collection) -> ReadQuestion:
    wanted = list(dict.fromkeys(terms(question)))
    counts = dict(zip(wanted, collection.frequencies(wanted), strict=True))
    translated = _translated(question, counts, collection)
    if translated is not None:
        return translated
    if not all(counts.values()) and _has_vocabulary(collection):
        return _respelled(question, counts, collection, collection.size())
    return ReadQuestion(text=question)


def _translated(question: str, counts: dict[str, int], collection: Collection) -> ReadQuestion | None:
    """The question in the other language; None if its own words are in the documents."""
    own = [term for term in counts if is_unspaced(term) == is_cjk(question)]
    if not own or sum(counts[term] > 0 for term in own) >= _MIN_KNOWN * len(own):
        return None
    if is_cjk(question):
        text = to_english(question, lambda word: any(collection.frequencies(terms(word))))
        if sum(map(bool, collection.frequencies(terms(text)))) == 0:
            return None
        return ReadQuestion(text=text, notes=(f"The question was read as “{text}”.",))
    if not any(collection.frequencies([_CHINESE])):
        return None
    words = [word for term in own for word in to_chinese(term)]
    if not words:
        return None
    return ReadQuestion(text=f"{question} {' '.join(words)}", notes=(f"These words were added: {'、'.join(words)}.",))


def _respelled(question: str, counts: dict[str, int], vocabulary: Vocabulary, size: int) -> ReadQuestion:
    notes: list[str] = []

    def replace(found: re.Match[str]) -> str:
        word = found[0]
        own = terms(word)
        if len(own) != 1 or counts.get(own[0], 1) or not own[0].isascii():
            return word
        is_name = word[0].isupper() and found.start() > 0
        least = max(_MIN_COUNT, int(size * (_COMMON_NAME if is_name else _COMMON)))
        meant = _meant(own[0], least, vocabulary) if len(own[0]) >= _MIN_TERM else ""
        if not meant:
            return word
        notes.append(f"No document has “{word}”; it was read as “{meant}”.")
        return meant.capitalize() if word[0].isupper() else meant

    return ReadQuestion(text=_WORD.sub(replace, question), notes=tuple(notes))


def _meant(term: str, least: int, vocabulary: Vocabulary) -> str:
    matcher = SequenceMatcher(b=term, autojunk=False)
    near: list[tuple[float, int, str]] = []
    for other, count in vocabulary.similar_terms(term, least):
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() >= _MIN_RATIO and matcher.quick_ratio() >= _MIN_RATIO:
            near.append((matcher.ratio(), count, other))
    best = max(near, default=(0.0, 0, ""))
    return best[2] if best[0] >= _MIN_RATIO else ""


def _has_vocabulary(collection: Any) -> TypeGuard[Any]:
    return callable(getattr(collection, "similar_terms", None))
