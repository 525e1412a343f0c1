"""E-books: their chapters in reading order. Each chapter is an HTML page."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

import msgspec

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted_text import MAX_TEXT, Extracted, Heading, Unreadable
from clicket.search.extract.html import extract_html

__all__ = ["extract_epub"]

_CONTAINER = "META-INF/container.xml"
_PROTECTED = "META-INF/encryption.xml"


def extract_epub(data: bytes) -> Extracted:
    archive = Archive(data, _CONTAINER)
    package = _package(archive)
    texts: list[str] = []
    headings: list[Heading] = []
    length = 0
    for name in _chapters(archive, package):
        page = extract_html(archive.read(name))
        if not page.text:
            continue
        headings += [msgspec.structs.replace(heading, start=heading.start + length) for heading in page.headings]
        texts.append(page.text)
        length += len(page.text) + 2
        if length > MAX_TEXT:
            break
    if not texts and _PROTECTED in archive.names:
        raise Unreadable("encrypted: the book is protected")
    text = "\n\n".join(texts)
    title = archive.title(package)
    return Extracted(title=title, text=text, headings=tuple(headings), truncated=length > MAX_TEXT)


def _package(archive: Archive) -> str:
    """The name of the part that lists the pages."""
    for kind, tag, attributes in archive.events(_CONTAINER):
        if kind == "open" and tag == "rootfile" and attributes.get("full-path") in archive.names:
            return attributes["full-path"]
    raise Unreadable("damaged: it does not say where its contents are")


def _chapters(archive: Archive, package: str) -> list[str]:
    pages: dict[str, str] = {}
    order: list[str] = []
    for kind, tag, attributes in archive.events(package):
        if kind == "open" and tag == "item" and "html" in attributes.get("media-type", ""):
            name = posixpath.join(posixpath.dirname(package), unquote(attributes.get("href", "")))
            pages[attributes.get("id", "")] = posixpath.normpath(name)
        elif kind == "open" and tag == "itemref":
            order.append(attributes.get("idref", ""))
    return list(dict.fromkeys(pages[id] for id in order if id in pages))
