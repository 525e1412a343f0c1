"""Workbooks: each sheet under its name, each row a line that names its columns. Dates are written as dates, formulas as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from clicket.search.extract.archive import Archive, related_id
from clicket.search.extract.extracted_text import ROW, Block, Extracted, join_blocks
from clicket.search.extract.tables import Cell, lines_of

__all__ = ["extract_xlsx"]

_MAIN = "xl/workbook.xml"
_LETTERS = re.compile(r"[A-Z]{1,3}")
_DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""Numbers of the built-in date formats."""
_NOT_DATE = re.compile(r"\"[^\"]*+\"?|\\.|\[[^\]]*+\]?|General", re.IGNORECASE)
_EPOCHS = (datetime(1899, 12, 30), datetime(1904, 1, 1))  # noqa: DTZ001 - a sheet has no time zone


def extract_xlsx(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    read = join_blocks(_blocks(archive))
    return msgspec.structs.replace(read, title=archive.title(), truncated=read.truncated or archive.truncated)


def _blocks(archive: Archive) -> Iterator[Block]:
    """The name of each sheet that has rows, and its rows."""
    sheets: list[tuple[str, str]] = []
    since_1904 = False
    for kind, tag, attributes in archive.events(_MAIN):
        if kind == "open" and tag == "sheet" and attributes.get("state", "visible") == "visible":
            sheets.append((attributes.get("name", ""), related_id(attributes)))
        elif kind == "open" and tag == "workbookPr":
            since_1904 = attributes.get("date1904") in ("1", "true")
    related = archive.relations(_MAIN)
    strings = _shared_strings(archive)
    dates = _date_formats(archive)
    for name, relation in sheets:
        rows = _rows(archive, related.get(relation, ("", ""))[1], strings, dates, _EPOCHS[since_1904])
        for number, line in enumerate(lines_of(rows)):
            if number == 0:
                yield name, 1
            yield line, ROW


def _shared_strings(archive: Archive) -> list[str]:
    """Texts that cells refer to by number. Phonetic readings are left out."""
    strings: list[str] = []
    parts: list[str] = []
    in_text = phonetic = False
    for kind, tag, _ in archive.events("xl/sharedStrings.xml"):
        if kind == "text":
            if in_text:
                parts.append(tag)
            continue
        if tag == "rPh":
            phonetic = kind == "open"
        elif tag == "si" and kind == "close":
            strings.append("".join(parts))
            parts = []
        in_text = tag == "t" and kind == "open" and not phonetic
    return strings


def _date_formats(archive: Archive) -> list[bool]:
    """For each cell format, whether it shows a number as a date."""
    dates: list[bool] = []
    own: dict[str, bool] = {}
    of_cells = False
    for kind, tag, attributes in archive.events("xl/styles.xml"):
        number = attributes.get("numFmtId", "")
        if kind != "open":
            continue
        if tag == "numFmt":
            left = _NOT_DATE.sub("", attributes.get("formatCode", "")).lower()
            own[number] = any(one in left for one in "ymdhs") and "0.0" not in left
        elif tag in ("cellXfs", "cellStyleXfs"):
            of_cells = tag == "cellXfs"
        elif tag == "xf" and of_cells:
            dates.append(own.get(number, number.isdecimal() and int(number) in _DATE_FORMATS))
    return dates


def _rows(
    archive: Archive, name: str, strings: Sequence[str], dates: Sequence[bool], epoch: datetime
) -> Iterator[list[Cell]]:
    row: list[Cell] = []
    parts: list[str] = []
    column = 0
    type = style = ""
    in_text = False
    for kind, tag, attributes in archive.events(name):
        if kind == "text":
            if in_text:
                parts.append(tag)
        elif tag in ("v", "t"):
            in_text = kind == "open"
        elif tag == "row":
            if kind == "close" and row:
                yield row
            row, column = [], -1
        elif tag == "c" and kind == "open":
            type = attributes.get("t", "n")
            style = attributes.get("s", "")
            parts = []
            column = _column(attributes.get("r", ""), column + 1)
        elif tag == "c" and parts:
            is_date = style.isdecimal() and int(style) < len(dates) and dates[int(style)]
            row.append((column, _value("".join(parts), type, strings, epoch if is_date else None)))


def _value(written: str, type: str, strings: Sequence[str], epoch: datetime | None) -> str:
    if type == "s":
        return strings[int(written)] if written.isdecimal() and int(written) < len(strings) else ""
    if type == "b":
        return "TRUE" if written == "1" else "FALSE"
    return "" if type == "e" else _number(written, epoch) if type == "n" else written


def _column(reference: str, following: int) -> int:
    """The column of a reference such as `AB12`, from 0."""
    letters = _LETTERS.match(reference)
    if letters is None:
        return following
    column = 0
    for letter in letters[0]:
        column = column * 26 + ord(letter) - 64
    return column - 1


def _number(written: str, epoch: datetime | None) -> str:
    try:
        value = float(written)
        if epoch is None:
            return f"{value:.12g}" if "." in written or "e" in written.lower() else written
        moment = epoch + timedelta(days=value)
    except (ValueError, OverflowError):
        return written
    if 0 <= value < 1:
        return f"{moment:%H:%M}"
    return moment.date().isoformat() if moment.time() == datetime.min.time() else f"{moment:%Y-%m-%d %H:%M}"
