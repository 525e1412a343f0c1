"""The documents found so far, without duplicates: the same id, address or text. Of two the first keeps its id."""

from __future__ import annotations

from collections.abc import Hashable
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from clicket.model.document import Document, Span

__all__ = ["DocumentPool", "canonical_url"]

_TRACKING = ("utm_", "fbclid", "gclid", "msclkid", "mc_cid", "mc_eid", "igshid", "ref_src")
_LONG = 200
"""Characters. Two documents with the same text of this length are one; shorter ones need the same title as well."""
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
    """Documents by id, in the order they were found. `near=False` does not merge equal addresses, nor texts that differ
    in blanks: in a collection, two files are two documents, and so are two parts of one page."""

    def __init__(self, *, near: bool = True, limit: int | None = None) -> None:
        self.documents: dict[str, Document] = {}
        self.refused = 0
        """Documents that were left out because the pool was full."""
        self._near = near
        self._limit = limit
        self._ids: dict[tuple[str, str], str] = {}
        self._urls: dict[str, str] = {}
        self._contents: dict[Hashable, str] = {}

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
        if key is None:
            key = self._take(document)
            if key is None:
                return None
        else:
            self._merge(key, document)
        self._ids[asked] = key
        if url:
            self._urls.setdefault(url, key)
        if content is not None:
            self._contents.setdefault(content, key)
        return key

    def _same_page(self, url: str, document: Document) -> str | None:
        """The id of the same page from another engine. One engine may return parts of a page as documents: those stay apart."""
        key = self._urls.get(url)
        return None if key is None or self.documents[key].source == document.source else key

    def _take(self, document: Document) -> str | None:
        if self._limit is not None and len(self.documents) >= self._limit:
            self.refused += 1
            return None
        key = document.id
        if key in self.documents:  # an unrelated document of another engine with the same id
            key = f"{document.source}:{document.id}"
            number = 2
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
            text = old.text
            spans = _union(old.spans, new.spans)
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
