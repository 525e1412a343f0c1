"""Presentations: slide by slide, the title as a heading, then what stands on the slide, tables and the speaker's notes."""

from __future__ import annotations

from collections.abc import Mapping

from clicket.search.extract.archive import Archive, related_id
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.writing import Text

__all__ = ["extract_slides"]

_MAIN = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")


def extract_slides(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    text = Text()
    for name in _slides(archive):
        _read(archive, name, text)
        notes = [one for kind, one in archive.relations(name).values() if kind == "notesSlide"]
        for one in notes[:1]:
            _read(archive, one, text, notes=True)
        if archive.truncated:
            break
    headings = tuple(text.headings)
    title = archive.title()
    if title in ("", "PowerPoint Presentation"):
        title = headings[0].text if headings else ""
    return Extracted(title=title, text=str(text), headings=headings, truncated=archive.truncated)


def _slides(archive: Archive) -> list[str]:
    """Their parts, in the order in which they are shown."""
    related = archive.relations(_MAIN)
    order: list[str] = []

    def opened(tag: str, given: Mapping[str, str]) -> None:
        if tag == "sldId":
            kind, name = related.get(related_id(given), ("", ""))
            if kind == "slide" and name in archive.names:
                order.append(name)

    archive.parse(_MAIN, opened, lambda _: None, lambda _: None)
    return list(dict.fromkeys(order))


def _read(archive: Archive, name: str, text: Text, *, notes: bool = False) -> None:
    page = _Page(text, notes=notes)
    archive.parse(name, page.opened, page.closed, page.text)
    if not archive.truncated:
        page.end()


class _Page:
    """One slide. Its title may stand anywhere in the file, and is told first."""

    def __init__(self, text: Text, *, notes: bool) -> None:
        self._text = text
        self._notes = notes
        self._title: list[str] = []
        self._blocks: list[tuple[str, bool]] = []
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._kind = ""
        self._reading = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if tag in ("sp", "graphicFrame"):
            self._kind = ""
        elif tag == "ph":
            self._kind = given.get("type", "body")
        elif tag == "t":
            self._reading = True
        elif tag == "br":
            self._parts.append("\n")
        elif tag == "tr":
            self._cells = []
        elif tag == "tc" and self._cells is not None:
            self._cells.append("")

    def closed(self, tag: str) -> None:
        if tag == "t":
            self._reading = False
        elif tag == "p":
            self._paragraph(" ".join("".join(self._parts).split()))
            self._parts = []
        elif tag == "tr" and self._cells is not None:
            self._blocks.append((" | ".join(one for one in self._cells if one), True))
            self._cells = None

    def text(self, data: str) -> None:
        if self._reading:
            self._parts.append(data)

    def end(self) -> None:
        if not self._notes:
            self._text.add(" ".join(self._title), level=1)
        for block, row in self._blocks:
            self._text.add(block, row=row)

    def _paragraph(self, said: str) -> None:
        if not said or self._kind in _FURNITURE:
            return
        if self._cells:
            self._cells[-1] = f"{self._cells[-1]} {said}".strip()
        elif self._kind in _TITLES and not self._notes:
            self._title.append(said)
        else:
            self._blocks.append((said, True))
