"""The numbers that a text names, in one form, so that "1,200,000", "1.2 million" and "120万" are the same."""

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
_UNIT = "|".join(_UNITS)
_NUMBER = re.compile(rf"(?P<digits>{_DIGITS})(?:[\s-]*(?P<unit>{_UNIT}))?")
_WORDS = re.compile(
    rf"\b(?P<word>{'|'.join(_NAMED)})\b(?:[\s-]+(?P<unit>hundred|thousand|million|billion|trillion)\b)?"
)
_HAN_RUN = re.compile(rf"(?P<run>[{''.join(_HAN)}]{{1,6}})(?P<unit>[百千万萬亿億])?")
_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})\b")


def numbers_in(text: str, *, said: bool = True) -> frozenset[str]:
    """`said`: what a statement claims. Otherwise what a source gives, which is more: a month is its number too.

    Only digits and words that are surely meant as numbers are claimed: not "one", and not the Chinese "一", which are
    as often an article.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    made = {_value(re.sub("[,' ]", "", one["digits"]), one["unit"]) for one in _NUMBER.finditer(plain)}
    for one in _WORDS.finditer(plain):
        if one["unit"] or not said or _NAMED[one["word"]] > 1:
            made.add(_value(str(_NAMED[one["word"]]), one["unit"]))
    if not said:
        # "in room 12 345 people": what may be one number may also be two.
        for one in _NUMBER.finditer(plain):
            if " " in one["digits"]:
                made |= {_value(run, None) for run in one["digits"].split()}
        made |= {str(_MONTHS.index(one.group()) + 1) for one in _MONTH.finditer(plain)}
        made |= {_value(_han(one["run"]), one["unit"]) for one in _HAN_RUN.finditer(plain)}
    return frozenset(made)


def _han(run: str) -> str:
    """二十三 is 23, 十九 is 19; a run without ten is a row of digits, as years are written: 一九九〇."""
    head, ten, tail = run.partition("十")
    if not ten:
        return "".join(str(_HAN[mark]) for mark in run)
    return f"{_HAN[head[-1]] if head else 1}{_HAN[tail[0]] if tail and tail[0] != '十' else 0}"


def _value(digits: str, unit: str | None) -> str:
    value = Decimal(digits[:40]).scaleb(_UNITS[unit] if unit else 0)
    return f"{value.normalize():f}"
