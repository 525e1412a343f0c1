"""A document as ranker and planner see it: its terms, its own names, and the names that it mentions.

A profile depends only on the title and the text. So the index computes it once, when a document is added, and returns it packed
with the document; `remember_packed` takes it, and `profile_of` need not read the text again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import filterfalse

import msgspec

from clicket.model.document import Document
from clicket.model.text.terms import terms, terms_of_each
from clicket.search.text.names import flattened, is_cjk, key_lines, names, own_names

__all__ = [
    "LEAD",
    "DocumentProfile",
    "name_terms",
    "pack_profile",
    "profile_of",
    "remember_packed",
    "terms_of_names",
    "without_initials",
]

_FORMAT = 2
"""Of packed profiles. Raise it with every change of their fields, or of how names and terms are found: profiles of another
format are computed again."""

_MAX_TEXT = 8_000
"""Characters of a document that are read: of a longer one the passages that were found, or its beginning."""
_MAX_CACHED = 1_024
_MAX_NAMES = 8
_MAX_FULL_NAMES = 3
_MAX_NAME = 80
LEAD = 400
"""Characters at the start of a document in which its own names are looked for."""
_MAX_STORED = 8_192
_MAX_NAME_TERMS = 16_384
_INITIALS = frozenset([*"abcdefghijklmnopqrstuvwxyz", "jr", "sr"])


class DocumentProfile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    text: str
    """The part of the text that was read."""
    names: tuple[str, ...]
    """Keys of its own names, the surest first."""
    full_names: tuple[str, ...]
    """The surest of them, with initials and "Jr."."""
    full_name_terms: tuple[tuple[str, ...], ...]
    """Terms of each of them."""
    terms: tuple[str, ...]
    """Of the text, in order."""
    title_terms: tuple[str, ...]
    all_terms: Mapping[str, int]
    """Terms of title and text, each with its first place among `terms`; -1 if it is in the title only."""
    unspaced: bool
    """Is it in a script without spaces between words?"""
    folded: str | None
    """`flat`, if it was packed."""

    @property
    def flat(self) -> str:
        """The text in the form in which names are compared, with a blank at both ends."""
        return _flat(self.text) if self.folded is None else self.folded

    @property
    def mentions(self) -> tuple[tuple[str, str], ...]:
        """Names in the text, each once: its key, and how it is written."""
        return _mentions(self.text)


class _Packed(msgspec.Struct, array_like=True, frozen=True):
    format: int
    terms: str
    title_terms: str
    names: tuple[str, ...]
    folded: str
    full_names: tuple[str, ...] = ()
    name_terms: tuple[str, ...] = ()
    """Terms of each of `full_names`; none in an index that was made before they were stored."""


_stored: dict[tuple[str, str], bytes] = {}
_name_terms: dict[str, tuple[str, ...]] = {}
_unpacked = msgspec.msgpack.Decoder(_Packed).decode


@lru_cache(maxsize=_MAX_CACHED)
def _flat(text: str) -> str:
    return without_initials(f" {flattened(text)} ")


@lru_cache(maxsize=_MAX_CACHED)
def _mentions(text: str) -> tuple[tuple[str, str], ...]:
    named = [name for name, _, _ in names(text) if len(name) <= _MAX_NAME]
    found: dict[str, str] = {}
    for name, flat in zip(named, without_initials(key_lines(named)).split("|"), strict=bool(named)):
        key = flat.strip()
        if len(key) > 2 or is_cjk(key):
            found.setdefault(key, name)
    return tuple(found.items())


def without_initials(flat: str) -> str:
    """The text without initials and "Jr.": "john f kennedy" becomes "john kennedy". It has a blank at both ends."""
    words = flat.split(" ")
    return flat if _INITIALS.isdisjoint(words) else " ".join(filterfalse(_INITIALS.__contains__, words))


def name_terms(name: str) -> tuple[str, ...]:
    """The terms of a name, each once."""
    found = _name_terms.get(name)
    return terms_of_names((name,))[name] if found is None else found


def terms_of_names(names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The terms of each name, and of others."""
    new = [name for name in names if name not in _name_terms]
    if new:
        if len(_name_terms) > _MAX_NAME_TERMS:
            _name_terms.clear()
            new = list(names)
        for name, found in zip(new, terms_of_each(new), strict=True):
            _name_terms[name] = tuple(dict.fromkeys(found))
    return _name_terms


