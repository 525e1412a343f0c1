"""OpenDocument files (LibreOffice): text documents, sheets and presentations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from clicket.search.extract.archive import Archive
from clicket.search.extract.extracted_text import Block, Extracted, Paragraphs, Unreadable, join_blocks

__all__ = ["extract_opendocument"]

_MAIN = "content.xml"
_SKIPPED = ("tracked-changes", "annotation", "script", "event-listeners", "sequence-decls")
_MAX_SPACES = 100
_DEFAULT_PAGE_NAME = re.compile(r"^page\d*$")


def extract_opendocument(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("encrypted; save it again without a password")
    read = join_blocks(_blocks(archive))
    title = archive.title() or read.first_heading
    return msgspec.structs.replace(read, title=title, truncated=read.truncated or archive.truncated)


def _blocks(archive: Archive) -> Iterator[Block]:
    now = Paragraphs()
    depth = level = 0
    spreadsheet = False
    for kind, tag, attributes in archive.events(_MAIN, without=_SKIPPED):
        if kind == "text":
            now.parts += [tag] if depth else []
        elif tag in ("p", "h"):
            depth += 1 if kind == "open" else -1
            if kind == "open":
                outline = attributes.get("text:outline-level", "1")
                level = int(outline) if tag == "h" and outline.isdecimal() else 0
            elif not depth:
                yield now.end(), level
        elif tag == "table-row":
            yield now.end_row()
        elif kind == "open" and tag == "table-cell":
            now.cells.append("")
        elif kind == "open" and tag == "spreadsheet":
            spreadsheet = True
        elif kind == "open" and tag == "table" and spreadsheet:  # in a text document its name is not shown to readers
            yield attributes.get("table:name", ""), 1
        elif kind == "open" and tag == "page":
            yield _DEFAULT_PAGE_NAME.sub("", attributes.get("draw:name", "")), 1
        elif kind == "open":
            now.parts.append(_blank(tag, attributes))


def _blank(tag: str, attributes: Mapping[str, str]) -> str:
    count = attributes.get("text:c", "1")
    blanks = {"s": " " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES), "tab": "\t", "line-break": "\n"}
    return blanks.get(tag, "")
