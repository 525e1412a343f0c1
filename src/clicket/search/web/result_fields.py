"""Turns results of search services into documents. Missing, extra or mistyped fields are tolerated; a result without text and
title is skipped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from clicket.errors import UsageError, did_you_mean
from clicket.model.document import Document
from clicket.model.text.surrogates import clean
from clicket.search.engines.document_pool import canonical_url
from clicket.search.extract.html import plain_text
from clicket.search.web.json_path import JsonPath

__all__ = ["FIELDS", "Fields"]

FIELDS: Mapping[str, str] = {
    "id": "id",
    "title": "title|name",
    "url": "url|link|href",
    "text": "text|content|snippet|description|summary|body",
    "score": "score|relevance_score",
}
"""Where the fields of a result usually are."""

_MAX_ENTRIES = 1_000
_MAX_TEXT = 200_000
_MAX_TITLE = 1_000
_MAX_URL = 2_000


class Fields:
    """The paths of a result's fields. `html`: the texts are HTML, as services send them that highlight the query's words."""

    def __init__(self, given: Mapping[str, str] | None = None, *, html: bool = False) -> None:
        for name in given or ():
            if name not in FIELDS:
                known = ", ".join(FIELDS)
                raise UsageError(f"a result has no field {name!r}.{did_you_mean(name, FIELDS)} Known: {known}.")
        usual = FIELDS if given is None else {}
        self._paths = {name: JsonPath(written) for name, written in {**usual, **(given or {})}.items() if written}
        self._html = html

    def documents(self, entries: Sequence[Any], source: str, k: int) -> tuple[list[Document], int]:
        """The first `k` documents, without duplicates, and how many entries were skipped."""
        found: dict[str, Document] = {}
        skipped = 0
        for entry in islice(entries, _MAX_ENTRIES):
            if len(found) >= k:
                break
            document = self._document(entry, source)
            if document is None:
                skipped += 1
            else:
                found.setdefault(document.id, document)
        return list(found.values()), skipped

    def _document(self, entry: Any, source: str) -> Document | None:
        if not isinstance(entry, Mapping):
            return None
        parts = {name: path.find(entry) for name, path in self._paths.items()}
        title = self._text(parts.get("title"))[:_MAX_TITLE]
        text = self._text(parts.get("text"))[:_MAX_TEXT]
        if not title and not text:
            return None
        url = _url(parts.get("url"))
        id = _plain(parts.get("id"))[:_MAX_URL] if not url else canonical_url(url)
        if not id or len(id) > _MAX_URL:  # percent-encoding makes some URLs much longer
            id = f"{source}:{sha256((id or f'{title}{text}').encode()).hexdigest()[:24]}"
        return Document(
            id=id,
            title=title,
            text=text,
            url=url,
            source=source,
            score=_score(parts.get("score")),
        )

    def _text(self, value: Any) -> str:
        """Several texts, such as further snippets of a result, are joined by line breaks."""
        pieces = value if isinstance(value, list) else [value]
        texts = [_plain(piece) for piece in pieces[:50]]
        if self._html:
            texts = [plain_text(text) for text in texts]
        return "\n".join(dict.fromkeys(text for text in texts if text))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return clean(value).replace("\x00", "").strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return ""


def _url(value: Any) -> str:
    """An http or https URL, or an empty text: services also return `javascript:` and empty URLs."""
    text = _plain(value)
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return text if fits and len(text) <= _MAX_URL else ""


def _score(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return round(number, 6) if math.isfinite(number) else 0.0
