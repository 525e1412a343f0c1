"""Presentations: slide by slide, the title as a heading, then texts, tables and the speaker's notes."""

from __future__ import annotations

from collections.abc import Mapping

from clicket.search.extract.archive import Archive, related_id
from clicket.search.extract.extracted_text import Extracted, TextBuilder

__all__ = ["extract_pptx"]

_MAIN = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_NOT_CONTENT = ("sldNum", "dt", "ftr", "hdr", "sldImg")
"""Placeholders that repeat on every slide: numbers, dates, headers, footers, the picture of the slide."""


def extract_pptx(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    text = TextBuilder()
    for name in _slides(archive):
        _read(archive, name, text)
        notes = [part for kind, part in archive.relations(name).values() if kind == "notesSlide"]
        for part in notes[:1]:
            _read(archive, part, text, notes=True)
        if archive.truncated:
            break
    title = archive.title()
    if title in ("", "PowerPoint Presentation"):
        title = text.first_heading
    return text.build(title, truncated=archive.truncated)


def _slides(archive: Archive) -> list[str]:
    """The parts of the slides, in the order of the presentation."""
    related = archive.relations(_MAIN)
    order: list[str] = []

    def on_open(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sldId":
            kind, name = related.get(related_id(attributes), ("", ""))
            if kind == "slide" and name in archive.names:
                order.append(name)

    archive.parse(_MAIN, on_open)
    return list(dict.fromkeys(order))


def _read(archive: Archive, name: str, text: TextBuilder, *, notes: bool = False) -> None:
    slide = _Slide(text, notes=notes)
    archive.parse(name, slide.on_open, slide.on_close, slide.on_text)
    if not archive.truncated:
        slide.write()


class _Slide:
    """One slide, or its notes. The title may stand anywhere in the part, and is written first."""

    def __init__(self, text: TextBuilder, *, notes: bool) -> None:
        self._text = text
        self._notes = notes
        self._title: list[str] = []
        self._blocks: list[list[str]] = []
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._kind = ""
        self._in_text = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in ("sp", "graphicFrame"):
            self._kind = ""
        elif tag == "ph":
            self._kind = attributes.get("type", "body")
        elif tag == "t":
            self._in_text = True
        elif tag == "br":
            self._parts.append("\n")
        elif tag == "tr":
            self._cells = []
        elif tag == "tc" and self._cells is not None:
            self._cells.append("")

    def on_close(self, tag: str) -> None:
        if tag == "t":
            self._in_text = False
        elif tag == "p":
            self._add(" ".join("".join(self._parts).split()))
            self._parts = []
        elif tag == "tr" and self._cells is not None:
            self._blocks.append(self._cells)
            self._cells = None

    def on_text(self, data: str) -> None:
        if self._in_text:
            self._parts.append(data)

    def write(self) -> None:
        self._text.add(" ".join(self._title), level=1)
        for cells in self._blocks:
            self._text.add_row(cells)

    def _add(self, paragraph: str) -> None:
        if not paragraph or self._kind in _NOT_CONTENT:
            return
        if self._cells:
            self._cells[-1] = f"{self._cells[-1]} {paragraph}"
        elif self._kind in _TITLES and not self._notes:
            self._title.append(paragraph)
        else:
            self._blocks.append([paragraph])
