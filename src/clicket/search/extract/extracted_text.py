"""What a reader returns (`Extracted`), how blocks of text become one (`join_blocks`), and what a reader raises (`Unreadable`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["MAX_TEXT", "ROW", "Block", "Extracted", "Heading", "Paragraphs", "Unreadable", "join_blocks", "row_of"]

MAX_TEXT = 20_000_000
"""Characters that are read of one file."""

Block = tuple[str, int]
"""A text and what it is: a paragraph (0), a heading of this level (from 1), or a row of a table (`ROW`)."""
ROW = -1


class Unreadable(Exception):
    """A file cannot be read. `reason` is one sentence for its owner; `again`: the same bytes may be readable later."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A heading of the text. `start` is its offset in the text; `level` 1 is the highest."""

    text: str
    start: int
    level: int = 1


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file. `truncated`: the file is longer than what was read of it."""

    title: str = ""
    text: str = ""
    headings: tuple[Heading, ...] = ()
    truncated: bool = False

    @property
    def first_heading(self) -> str:
        return self.headings[0].text if self.headings else ""


def join_blocks(blocks: Iterable[Block]) -> Extracted:
    """The blocks as one text, up to `MAX_TEXT`: an empty line between them, rows of a table only in lines of their own."""
    parts: list[str] = []
    headings: list[Heading] = []
    length = before = 0
    for block, kind in blocks:
        text = block.strip()
        if not text:
            continue
        if length > MAX_TEXT:
            return Extracted(text="".join(parts), headings=tuple(headings), truncated=True)
        between = "" if not parts else "\n" if kind == before == ROW else "\n\n"
        if kind > 0:
            headings.append(Heading(text=text, start=length + len(between), level=kind))
        parts += (between, text)
        length += len(between) + len(text)
        before = kind
    return Extracted(text="".join(parts), headings=tuple(headings))


def row_of(cells: Iterable[str]) -> Block:
    """A row of a table. Empty cells are left out."""
    return " | ".join(text for cell in cells if (text := " ".join(cell.split()))), ROW


class Paragraphs:
    """The text of the current paragraph, and the cells of the current row of a table."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.cells: list[str] = []

    def end(self) -> str:
        """The paragraph; empty if it is one of a cell, which keeps it."""
        text = "".join(self.parts)
        self.parts.clear()
        if not self.cells:
            return text
        self.cells[-1] += f" {text}"
        return ""

    def end_row(self) -> Block:
        row = row_of(self.cells)
        self.cells.clear()
        return row
