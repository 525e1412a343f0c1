"""What a reader returns (`Extracted`), what it builds it with (`TextBuilder`), and what it raises (`Unreadable`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["MAX_TEXT", "Extracted", "Heading", "TextBuilder", "TextLimitReached", "Unreadable"]

MAX_TEXT = 20_000_000
"""Characters that are read of one file."""


class Unreadable(Exception):
    """A file cannot be read. `reason` is one sentence for its owner; `again`: the same bytes may be readable later."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again


class TextLimitReached(Exception):
    """A reader has read as much as it may. The rest of the file is left out."""


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


class TextBuilder:
    """Joins blocks to a text: paragraphs with an empty line between them, rows of a table with a line break."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0
        self._row = False
        self.headings: list[Heading] = []

    @property
    def first_heading(self) -> str:
        return self.headings[0].text if self.headings else ""

    def add(self, block: str, *, level: int = 0, row: bool = False) -> None:
        """Append a paragraph, a heading (`level` from 1) or a row. Raises `TextLimitReached` beyond `MAX_TEXT`."""
        block = block.strip()
        if not block:
            return
        if self._blocks:
            between = "\n" if row and self._row else "\n\n"
            self._blocks.append(between)
            self._length += len(between)
        if level:
            self.headings.append(Heading(text=block, start=self._length, level=level))
        self._blocks.append(block)
        self._length += len(block)
        self._row = row
        if self._length > MAX_TEXT:
            raise TextLimitReached

    def add_row(self, cells: Iterable[str]) -> None:
        """Append a row of a table. Empty cells are left out."""
        written = (" ".join(cell.split()) for cell in cells)
        self.add(" | ".join(cell for cell in written if cell), row=True)

    def build(self, title: str, *, truncated: bool) -> Extracted:
        text = "".join(self._blocks)
        return Extracted(title=title, text=text, headings=tuple(self.headings), truncated=truncated)
