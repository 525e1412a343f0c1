"""Word files: paragraphs, headings by their styles, tables row by row, notes at the end. Deleted text is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted_text import Block, Extracted, Paragraphs, join_blocks

__all__ = ["extract_docx"]

_MAIN = "word/document.xml"
_PARTS = (_MAIN, "word/footnotes.xml", "word/endnotes.xml")
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}
_SKIPPED = ("Fallback", "del", "moveFrom")
"""A second form of content that is read elsewhere, and deleted text."""
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)


def extract_docx(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    levels = _heading_styles(archive)
    read = join_blocks(block for name in _PARTS for block in _blocks(archive, name, levels))
    # A heading above all else is the title. The title in the properties is often that of a template.
    is_above = read.headings and read.headings[0].start == 0
    title = read.first_heading if is_above else archive.title() or read.first_heading
    return msgspec.structs.replace(read, title=title, truncated=read.truncated or archive.truncated)


def _heading_styles(archive: Archive) -> dict[str, int]:
    """The heading level of each style: by its outline level, by its name, or by the style that it is based on."""
    levels: dict[str, int] = {}
    id = name = base = ""
    level = 0
    for kind, tag, attributes in archive.events("word/styles.xml"):
        value = attributes.get("w:val", "")
        if kind == "open" and tag == "style":
            id = attributes.get("w:styleId", "")
            name = ""
            base = ""
            level = 0
        elif kind == "open" and tag == "name":
            name = value
        elif kind == "open" and tag == "basedOn":
            base = value
        elif kind == "open" and tag == "outlineLvl":
            level = _outline_level(value)
        elif kind == "close" and tag == "style":
            named = _HEADING_STYLE.fullmatch(name)
            level = int(named[1]) if named else level or levels.get(base, 0)
            levels[id] = 1 if name.lower() == "title" else level
    return levels


def _blocks(archive: Archive, name: str, levels: Mapping[str, int]) -> Iterator[Block]:
    """Paragraphs and rows of a part. A table inside a cell becomes text of that cell."""
    now = Paragraphs()
    level = tables = 0
    in_text = False
    for kind, tag, attributes in archive.events(name, without=_SKIPPED):
        opens = kind == "open"
        if kind == "text":
            now.parts += [tag] if in_text else []
        elif tag == "t":
            in_text = opens
        elif tag == "tbl":
            tables += 1 if opens else -1
        elif tag == "p":
            if not opens:
                yield now.end(), level
            level = 0
        elif tables == 1 and tag == "tr":
            yield now.end_row()
        elif tables == 1 and tag == "tc" and opens:
            now.cells.append("")
        elif tag == "pStyle":
            level = levels.get(attributes.get("w:val", ""), level)
        elif tag == "outlineLvl":
            level = _outline_level(attributes.get("w:val", "")) or level
        elif opens and tag in _BREAKS:
            now.parts.append(_BREAKS[tag])


def _outline_level(value: str) -> int:
    """The file counts levels from 0; 9 means body text."""
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else 0
