"""Workbooks: each sheet under its name, each row a line that names its columns. Dates are written as dates, formulas as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from clicket.search.extract.archive import Archive, related_id
from clicket.search.extract.extracted_text import MAX_TEXT, Extracted, TextBuilder, TextLimitReached
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
    book = _Workbook()
    archive.parse(_MAIN, book.on_open)
    related = archive.relations(_MAIN)
    shared = _SharedStrings()
    archive.parse("xl/sharedStrings.xml", shared.on_open, shared.on_close, shared.on_text)
    formats = _Formats()
    archive.parse("xl/styles.xml", formats.on_open)
    text, complete, left = TextBuilder(), True, MAX_TEXT
    for name, relation in book.sheets:
        sheet = _Sheet(shared.strings, formats.dates, _EPOCHS[book.since_1904])
        archive.parse(related.get(relation, ("", ""))[1], sheet.on_open, sheet.on_close, sheet.on_text)
        lines, all_rows = lines_of(sheet.rows, left)
        complete = complete and all_rows
        left -= sum(map(len, lines))
        if not lines:
            continue
        try:
            text.add(name, level=1)
            for line in lines:
                text.add(line, row=True)
        except TextLimitReached:
            complete = False
            break
    return text.build(archive.title(), truncated=archive.truncated or not complete)


class _Workbook:
    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.since_1904 = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sheet" and attributes.get("state", "visible") == "visible":
            self.sheets.append((attributes.get("name", ""), related_id(attributes)))
        elif tag == "workbookPr":
            self.since_1904 = attributes.get("date1904") in ("1", "true")


class _SharedStrings:
    """Texts that cells refer to by number. Phonetic readings are left out."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._in_text = self._phonetic = False

    def on_open(self, tag: str, _: Mapping[str, str]) -> None:
        if tag == "si":
            self._parts = []
        elif tag == "rPh":
            self._phonetic = True
        self._in_text = tag == "t" and not self._phonetic

    def on_close(self, tag: str) -> None:
        self._in_text = False
        if tag == "rPh":
            self._phonetic = False
        elif tag == "si":
            self.strings.append("".join(self._parts))

    def on_text(self, data: str) -> None:
        if self._in_text:
            self._parts.append(data)


class _Formats:
    """For each cell format, whether it shows a number as a date."""

    def __init__(self) -> None:
        self.dates: list[bool] = []
        self._own: dict[str, bool] = {}
        self._cells = False

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        number = attributes.get("numFmtId", "")
        if tag == "numFmt":
            left = _NOT_DATE.sub("", attributes.get("formatCode", "")).lower()
            self._own[number] = any(one in left for one in "ymdhs") and "0.0" not in left
        elif tag in ("cellXfs", "cellStyleXfs"):
            self._cells = tag == "cellXfs"
        elif tag == "xf" and self._cells:
            self.dates.append(self._own.get(number, number.isdecimal() and int(number) in _DATE_FORMATS))


class _Sheet:
    def __init__(self, strings: list[str], dates: list[bool], epoch: datetime) -> None:
        self.rows: list[list[Cell]] = []
        self._strings = strings
        self._dates = dates
        self._epoch = epoch
        self._row: list[Cell] = []
        self._column = 0
        self._type = ""
        self._date = self._in_text = False
        self._parts: list[str] = []

    def on_open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "row":
            self._row, self._column = [], -1
        elif tag == "c":
            self._type, self._parts = attributes.get("t", "n"), []
            style = attributes.get("s", "")
            self._date = style.isdecimal() and int(style) < len(self._dates) and self._dates[int(style)]
            self._column = _column(attributes.get("r", ""), self._column + 1)
        elif tag in ("v", "t"):
            self._in_text = True

    def on_close(self, tag: str) -> None:
        if tag in ("v", "t"):
            self._in_text = False
        elif tag == "c" and self._parts:
            self._row.append((self._column, self._value("".join(self._parts))))
        elif tag == "row" and self._row:
            self.rows.append(self._row)

    def on_text(self, data: str) -> None:
        if self._in_text:
            self._parts.append(data)

    def _value(self, written: str) -> str:
        if self._type == "s":
            return self._strings[int(written)] if written.isdecimal() and int(written) < len(self._strings) else ""
        if self._type == "b":
            return "TRUE" if written == "1" else "FALSE"
        if self._type == "e":
            return ""
        if self._type == "n":
            return _number(written, self._epoch if self._date else None)
        return written


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
