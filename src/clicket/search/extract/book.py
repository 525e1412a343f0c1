"""E-books: their chapters in the order in which they are read, each of them a page of HTML."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted import Extracted, Heading
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.html import extract_html
from clicket.search.extract.writing import MAX_TEXT

__all__ = ["extract_book"]

_CONTAINER = "META-INF/container.xml"
_PROTECTED = "META-INF/encryption.xml"


def extract_book(data: bytes) -> Extracted:
    archive = Archive(data, _CONTAINER)
    package = _package(archive)
    contents = _Contents(posixpath.dirname(package))
    archive.parse(package, contents.opened, contents.closed, contents.text)
    texts: list[str] = []
    headings: list[Heading] = []
    length = 0
    for name in contents.chapters():
        page = extract_html(archive.read(name))
        if not page.text:
            continue
        headings += [msgspec.structs.replace(one, start=one.start + length) for one in page.headings]
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

    def opened(tag: str, given: Mapping[str, str]) -> None:
        if tag == "rootfile":
            found.append(given.get("full-path", ""))

    archive.parse(_CONTAINER, opened, lambda _: None, lambda _: None)
    if not found or found[0] not in archive.names:
        raise Unreadable("damaged: it does not tell where its contents are")
    return found[0]


class _Contents:
    def __init__(self, folder: str) -> None:
        self.title: list[str] = []
        self._folder = folder
        self._pages: dict[str, str] = {}
        self._order: list[str] = []
        self._titled = 0
        self._reading = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "item" and "html" in given.get("media-type", ""):
            name = posixpath.join(self._folder, unquote(given.get("href", "")))
            self._pages[given.get("id", "")] = posixpath.normpath(name)
        elif tag == "itemref":
            self._order.append(given.get("idref", ""))
        elif tag == "title":
            self._titled += 1
            self._reading = self._titled == 1

    def closed(self, tag: str) -> None:
        self._reading = self._reading and tag != "title"

    def text(self, data: str) -> None:
        if self._reading:
            self.title.append(data)

    def chapters(self) -> list[str]:
        return list(dict.fromkeys(self._pages[one] for one in self._order if one in self._pages))
