"""Presentations: slide by slide, the title as a heading, then texts, tables and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clicket.search.extract.archive import Archive, related_id
from clicket.search.extract.extracted_text import Block, Extracted, Paragraphs, join_blocks, row_of

__all__ = ["extract_pptx"]

_MAIN = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_NOT_CONTENT = ("sldNum", "dt", "ftr", "hdr", "sldImg")
"""Placeholders that repeat on every slide: numbers, dates, headers, footers, the picture of the slide."""


def extract_pptx(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    read = join_blocks(block for name, titles in _parts(archive) for block in _slide(archive, name, titles))
    title = archive.title()
    title = read.first_heading if title in ("", "PowerPoint Presentation") else title
    return msgspec.structs.replace(read, title=title, truncated=read.truncated or archive.truncated)


def _parts(archive: Archive) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The parts of the slides in the order of the presentation, each with the part of its notes; and the placeholders of titles there."""
    related = archive.relations(_MAIN)
    slides = [
        related.get(related_id(attributes), ("", ""))
        for kind, tag, attributes in archive.events(_MAIN)
        if kind == "open" and tag == "sldId"
    ]
    for what, name in dict.fromkeys(slides):
        if what == "slide" and name in archive.names and not archive.truncated:
            yield name, _TITLES
            yield from [(part, ()) for what, part in archive.relations(name).values() if what == "notesSlide"][:1]


def _slide(archive: Archive, name: str, title_places: tuple[str, ...]) -> Iterator[Block]:
    """One slide, or its notes. The title may stand anywhere in the part, and comes first."""
    titles: list[str] = []
    blocks: list[Block] = []
    now = Paragraphs()
    place = ""
    in_text = False
    for kind, tag, attributes in archive.events(name):
        opens = kind == "open"
        if kind == "text":
            now.parts += [tag] if in_text and place not in _NOT_CONTENT else []
        elif tag == "t":
            in_text = opens
        elif tag == "tr":
            blocks.append(now.end_row())
        elif tag == "p" and not opens:
            paragraph = now.end()
            if place in title_places:
                titles.append(paragraph)
            else:
                blocks.append(row_of([paragraph]))
        elif opens and tag in ("sp", "graphicFrame"):
            place = ""
        elif opens and tag == "ph":
            place = attributes.get("type", "body")
        elif opens and tag in ("br", "tc"):
            (now.parts if tag == "br" else now.cells).append("\n" if tag == "br" else "")
    if not archive.truncated:
        yield " ".join(" ".join(titles).split()), 1
        yield from blocks
