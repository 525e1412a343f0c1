"""Tables as text: each row a line in which every cell stands beside the name of its column, so that it can be understood alone."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.guessing import decode_text, is_binary

__all__ = ["Cell", "extract_table", "lines_of"]

_MAX_TEXT = 50_000_000
_LOOK = 20
_MAX_COLUMNS = 10_000
_SEPARATORS = ",\t;|"
_MAX_CELL = 1_000_000

Cell = tuple[int, str]
"""The column, counted from 0, and what stands there. Empty ones may be left out."""


def extract_table(data: bytes) -> Extracted:
    """CSV and its like. What cannot be told apart into cells stays as it is."""
    if is_binary(data):
        raise Unreadable("not text, whatever its name says")
    text = decode_text(data)
    separator = _separator(text)
    before = csv.field_size_limit(_MAX_CELL)
    try:
        made, whole = lines_of(_cells(row) for row in csv.reader(_lines(text), delimiter=separator))
    except csv.Error:
        return Extracted(text=text)
    finally:
        csv.field_size_limit(before)
    return Extracted(text="\n".join(made), truncated=not whole)


def lines_of(rows: Iterable[Sequence[Cell]], most: int = _MAX_TEXT) -> tuple[list[str], bool]:
    """Rows as lines, and whether these are all of them. A first row of names is not a line but goes into all others."""
    made: list[str] = []
    length = 0
    names: dict[int, str] | None = None
    for number, row in enumerate(rows):
        cells = [(column, said) for column, given in row if (said := " ".join(given.split()))]
        if number == 0 and _is_header(cells):
            names = dict(cells)
            continue
        if names is None:
            line = " | ".join(said for _, said in cells)
        else:
            line = "; ".join(f"{names[column]}: {said}" if column in names else said for column, said in cells)
        if line:
            made.append(line)
            length += len(line)
            if length > most:
                return made, False
    if not made and names is not None:
        made.append(" | ".join(names.values()))
    return made, True


def _is_header(cells: Sequence[Cell]) -> bool:
    """Names: side by side, short, all different, no numbers among them."""
    given = [said for _, said in cells]
    return (
        len(given) >= 2
        and [column for column, _ in cells] == list(range(len(cells)))
        and len(set(given)) == len(given)
        and all(len(said) <= 60 and not _is_number(said) for said in given)
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


def _cells(row: Sequence[str]) -> list[Cell]:
    if len(row) > _MAX_COLUMNS:
        raise csv.Error("no table has as many columns")
    return list(enumerate(row))


def _lines(text: str) -> Iterator[str]:
    """With their ends, which may stand inside of a cell. Not those of `splitlines`, which knows more ends than CSV does."""
    return (f"{line}\n" for line in text.split("\n"))


def _separator(text: str) -> str:
    """The one that stands equally often in all of the first lines, and most often."""
    lines = [one for one in text[:_MAX_CELL].split("\n", _LOOK)[:_LOOK] if one]
    best, most = ",", 0
    for one in _SEPARATORS:
        counts = [line.count(one) for line in lines]
        least = min(counts, default=0)
        if least > most:
            best, most = one, least
    return best
