"""A document as ranker and planner see it: its words and the names that it bears. Worked out once for each."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from clicket.model.document import Document, Span
from clicket.search.text.names import flattened, is_cjk, own_names
from clicket.search.text.terms import terms

__all__ = ["Page", "name_terms", "page_of", "reduced"]

_MAX_TEXT = 8_000
"""Characters of a document that are read: the passages that were found, or its beginning."""
_MAX_KEPT = 1_024
_MAX_NAMES = 8
_LITTLE = frozenset([*"abcdefghijklmnopqrstuvwxyz", "jr", "sr"])


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    text: str
    """What was read of it."""
    names: tuple[str, ...]
    """Keys, the surest first."""
    name_terms: tuple[str, ...]
    """Terms of the first of them."""
    terms: tuple[str, ...]
    """Of the text, in order."""
    title_terms: tuple[str, ...]
    known: frozenset[str]
    """All terms, those of the title too."""
    unspaced: bool

    @property
    def flat(self) -> str:
        """The text as names are compared, a blank at both ends."""
        return _flat(self.text)[0]

    @property
    def words(self) -> frozenset[str]:
        """The words of `flat`."""
        return _flat(self.text)[1]


@lru_cache(maxsize=_MAX_KEPT)
def _flat(text: str) -> tuple[str, frozenset[str]]:
    flat = reduced(f" {flattened(text)} ")
    return flat, frozenset(flat.split(" "))


def reduced(flat: str) -> str:
    """Without initials and "Jr.": "john f kennedy" and "john kennedy" are one. A blank is at both ends."""
    words = flat.split(" ")
    return flat if _LITTLE.isdisjoint(words) else " ".join([word for word in words if word not in _LITTLE])


@lru_cache(maxsize=16_384)
def name_terms(name: str) -> tuple[str, ...]:
    """The terms of a name, each once."""
    return tuple(dict.fromkeys(terms(name)))


def page_of(document: Document) -> Page:
    """The page of a document; the last thousand or so are remembered."""
    return _read(document.id, document.title, document.text, document.spans)


@lru_cache(maxsize=_MAX_KEPT)
def _read(one: str, title: str, whole: str, spans: tuple[Span, ...]) -> Page:
    text = whole
    if len(text) > _MAX_TEXT:
        text = "\n".join(text[start:end] for start, end in spans)[:_MAX_TEXT] if spans else text[:_MAX_TEXT]
    found, titled = tuple(terms(text)), tuple(terms(title))
    names = tuple(dict.fromkeys(reduced(f" {name} ").strip() for name in own_names(title, whole[:400])))[:_MAX_NAMES]
    return Page(
        id=one,
        text=text,
        names=names,
        name_terms=name_terms(names[0]) if names else (),
        terms=found,
        title_terms=titled,
        known=frozenset(found).union(titled),
        unspaced=is_cjk(text),
    )
