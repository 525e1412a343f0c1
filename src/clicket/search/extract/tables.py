"""Tables as text: each row a line in which every cell stands beside the name of its column, so that it can be understood alone."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from itertools import islice

from clicket.search.extract.extracted import Extracted
from clicket.search.extract.failing import Unreadable
from clicket.search.extract.guessing import decode_text, is_binary

__all__ = ["extract_table", "lines_of"]

_MAX_TEXT = 50_000_000
_LOOK = 20
_SEPARATORS = ",\t;|"
_MAX_CELL = 1_000_000


def extract_table(data: bytes) -> Extracted:
    """CSV and its like. What cannot be told apart into cells stays as it is."""
    if is_binary(data):
        raise Unreadable("not text, whatever its name says")
    text = decode_text(data)
    separator = _separator(text)
    before = csv.field_size_limit(_MAX_CELL)
    try:
        made, whole = lines_of(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    except csv.Error:
        return Extracted(text=text)
    finally:
        csv.field_size_limit(before)
    return Extracted(text="\n".join(made), truncated=not whole)


def lines_of(rows: Iterable[Sequence[str]], most: int = _MAX_TEXT) -> tuple[list[str], bool]:
    """Rows as lines, and whether these are all of them. A first row of names is not a line but goes into all others."""
    made: list[str] = []
    length = 0
    names: list[str] | None = None
    for number, row in enumerate(rows):
        cells = [" ".join(one.split()) for one in row]
        if number == 0 and _is_header(cells):
            names = cells
            continue
        if names is None:
            line = " | ".join(one for one in cells if one)
        else:
            named = (f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)
            line = "; ".join([*named, *filter(None, islice(cells, len(names), None))])
        if line:
            made.append(line)
            length += len(line)
            if length > most:
                return made, False
    if not made and names is not None:
        made.append(" | ".join(names))
    return made, True


def _is_header(cells: Sequence[str]) -> bool:
    """Names: short, all different, no numbers among them."""
    given = [one for one in cells if one]
    return (
        len(given) >= 2
        and len(given) == len(cells)
        and len(set(given)) == len(given)
        and all(len(one) <= 60 and not _is_number(one) for one in given)
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


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
