"""Workbooks: each sheet under its name, each row a line that names its columns. Dates are written as dates, formulas as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from clicket.search.extract.archive import Archive, Full, related_id
from clicket.search.extract.extracted import Extracted
from clicket.search.extract.tables import Cell, lines_of
from clicket.search.extract.writing import MAX_TEXT, Text

__all__ = ["extract_sheets"]

_MAIN = "xl/workbook.xml"
_LETTERS = re.compile(r"[A-Z]{1,3}")
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""Numbers of formats that every program knows without being told."""
_NOT_DATE = re.compile(r"\"[^\"]*+\"?|\\.|\[[^\]]*+\]?|General", re.IGNORECASE)
_EPOCHS = (datetime(1899, 12, 30), datetime(1904, 1, 1))  # noqa: DTZ001 - a sheet knows no zones


def extract_sheets(data: bytes) -> Extracted:
    archive = Archive(data, _MAIN)
    book = _Book()
    archive.parse(_MAIN, book.opened, _ignore, _ignore)
    related = archive.relations(_MAIN)
    shared = _Shared()
    archive.parse("xl/sharedStrings.xml", shared.opened, shared.closed, shared.text)
    styles = _Formats()
    archive.parse("xl/styles.xml", styles.opened, _ignore, _ignore)
    text, whole, left = Text(), True, MAX_TEXT
    for name, relation in book.sheets:
        sheet = _Sheet(shared.strings, styles.dates, _EPOCHS[book.since_1904])
        archive.parse(related.get(relation, ("", ""))[1], sheet.opened, sheet.closed, sheet.text)
        lines, all_of_it = lines_of(sheet.rows, left)
        whole = whole and all_of_it
        left -= sum(map(len, lines))
        if not lines:
            continue
        try:
            text.add(name, level=1)
            for line in lines:
                text.add(line, row=True)
        except Full:
            whole = False
            break
    return Extracted(
        title=archive.title(),
        text=str(text),
        headings=tuple(text.headings),
        truncated=archive.truncated or not whole,
    )


def _ignore(_: str) -> None:
    """Of no interest."""


class _Book:
    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.since_1904 = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "sheet" and given.get("state", "visible") == "visible":
            self.sheets.append((given.get("name", ""), related_id(given)))
        elif tag == "workbookPr":
            self.since_1904 = given.get("date1904") in ("1", "true")


class _Shared:
    """Texts that cells refer to by number. How a word is pronounced is left out."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._reading = self._spoken = False

    def opened(self, tag: str, _: Mapping[str, str]) -> None:
        if tag == "si":
            self._parts = []
        elif tag == "rPh":
            self._spoken = True
        self._reading = tag == "t" and not self._spoken

    def closed(self, tag: str) -> None:
        self._reading = False
        if tag == "rPh":
            self._spoken = False
        elif tag == "si":
            self.strings.append("".join(self._parts))

    def text(self, data: str) -> None:
        if self._reading:
            self._parts.append(data)


class _Formats:
    """Which formats of cells show a number as a date."""

    def __init__(self) -> None:
        self.dates: list[bool] = []
        self._own: dict[str, bool] = {}
        self._cells = False

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        number = given.get("numFmtId", "")
        if tag == "numFmt":
            left = _NOT_DATE.sub("", given.get("formatCode", "")).lower()
            self._own[number] = any(one in left for one in "ymdhs") and "0.0" not in left
        elif tag in ("cellXfs", "cellStyleXfs"):
            self._cells = tag == "cellXfs"
        elif tag == "xf" and self._cells:
            self.dates.append(self._own.get(number, number.isdecimal() and int(number) in _DATES))


class _Sheet:
    def __init__(self, strings: list[str], dates: list[bool], epoch: datetime) -> None:
        self.rows: list[list[Cell]] = []
        self._strings = strings
        self._dates = dates
        self._epoch = epoch
        self._row: list[Cell] = []
        self._column = 0
        self._kind = ""
        self._date = self._reading = False
        self._parts: list[str] = []

    def opened(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "row":
            self._row, self._column = [], -1
        elif tag == "c":
            self._kind, self._parts = given.get("t", "n"), []
            style = given.get("s", "")
            self._date = style.isdecimal() and int(style) < len(self._dates) and self._dates[int(style)]
            self._column = _column(given.get("r", ""), self._column + 1)
        elif tag in ("v", "t"):
            self._reading = True

    def closed(self, tag: str) -> None:
        if tag in ("v", "t"):
            self._reading = False
        elif tag == "c" and self._parts:
            self._row.append((self._column, self._value("".join(self._parts))))
        elif tag == "row" and self._row:
            self.rows.append(self._row)

    def text(self, data: str) -> None:
        if self._reading:
            self._parts.append(data)

    def _value(self, said: str) -> str:
        if self._kind == "s":
            return self._strings[int(said)] if said.isdecimal() and int(said) < len(self._strings) else ""
        if self._kind == "b":
            return "TRUE" if said == "1" else "FALSE"
        if self._kind == "e":
            return ""
        if self._kind == "n":
            return _number(said, self._epoch if self._date else None)
        return said


def _column(reference: str, next_one: int) -> int:
    """From `AB12`, counted from 0."""
    letters = _LETTERS.match(reference)
    if letters is None:
        return next_one
    column = 0
    for letter in letters[0]:
        column = column * 26 + ord(letter) - 64
    return column - 1


def _number(said: str, epoch: datetime | None) -> str:
    try:
        value = float(said)
        if epoch is None:
            return f"{value:.12g}" if "." in said or "e" in said.lower() else said
        moment = epoch + timedelta(days=value)
    except (ValueError, OverflowError):
        return said
    if 0 <= value < 1:
        return f"{moment:%H:%M}"
    return moment.date().isoformat() if moment.time() == datetime.min.time() else f"{moment:%Y-%m-%d %H:%M}"
