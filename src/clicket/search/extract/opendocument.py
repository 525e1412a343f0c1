"""Files of LibreOffice and its like: text documents, sheets and presentations. Headings say themselves that they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.writing import Text

__all__ = ["extract_opendocument"]

_MAIN = "content.xml"
_DROPPED = ("tracked-changes", "annotation", "script", "event-listeners", "sequence-decls")
_MAX_SPACES = 100
_UNNAMED = re.compile(r"page\d*")


def extract_opendocument(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("encrypted; save it anew without a password")
    text = Text()
    body = _Body(text)
    archive.parse(_MAIN, body.opened, body.closed, body.text)
    headings = tuple(text.headings)
    title = archive.title() or (headings[0].text if headings else "")
    return Extracted(title=title, text=str(text), headings=headings, truncated=archive.truncated)


class _Body:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._parts: list[str] = []
        self._cells: list[list[str]] | None = None
        self._depth = self._dropped = self._level = 0
        self._sheets = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if self._dropped or tag in _DROPPED:
            self._dropped += 1
        elif tag in ("p", "h"):
            self._depth += 1
            level = given.get("text:outline-level", "1")
            self._level = int(level) if tag == "h" and level.isdecimal() else 0
        elif tag == "s":
            count = given.get("text:c", "1")
            self._parts.append(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))
        elif tag in ("tab", "line-break"):
            self._parts.append("\t" if tag == "tab" else "\n")
        elif tag == "spreadsheet":
            self._sheets = True
        elif tag == "table" and self._sheets:  # in a text they have names, too, but nobody sees them
            self._text.add(given.get("table:name", ""), level=1)
        elif tag == "table-row":
            self._cells = []
        elif tag == "table-cell" and self._cells is not None:
            self._cells.append([])
        elif tag == "page" and not _UNNAMED.fullmatch(given.get("draw:name", "")):
            self._text.add(given.get("draw:name", ""), level=1)

    def closed(self, tag: str) -> None:
        if self._dropped:
            self._dropped -= 1
        elif tag in ("p", "h"):
            self._depth -= 1
            if not self._depth:
                self._paragraph("".join(self._parts))
                self._parts = []
        elif tag == "table-row" and self._cells is not None:
            cells = (" ".join(" ".join(cell).split()) for cell in self._cells)
            self._text.add(" | ".join(one for one in cells if one), row=True)
            self._cells = None

    def text(self, data: str) -> None:
        if self._depth and not self._dropped:
            self._parts.append(data)

    def _paragraph(self, said: str) -> None:
        if self._cells:
            self._cells[-1].append(said)
        else:
            self._text.add(said, level=max(self._level, 0))