def profile_of(document: Document) -> DocumentProfile:
    """The profile of a document. The last 1,024 are cached."""
    whole = document.text
    if len(whole) <= _MAX_TEXT:
        return _read(document.id, document.title, whole, "")
    parts = "\n".join(whole[start:end] for start, end in document.spans) if document.spans else whole
    return _read(document.id, document.title, parts[:_MAX_TEXT], whole[:LEAD])


def pack_profile(title: str, text: str, full_names: Sequence[str], found: list[str]) -> bytes:
    """A profile as bytes, for the index to store, from the document's own names and terms. Empty if the text is too long to be read
    whole, or cannot be encoded."""
    if len(text) > _MAX_TEXT:
        return b""
    one = _Packed(
        format=_FORMAT,
        terms=" ".join(found),
        title_terms=" ".join(terms(title)),
        names=_distinct(full_names),
        full_names=tuple(full_names[:_MAX_FULL_NAMES]),
        name_terms=tuple([" ".join(name_terms(name)) for name in full_names[:_MAX_FULL_NAMES]]),
        folded=without_initials(f" {flattened(text)} "),
    )
    try:
        return msgspec.msgpack.encode(one)
    except UnicodeEncodeError:  # a lone surrogate
        return b""


def remember_packed(document: Document, data: bytes) -> None:
    """Use the packed profile that the index stored with a document."""
    if data:
        if len(_stored) > _MAX_STORED:
            _stored.clear()
        _stored[document.title, document.text] = data


@lru_cache(maxsize=_MAX_CACHED)
def _read(id: str, title: str, text: str, lead: str) -> DocumentProfile:
    packed = None if lead else _unpacked_profile(title, text)
    if packed is None:
        full_names = own_names(title, lead or text[:LEAD])
        names, full_names, folded = _distinct(full_names), full_names[:_MAX_FULL_NAMES], None
        text_terms = terms(text)
        title_terms = terms(title)
        ascii_only = False
    else:
        names, full_names, folded = packed.names, packed.full_names, packed.folded
        text_terms = packed.terms.split()
        title_terms = packed.title_terms.split()
        ascii_only = packed.terms.isascii() and folded.isascii()  # no search for characters of other scripts
    full_name_terms: list[tuple[str, ...]] = []
    if packed is not None and len(packed.name_terms) == len(full_names):
        for name, found in zip(full_names, packed.name_terms):  # noqa: B905 - `strict` doubles the time
            _name_terms[name] = parts = tuple(found.split())
            full_name_terms.append(parts)
    else:
        full_name_terms += [name_terms(name) for name in full_names]
    all_terms = dict(zip(reversed(text_terms), range(len(text_terms) - 1, -1, -1)))  # noqa: B905 - the same
    for term in title_terms:
        all_terms.setdefault(term, -1)
    return DocumentProfile(
        id=id,
        text=text,
        names=names,
        full_names=full_names,
        full_name_terms=tuple(full_name_terms),
        terms=tuple(text_terms),
        title_terms=tuple(title_terms),
        all_terms=all_terms,
        unspaced=not ascii_only and is_cjk(text),
        folded=folded,
    )


def _unpacked_profile(title: str, text: str) -> _Packed | None:
    data = _stored.get((title, text))
    if data is None:
        return None
    try:
        packed = _unpacked(data)
    except msgspec.MsgspecError:  # another format, or damaged
        return None
    return packed if packed.format == _FORMAT else None


def _distinct(full_names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([without_initials(f" {name} ").strip() for name in full_names]))[:_MAX_NAMES]
