"""A text in the making: blocks one after the other, some of them headings, up to a length that is enough."""

from __future__ import annotations

from clicket.search.extract.archive import Full
from clicket.search.extract.extracted import Heading

__all__ = ["MAX_TEXT", "Text"]

MAX_TEXT = 20_000_000


class Text:
    """Blocks are parted by an empty line, rows of a table by a new line."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0
        self._row = False
        self.headings: list[Heading] = []

    def add(self, block: str, *, level: int = 0, row: bool = False) -> None:
        """A paragraph, a heading (of a level from 1), or a row. `Full` when that is too much."""
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
            raise Full

    def __str__(self) -> str:
        return "".join(self._blocks)
