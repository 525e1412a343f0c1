"""The numbers in a text, in one form: "1,200,000", "1.2 million" and "120万" are equal.

Months are not numbers: "12 December" does not contain "11 November", and "2 March" equals 1990-03-02 in day and month.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

__all__ = ["numbers_in"]

_UNITS = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12,
    "百": 2, "千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8,
}  # fmt: skip
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
_TENS = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_NAMED = {word: value for value, word in enumerate(_SMALL)} | _TENS
_MONTHS = "january february march april may june july august september october november december".split()
_HAN = {mark: value for value, mark in enumerate("零一二三四五六七八九十")} | {"两": 2, "〇": 0}

_DIGITS = r"\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_NUMBER = re.compile(rf"(?P<digits>{_DIGITS})(?:[\s-]*(?P<unit>{'|'.join(_UNITS)}))?")
_WORDS = re.compile(
    rf"\b(?P<word>{'|'.join(_NAMED)})(?:(?<=ty)[\s-](?P<ones>{'|'.join(_SMALL[1:10])}))?\b"
    r"(?:[\s-]+(?P<unit>hundred|thousand|million|billion|trillion)\b)?"
)
_HAN_RUN = re.compile(rf"(?P<run>[{''.join(_HAN)}]{{1,6}})(?P<unit>[百千万萬亿億]|月)?")
_DATE = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_HAN_MONTH = re.compile(r"(?<!\d)(\d{1,2})\s?月")
_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})\b")


def numbers_in(text: str, *, claimed: bool = True) -> frozenset[str]:
    """`claimed`: the numbers that a statement certainly claims; else all numbers that a source may contain.

    "one" and the Chinese "一" are not claimed, because they are often articles; nor is "may" as a month.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    numbers: set[str] = set()
    plain = _DATE.sub(lambda one: f"{one[1]}{_month_of(one[2])}{one[3]}", plain)
    plain = _HAN_MONTH.sub(lambda one: _month_of(one[1]), plain)
    numbers |= {_month(one.group()) for one in _MONTH.finditer(plain) if not claimed or one.group() != "may"}
    for one in _NUMBER.finditer(plain):
        numbers.add(_value(re.sub("[,' ]", "", one["digits"]), one["unit"]))
        # "in room 12 345 people": one number, or two.
        if not claimed and " " in one["digits"]:
            numbers |= {_value(run, None) for run in one["digits"].split()}
    for one in _WORDS.finditer(plain):
        value = _NAMED[one["word"]] + (_NAMED[one["ones"]] if one["ones"] else 0)
        if one["unit"] or not claimed or value > 1:
            numbers.add(_value(str(value), one["unit"]))
    if not claimed:
        numbers |= {_han(one["run"], one["unit"]) for one in _HAN_RUN.finditer(plain)}
    return frozenset(numbers)


def _month(name: str) -> str:
    return f"month {name}"


def _month_of(number: str) -> str:
    return f" {_MONTHS[int(number) - 1] if 1 <= int(number) <= 12 else number} "


def _han(run: str, unit: str | None) -> str:
    """二十三 is 23, 十九 is 19. A run without 十 is a row of digits, as in years: 一九九〇."""
    head, ten, tail = run.partition("十")
    digits = "".join(str(_HAN[mark]) for mark in run)
    if ten:
        digits = f"{_HAN[head[-1]] if head else 1}{_HAN[tail[0]] if tail and tail[0] != '十' else 0}"
    if unit == "月":
        return _month(_MONTHS[int(digits) - 1]) if 1 <= int(digits) <= 12 else digits
    return _value(digits, unit)


def _value(digits: str, unit: str | None) -> str:
    value = Decimal(digits[:40]).scaleb(_UNITS[unit] if unit else 0)
    return f"{value.normalize():f}"
