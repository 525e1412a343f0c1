"""OpenDocument files (LibreOffice): text documents, sheets and presentations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted_text import Extracted, TextBuilder, Unreadable

__all__ = ["extract_opendocument"]

_MAIN = "content.xml"
_SKIPPED = ("tracked-changes", "annotation", "script", "event-listeners", "sequence-decls")
_MAX_SPACES = 100
_DEFAULT_PAGE_NAME = re.compile(r"page\d*")


def extract_opendocument(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("encrypted; save it again without a password")
    text = TextBuilder()
    body = _Body(text)
    archive.parse(_MAIN, body.on_open, body.on_close, body.on_text)
    return text.build(archive.title() or text.first_heading, truncated=archive.truncated)


class _Body:
    def __init__(self, text: TextBuilder) -> None:
        self._text = text
        self._parts: list[str] = []
        self._cells: list[list[str]] | None = None
        self._depth = self._skipped = self._level = 0
        self._spreadsheet = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipped or tag in _SKIPPED:
            self._skipped += 1
        elif tag in ("p", "h"):
            self._depth += 1
            level = attributes.get("text:outline-level", "1")
            self._level = int(level) if tag == "h" and level.isdecimal() else 0
        elif tag == "s":
            count = attributes.get("text:c", "1")
            self._parts.append(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))
        elif tag in ("tab", "line-break"):
            self._parts.append("\t" if tag == "tab" else "\n")
        elif tag == "spreadsheet":
            self._spreadsheet = True
        elif tag == "table" and self._spreadsheet:  # the name of a table in a text document is not shown to readers
            self._text.add(attributes.get("table:name", ""), level=1)
        elif tag == "table-row":
            self._cells = []
        elif tag == "table-cell" and self._cells is not None:
            self._cells.append([])
        elif tag == "page" and not _DEFAULT_PAGE_NAME.fullmatch(attributes.get("draw:name", "")):
            self._text.add(attributes.get("draw:name", ""), level=1)

    def on_close(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag in ("p", "h"):
            self._depth -= 1
            if not self._depth:
                paragraph = "".join(self._parts)
                self._parts = []
                if self._cells:
                    self._cells[-1].append(paragraph)
                else:
                    self._text.add(paragraph, level=self._level)
        elif tag == "table-row" and self._cells is not None:
            self._text.add_row(map(" ".join, self._cells))
            self._cells = None

    def on_text(self, data: str) -> None:
        if self._depth and not self._skipped:
            self._parts.append(data)
