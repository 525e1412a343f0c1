"""The documents found so far, without duplicates: the same id or address, the same text, or nearly the same text.

Of two duplicates the first keeps its id. Nothing here depends on the order of a set: sets are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from clicket.model.document import Document, Span

__all__ = ["DocumentPool", "canonical_url"]

_TRACKING = ("utm_", "fbclid", "gclid", "msclkid", "mc_cid", "mc_eid", "igshid", "ref_src")
_LONG = 200
"""Characters. Two documents with the same text of this length are one; shorter ones need the same title as well."""
_SAMPLE = 20_000
"""Characters of a text that are compared for similarity."""
_WORDS, _CHARACTERS = 4, 8
"""The length of a shingle: in words, or in characters of text without spaces."""
_MIN_SHINGLES = 40
"""Texts with fewer shingles are not compared for similarity."""
_MIN_JACCARD = 0.9
"""The share of all shingles of two texts that both must have."""
_MIN_CONTAINED = 0.8
"""The share of the words of a text that a longer one must have to contain it."""
_WORD = re.compile(r"\w+")
_PORTS = {"http": "80", "https": "443"}
_FILE = "file:"
"""One file can hold many documents, as JSON Lines do. Its address does not identify one."""


def canonical_url(url: str) -> str:
    """The address without scheme, `www.`, fragment and tracking parameters: to compare pages by, not to open them."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url.strip()
    if not parts.netloc:
        return url.strip()
    host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    if port is not None and _PORTS.get(parts.scheme) != str(port):
        host = f"{host}:{port}"
    scheme = "" if parts.scheme in _PORTS else f"{parts.scheme}:"
    query = sorted(
        (key, value)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
        if not key.lower().startswith(_TRACKING)
    )
    return f"{scheme}//{host}{parts.path.rstrip('/')}{'?' + urlencode(query) if query else ''}"


class DocumentPool:
    """Documents by id, in the order they were found. `near=False` merges neither similar texts nor equal addresses: in a
    collection, two files are two documents, and so are two parts of one page."""

    def __init__(self, *, near: bool = True, limit: int | None = None) -> None:
        self.documents: dict[str, Document] = {}
        self.refused = 0
        """Documents that were left out because the pool was full."""
        self._near = near
        self._limit = limit
        self._ids: dict[tuple[str, str], str] = {}
        self._urls: dict[str, str] = {}
        self._contents: dict[Hashable, str] = {}
        self._similar = _SimilarTexts()

    def add(self, document: Document) -> str | None:
        """Add a document. Returns its id in the pool, which may be that of a duplicate; None when the pool is full."""
        asked = (document.id, document.source)
        key = self._ids.get(asked)
        if key is not None:
            self._merge(key, document)
            return key
        near = self._near
        url = canonical_url(document.url) if near and not document.url.startswith(_FILE) else ""
        content = _content(document, near)
        key = self._same_page(url, document) if url else None
        if key is None and content is not None:
            key = self._contents.get(content)
        shingles = _shingles(document.text) if key is None and near else None
        if key is None and shingles:
            key = self._similar.find(shingles)
        if key is None:
            key = self._take(document)
            if key is None:
                return None
            if shingles:
                self._similar.add(key, shingles)
        else:
            self._merge(key, document)
        self._ids[asked] = key
        if url:
            self._urls.setdefault(url, key)
        if content is not None:
            self._contents.setdefault(content, key)
        return key

    def _same_page(self, url: str, document: Document) -> str | None:
        """The id of the same page. One engine may return parts of a page as documents of their own: those stay apart."""
        key = self._urls.get(url)
        if key is None or self.documents[key].source != document.source:
            return key
        return key if _is_contained(self.documents[key].text, document.text) else None

    def _take(self, document: Document) -> str | None:
        if self._limit is not None and len(self.documents) >= self._limit:
            self.refused += 1
            return None
        key = document.id
        if key in self.documents:  # an unrelated document of another engine with the same id
            key, number = f"{document.source}:{document.id}", 2
            while key in self.documents:
                key, number = f"{document.source}:{document.id}:{number}", number + 1
            document = msgspec.structs.replace(document, id=key)
        self.documents[key] = document
        return key

    def _merge(self, key: str, new: Document) -> None:
        """Keep the longer text: an engine may return a part of a page first, and the whole page later."""
        old = self.documents[key]
        is_same = old.text == new.text
        if is_same and old.spans == new.spans and (old.title or not new.title) and (old.url or not new.url):
            return
        if is_same:
            text, spans = old.text, _union(old.spans, new.spans)
        elif len(old.text) >= len(new.text):
            text, spans = old.text, old.spans
        else:
            text, spans = new.text, new.spans
        title, url = old.title or new.title, old.url or new.url
        if text is not old.text or spans != old.spans or title is not old.title or url is not old.url:
            self.documents[key] = msgspec.structs.replace(old, text=text, spans=spans, title=title, url=url)


def _union(one: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
    """Both, the earlier found first. No spans mean the whole text, so the union with them is the whole text."""
    if one == other or not one:
        return one
    return tuple(dict.fromkeys((*one, *other))) if other else ()


def _content(document: Document, loose: bool) -> Hashable:
    """The key of an equal text. `loose` ignores white space, which differs between copies of a web page."""
    words = " ".join(document.text.split()) if loose else document.text
    if len(words) >= _LONG:
        return words
    return None if not words else (document.title.strip().casefold(), words)


def _is_contained(one: str, other: str) -> bool:
    """Are nearly all words of the shorter text in the longer one?"""
    few, many = sorted((_words(one), _words(other)), key=len)
    return len(few & many) >= _MIN_CONTAINED * len(few)


def _words(text: str) -> frozenset[str]:
    """The words of a text; of text without spaces, the characters."""
    text = text[:_SAMPLE].casefold()
    words = _WORD.findall(text)
    return frozenset(words if len(words) * 20 > len(text) else text)


_Shingles = frozenset[Hashable]


def _shingles(text: str) -> _Shingles | None:
    text = text[:_SAMPLE].casefold()
    words = text.split()
    found: _Shingles
    if len(words) * 20 > len(text):
        found = frozenset(zip(*(words[at:] for at in range(_WORDS)), strict=False))
    else:
        whole = "".join(words)
        found = frozenset(whole[at : at + _CHARACTERS] for at in range(len(whole) - _CHARACTERS + 1))
    return found if len(found) >= _MIN_SHINGLES else None


class _SimilarTexts:
    """Similar texts nearly always share their first or their last shingle in sorted order. Only texts that do are compared."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, list[tuple[str, _Shingles]]] = {}

    def find(self, shingles: _Shingles) -> str | None:
        for bucket in _bucket_keys(shingles):
            for key, others in self._buckets.get(bucket, ()):
                both = len(shingles & others)
                if both >= _MIN_JACCARD * (len(shingles) + len(others) - both):
                    return key
        return None

    def add(self, key: str, shingles: _Shingles) -> None:
        for bucket in _bucket_keys(shingles):
            self._buckets.setdefault(bucket, []).append((key, shingles))


def _bucket_keys(shingles: _Shingles) -> tuple[Hashable, Hashable]:
    return min(shingles), max(shingles)  # type: ignore[type-var]  # all are strings, or all tuples of strings
