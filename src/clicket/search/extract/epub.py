"""E-books: their chapters in reading order. Each chapter is an HTML page."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
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
    contents = _Contents(posixpath.dirname(package))
    archive.parse(package, contents.on_open, contents.on_close, contents.on_text)
    texts: list[str] = []
    headings: list[Heading] = []
    length = 0
    for name in contents.chapters():
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
    title = " ".join("".join(contents.title).split())
    return Extracted(title=title, text="\n\n".join(texts), headings=tuple(headings), truncated=length > MAX_TEXT)


def _package(archive: Archive) -> str:
    found: list[str] = []

    def on_open(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "rootfile":
            found.append(attributes.get("full-path", ""))

    archive.parse(_CONTAINER, on_open)
    if not found or found[0] not in archive.names:
        raise Unreadable("damaged: it does not say where its contents are")
    return found[0]


class _Contents:
    """The package document: the pages, their order, and the first title."""

    def __init__(self, folder: str) -> None:
        self.title: list[str] = []
        self._folder = folder
        self._pages: dict[str, str] = {}
        self._order: list[str] = []
        self._titles = 0
        self._in_title = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "item" and "html" in attributes.get("media-type", ""):
            name = posixpath.join(self._folder, unquote(attributes.get("href", "")))
            self._pages[attributes.get("id", "")] = posixpath.normpath(name)
        elif tag == "itemref":
            self._order.append(attributes.get("idref", ""))
        elif tag == "title":
            self._titles += 1
            self._in_title = self._titles == 1

    def on_close(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"

    def on_text(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)

    def chapters(self) -> list[str]:
        return list(dict.fromkeys(self._pages[id] for id in self._order if id in self._pages))
