"""Word files: paragraphs, headings by their styles, tables row by row, notes at the end. Text that was deleted is not told."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.writing import Text

__all__ = ["extract_word"]

_MAIN = "word/document.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}
_NAMED = re.compile(r"heading (\d)", re.IGNORECASE)


def extract_word(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    styles = _Styles()
    archive.parse("word/styles.xml", styles.opened, styles.closed, lambda _: None)
    text = Text()
    for name in (_MAIN, *_NOTES):
        body = _Body(text, styles.levels)
        archive.parse(name, body.opened, body.closed, body.text)
    headings = tuple(text.headings)
    first = headings[0].text if headings else ""
    # What stands above all is the title. What the properties say is often that of the file which this one was made from.
    title = first if first and headings[0].start == 0 else archive.title() or first
    return Extracted(title=title, text=str(text), headings=headings, truncated=archive.truncated)


class _Styles:
    """Which styles are headings: by their own level, by their name, or by the style that they are based on."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self._id = self._name = self._base = ""
        self._level = 0

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        value = given.get("w:val", "")
        if tag == "style":
            self._id, self._name, self._base, self._level = given.get("w:styleId", ""), "", "", 0
        elif tag == "name":
            self._name = value
        elif tag == "basedOn":
            self._base = value
        elif tag == "outlineLvl":
            self._level = _outline(value)

    def closed(self, tag: str) -> None:
        if tag != "style":
            return
        named = _NAMED.fullmatch(self._name)
        level = int(named[1]) if named else self._level or self.levels.get(self._base, 0)
        if self._name.lower() == "title":
            level = 1
        if level:
            self.levels[self._id] = level


class _Body:
    def __init__(self, text: Text, levels: Mapping[str, int]) -> None:
        self._text = text
        self._levels = levels
        self._parts: list[str] = []
        self._cells: list[list[str]] = []
        self._level = self._depth = self._dropped = 0
        self._reading = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if self._dropped or tag in ("Fallback", "del", "moveFrom"):
            self._dropped += 1  # what it holds is said elsewhere, or is not said any more
        elif tag == "t":
            self._reading = True
        elif tag == "p":
            self._level = 0
        elif tag == "pStyle":
            self._level = self._levels.get(given.get("w:val", ""), 0)
        elif tag == "outlineLvl":
            self._level = _outline(given.get("w:val", "")) or self._level
        elif tag in _BREAKS:
            self._parts.append(_BREAKS[tag])
        elif tag == "tbl":
            self._depth += 1
        elif tag == "tr" and self._depth == 1:
            self._cells = []
        elif tag == "tc" and self._depth == 1:
            self._cells.append([])

    def closed(self, tag: str) -> None:
        if self._dropped:
            self._dropped -= 1
        elif tag == "t":
            self._reading = False
        elif tag == "p":
            said = "".join(self._parts)
            self._parts = []
            if self._depth and self._cells:
                self._cells[-1].append(said)
            else:
                self._text.add(said, level=self._level)
        elif tag == "tbl":
            self._depth -= 1
        elif tag == "tr" and self._depth == 1:
            cells = (" ".join(" ".join(cell).split()) for cell in self._cells)
            self._text.add(" | ".join(one for one in cells if one), row=True)
            self._cells = []

    def text(self, data: str) -> None:
        if self._reading and not self._dropped:
            self._parts.append(data)


def _outline(value: str) -> int:
    """Levels are counted from 0 in the file; 9 is no heading."""
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else 0
