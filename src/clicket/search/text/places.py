"""Where in a file something stands. Texts of files with pages have a form feed at the end of each, and their first page in the URL."""

from __future__ import annotations

from clicket.model.document import Document

__all__ = ["page_at", "url_at"]

_MARK = "#page="


def page_at(document: Document, start: int) -> int | None:
    """The page on which a place of the text is, counted from 1; None when the document has no pages."""
    _, found, first = document.url.rpartition(_MARK)
    if not found or not first.isascii() or not first.isdecimal():
        return None
    return int(first) + document.text.count("\f", 0, max(start, 0))


def url_at(document: Document, start: int) -> str:
    """The URL of the page on which a place of the text is; that of the document when it has no pages."""
    page = page_at(document, start)
    return document.url if page is None else f"{document.url.rpartition(_MARK)[0]}{_MARK}{page}"
