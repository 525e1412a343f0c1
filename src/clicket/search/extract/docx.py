"""Word files: paragraphs, headings by their styles, tables row by row, notes at the end. Deleted text is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted_text import Extracted, TextBuilder

__all__ = ["extract_docx"]

_MAIN = "word/document.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)


def extract_docx(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    styles = _Styles()
    archive.parse("word/styles.xml", styles.on_open, styles.on_close)
    text = TextBuilder()
    for name in (_MAIN, *_NOTES):
        body = _Body(text, styles.levels)
        archive.parse(name, body.on_open, body.on_close, body.on_text)
    first = text.first_heading
    # A heading above all else is the title. The title in the properties is often that of a template.
    title = first if first and text.headings[0].start == 0 else archive.title() or first
    return text.build(title, truncated=archive.truncated)


class _Styles:
    """The heading level of each style: by its outline level, by its name, or by the style that it is based on."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self._id = self._name = self._base = ""
        self._level = 0

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        value = attributes.get("w:val", "")
        if tag == "style":
            self._id, self._name, self._base, self._level = attributes.get("w:styleId", ""), "", "", 0
        elif tag == "name":
            self._name = value
        elif tag == "basedOn":
            self._base = value
        elif tag == "outlineLvl":
            self._level = _outline_level(value)

    def on_close(self, tag: str) -> None:
        if tag != "style":
            return
        named = _HEADING_STYLE.fullmatch(self._name)
        level = int(named[1]) if named else self._level or self.levels.get(self._base, 0)
        if self._name.lower() == "title":
            level = 1
        if level:
            self.levels[self._id] = level


class _Body:
    """A part with paragraphs and tables. A table inside a cell becomes text of that cell."""

    def __init__(self, text: TextBuilder, levels: Mapping[str, int]) -> None:
        self._text = text
        self._levels = levels
        self._parts: list[str] = []
        self._cells: list[list[str]] = []
        self._level = self._tables = self._skipped = 0
        self._in_text = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipped or tag in ("Fallback", "del", "moveFrom"):
            self._skipped += 1  # a second form of content that is read elsewhere, or deleted text
        elif tag == "t":
            self._in_text = True
        elif tag == "p":
            self._level = 0
        elif tag == "pStyle":
            self._level = self._levels.get(attributes.get("w:val", ""), 0)
        elif tag == "outlineLvl":
            self._level = _outline_level(attributes.get("w:val", "")) or self._level
        elif tag in _BREAKS:
            self._parts.append(_BREAKS[tag])
        elif tag == "tbl":
            self._tables += 1
        elif tag == "tr" and self._tables == 1:
            self._cells = []
        elif tag == "tc" and self._tables == 1:
            self._cells.append([])

    def on_close(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag == "t":
            self._in_text = False
        elif tag == "p":
            paragraph = "".join(self._parts)
            self._parts = []
            if self._tables and self._cells:
                self._cells[-1].append(paragraph)
            else:
                self._text.add(paragraph, level=self._level)
        elif tag == "tbl":
            self._tables -= 1
        elif tag == "tr" and self._tables == 1:
            self._text.add_row(map(" ".join, self._cells))
            self._cells = []

    def on_text(self, data: str) -> None:
        if self._in_text and not self._skipped:
            self._parts.append(data)


def _outline_level(value: str) -> int:
    """The file counts levels from 0; 9 means body text."""
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else 0
