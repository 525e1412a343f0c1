"""Tables as text: each row becomes a line that names the column of every cell, so that the line can be understood alone."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

from clicket.model.text.charset import decode_text, is_binary
from clicket.search.extract.extracted_text import ROW, Extracted, Unreadable, join_blocks

__all__ = ["Cell", "extract_table", "lines_of"]

_SAMPLE_LINES = 20
_MAX_COLUMNS = 10_000
_SEPARATORS = ",\t;|"
_MAX_CELL = 1_000_000

Cell = tuple[int, str]
"""The column (from 0) and the text of a cell. Empty cells may be left out."""


def extract_table(data: bytes) -> Extracted:
    """CSV and TSV. Text that cannot be split into cells stays as it is."""
    if is_binary(data):
        raise Unreadable("it is not text")
    text = decode_text(data)
    separator = _separator(text)
    before = csv.field_size_limit(_MAX_CELL)
    try:
        return join_blocks((line, ROW) for line in lines_of(map(_cells, csv.reader(_lines(text), delimiter=separator))))
    except csv.Error:
        return Extracted(text=text)
    finally:
        csv.field_size_limit(before)


def lines_of(rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Rows as lines. A first row of column names is not a line of its own: the others repeat it."""
    names: dict[int, str] = {}
    lines = 0
    for number, row in enumerate(rows):
        cells = [(column, cell) for column, text in row if (cell := " ".join(text.split()))]
        if number == 0 and _is_header(cells):
            names = dict(cells)
        elif cells:
            lines += 1
            named = (f"{names[column]}: {cell}" if column in names else cell for column, cell in cells)
            yield ("; " if names else " | ").join(named)
    if not lines and names:
        yield " | ".join(names.values())


def _is_header(cells: Sequence[Cell]) -> bool:
    """Column names are adjacent, short, all different, and no numbers."""
    names = [name for _, name in cells]
    return (
        len(names) >= 2
        and [column for column, _ in cells] == list(range(len(cells)))
        and len(set(names)) == len(names)
        and all(len(name) <= 60 and not _is_number(name) for name in names)
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


def _cells(row: Sequence[str]) -> list[Cell]:
    if len(row) > _MAX_COLUMNS:
        raise csv.Error("too many columns")
    return list(enumerate(row))


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends, which may be part of a cell. `splitlines` would also split at characters that end no line in CSV."""
    return (f"{line}\n" for line in text.split("\n"))


def _separator(text: str) -> str:
    """The separator with the largest count that every one of the first lines reaches."""
    lines = [line for line in text[:_MAX_CELL].split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES] if line]
    best, most = ",", 0
    for separator in _SEPARATORS:
        counts = [line.count(separator) for line in lines]
        least = min(counts, default=0)
        if least > most:
            best, most = separator, least
    return best
