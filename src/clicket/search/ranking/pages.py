"""A document as ranker and planner see it: its words, its sentences, and the names that it bears. Worked out once for each."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from clicket.model.document import Document, Span
from clicket.search.text.names import flattened, is_cjk, own_names
from clicket.search.text.terms import terms

__all__ = ["Page", "page_of", "reduced"]

_MAX_TEXT = 8_000
"""Characters of a document that are read: the passages that were found, or its beginning."""
_MAX_KEPT = 1_024
_MAX_NAMES = 8
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(“])|(?<=[。！？])|\n+")
_SINGLE = re.compile(r"(?<= )(?:[a-z] |jr |sr )")
_TITLE_WEIGHT = 2


class Page(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    text: str
    """What was read of it."""
    names: tuple[str, ...]
    """Keys, the surest first."""
    flat: str
    """The text as names are compared, a blank at both ends."""
    words: frozenset[str]
    """The words of `flat`."""
    counts: dict[str, int]
    """How often each term occurs; those of the title count more."""
    length: int
    sentences: tuple[frozenset[str], ...]
    unspaced: bool


def reduced(flat: str) -> str:
    """Without initials and "Jr.": "john f kennedy" and "john kennedy" are one."""
    return _SINGLE.sub("", flat)


@lru_cache(maxsize=_MAX_KEPT)
def _read(one: str, title: str, whole: str, spans: tuple[Span, ...]) -> Page:
    text = whole
    if spans and len(text) > _MAX_TEXT:
        text = "\n".join(text[start:end] for start, end in spans)
    text = text[:_MAX_TEXT]
    sentences: list[frozenset[str]] = []
    counts: dict[str, int] = {}
    length = 0
    for part in _SENTENCE.split(text):
        found = terms(part)
        if found:
            sentences.append(frozenset(found))
            length += len(found)
            for term in found:
                counts[term] = counts.get(term, 0) + 1
    for term in terms(title):
        counts[term] = counts.get(term, 0) + _TITLE_WEIGHT
        length += _TITLE_WEIGHT
    flat = reduced(f" {flattened(text)} ")
    names = tuple(dict.fromkeys(reduced(f" {name} ").strip() for name in own_names(title, whole[:600])))
    return Page(
        id=one,
        text=text,
        names=names[:_MAX_NAMES],
        flat=flat,
        words=frozenset(flat.split()),
        counts=counts,
        length=length,
        sentences=tuple(sentences),
        unspaced=is_cjk(text),
    )


def page_of(document: Document) -> Page:
    """The page of a document; the last thousand or so are remembered."""
    return _read(document.id, document.title, document.text, document.spans)
