"""A document as ranker and planner see it: its words, the names that it bears, and those that it mentions.

What is read of a text depends on its title and itself alone. So an index works it out once, when the document is added, and
hands it over with the document; `stored` takes it, and `page_of` need not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from clicket.model.document import Document
from clicket.search.text.names import flattened, is_cjk, name_key, names, own_names
from clicket.search.text.terms import terms

__all__ = ["LEAD", "Page", "name_terms", "packed", "page_of", "reduced", "stored"]

_EDITION = 2
"""Raised with every change of what is packed, or of how names and terms are read: what others packed is read again."""

_MAX_TEXT = 8_000
"""Characters of a document that are read: the passages that were found, or its beginning."""
_MAX_KEPT = 1_024
_MAX_NAMES = 8
_MAX_CALLED = 3
_MAX_NAME = 80
LEAD = 400
"""Characters in which a document says what it is called."""
_MAX_STORED = 8_192
_LITTLE = frozenset([*"abcdefghijklmnopqrstuvwxyz", "jr", "sr"])


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    text: str
    """What was read of it."""
    names: tuple[str, ...]
    """Keys, the surest first."""
    called: tuple[str, ...]
    """The surest of them, with initials and "Jr."."""
    name_terms: tuple[str, ...]
    """Terms of the first of them."""
    terms: tuple[str, ...]
    """Of the text, in order."""
    title_terms: tuple[str, ...]
    known: frozenset[str]
    """All terms, those of the title too."""
    unspaced: bool

    folded: str | None
    """`flat`, if it is known."""

    @property
    def flat(self) -> str:
        """The text as names are compared, a blank at both ends."""
        return _flat(self.text) if self.folded is None else self.folded

    @property
    def words(self) -> frozenset[str]:
        """The words of `flat`."""
        return _words(self.flat)

    @property
    def mentioned(self) -> tuple[tuple[str, str], ...]:
        """Names in the text, each once: its key, and as written."""
        return _mentioned(self.text)


class _Packed(msgspec.Struct, array_like=True, frozen=True):
    edition: int
    terms: str
    title_terms: str
    names: tuple[str, ...]
    folded: str
    called: tuple[str, ...] = ()


_stored: dict[tuple[str, str], bytes] = {}
_unpacked = msgspec.msgpack.Decoder(_Packed).decode


@lru_cache(maxsize=_MAX_KEPT)
def _flat(text: str) -> str:
    return reduced(f" {flattened(text)} ")


@lru_cache(maxsize=_MAX_KEPT)
def _words(flat: str) -> frozenset[str]:
    return frozenset(flat.split(" "))


@lru_cache(maxsize=_MAX_KEPT)
def _mentioned(text: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for name, _, _ in names(text):
        if len(name) <= _MAX_NAME:
            key = reduced(f" {name_key(name)} ").strip()
            if len(key) > 2 or is_cjk(key):
                found.setdefault(key, name)
    return tuple(found.items())


def reduced(flat: str) -> str:
    """Without initials and "Jr.": "john f kennedy" and "john kennedy" are one. A blank is at both ends."""
    words = flat.split(" ")
    return flat if _LITTLE.isdisjoint(words) else " ".join([word for word in words if word not in _LITTLE])


@lru_cache(maxsize=16_384)
def name_terms(name: str) -> tuple[str, ...]:
    """The terms of a name, each once."""
    return tuple(dict.fromkeys(terms(name)))


def page_of(document: Document) -> Page:
    """The page of a document; the last thousand or so are remembered, and nothing of them but what was read."""
    whole = document.text
    if len(whole) <= _MAX_TEXT:
        return _read(document.id, document.title, whole, "")
    parts = "\n".join(whole[start:end] for start, end in document.spans) if document.spans else whole
    return _read(document.id, document.title, parts[:_MAX_TEXT], whole[:LEAD])


def packed(title: str, text: str, called: Sequence[str], found: list[str]) -> bytes:
    """What there is to know of a text, for an index to keep, given its own names and its terms. Nothing for texts of which
    only parts are read, and for those that cannot be written."""
    if len(text) > _MAX_TEXT:
        return b""
    one = _Packed(
        edition=_EDITION,
        terms=" ".join(found),
        title_terms=" ".join(terms(title)),
        names=_distinct(called),
        called=tuple(called[:_MAX_CALLED]),
        folded=reduced(f" {flattened(text)} "),
    )
    try:
        return msgspec.msgpack.encode(one)
    except UnicodeEncodeError:  # half a character
        return b""


def stored(document: Document, known: bytes) -> None:
    """Take over what an index has kept of a document."""
    if known:
        if len(_stored) > _MAX_STORED:
            _stored.clear()
        _stored[document.title, document.text] = known


@lru_cache(maxsize=_MAX_KEPT)
def _read(one: str, title: str, text: str, lead: str) -> Page:
    kept = None if lead else _kept(title, text)
    if kept is not None:
        return _page(one, text, kept.names, kept.called, kept.terms.split(), kept.title_terms.split(), kept.folded)
    called = own_names(title, lead or text[:LEAD])
    return _page(one, text, _distinct(called), called[:_MAX_CALLED], terms(text), terms(title), None)


def _kept(title: str, text: str) -> _Packed | None:
    known = _stored.get((title, text))
    if known is None:
        return None
    try:
        kept = _unpacked(known)
    except msgspec.MsgspecError:  # of another edition, or damaged: it is read again
        return None
    return kept if kept.edition == _EDITION else None


def _distinct(called: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([reduced(f" {name} ").strip() for name in called]))[:_MAX_NAMES]


def _page(
    one: str,
    text: str,
    names: tuple[str, ...],
    called: tuple[str, ...],
    found: list[str],
    titled: list[str],
    folded: str | None,
) -> Page:
    return Page(
        id=one,
        text=text,
        names=names,
        called=called,
        name_terms=name_terms(names[0]) if names else (),
        terms=tuple(found),
        title_terms=tuple(titled),
        known=frozenset(found).union(titled),
        unspaced=is_cjk(text),
        folded=folded,
    )
