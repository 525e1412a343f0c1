"""Finds e-mail addresses, phone numbers, card numbers and IBANs in a text. Numbers count only with a valid check digit, or in the form of
a phone number."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

__all__ = ["KINDS", "masked"]

Span = tuple[int, int]

_LETTER = r"A-Za-z\u00c0-\u024f\u0370-\u052f"
_EMAIL = re.compile(
    rf"(?<![{_LETTER}0-9._%+-])[{_LETTER}0-9._%+-]{{1,64}}@(?:[{_LETTER}0-9-]{{1,63}}\.){{1,8}}[{_LETTER}][{_LETTER}0-9-]{{1,62}}"
)
_BLANK = r" \u00a0\u2007\u2009\u202f"
_DASH = r"\-\u2010\u2011\u2013"
_GROUPED = re.compile(rf"\d(?:[{_BLANK}{_DASH}.]?\d)*")
_GROUP = re.compile(r"\d+")
_HASH = re.compile(r"(?<![A-Za-z0-9])(?=[0-9]*[a-f])[0-9a-f]{32,}(?![A-Za-z0-9])")
"""Such as names files that belong to a message: a number in one is not a card."""
_CARD = range(13, 20)
_IBAN = re.compile(rf"(?<![A-Za-z0-9])(?=([A-Za-z]{{2}}\d\d(?:[{_BLANK}{_DASH}]?[A-Za-z0-9]){{11,30}}))")
_PHONE = re.compile(rf"(?<![A-Za-z_.,+\d])[+(]?\d(?:[{_BLANK}{_DASH}./()]{{0,2}}\d){{6,16}}(?![A-Za-z_\d])(?![.,]\d)")
_NATIONAL = re.compile(rf"\(?0\d{{2,4}}\)?[{_BLANK}{_DASH}/]+\d")
_NORTH_AMERICAN = re.compile(rf"\(?[2-9]\d\d\)?[{_BLANK}{_DASH}.]{{1,2}}\d{{3}}[{_BLANK}{_DASH}.]\d{{4}}")
_CHINESE_MOBILE = re.compile(rf"1[3-9]\d[{_BLANK}{_DASH}]?\d{{4}}[{_BLANK}{_DASH}]?\d{{4}}")
_LENGTHS = {
    country: int(length)
    for length, countries in (
        entry.split(":")
        for entry in (
            "15:NO 16:BE 18:DK,FK,FI,FO,GL,NL,SD 19:MK,SI 20:AT,BA,EE,KZ,LT,LU,MN,XK 21:CH,HR,LI,LV 22:BG,BH,CR,DE,GB,GE,IE,ME,RS,VA"
            " 23:AE,GI,IL,IQ,OM,SO,TL 24:AD,CZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25:LY,PT,ST 26:IS,TR 27:BI,DJ,FR,GR,IT,MC,MR,SM"
            " 28:AL,AZ,BY,CY,DO,GT,HN,HU,LB,NI,PL,SV 29:BR,EG,PS,QA,UA 30:JO,KW,MU,YE 31:MT,SC 32:LC 33:RU"
        ).split()
    )
    for country in countries.split(",")
}
"""Characters of the IBANs of each country, by ISO 13616."""


def masked(text: str, kinds: Collection[str]) -> str:
    """The text with a word in brackets for each thing that was found."""
    for kind, find in _FINDERS.items():
        if kind in kinds:
            text = _replaced(text, find(text), f"[{kind}]")
    return text


def _replaced(text: str, found: Iterator[Span], word: str) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in found:
        parts += (text[end:start], word)
        end = stop
    return "".join((*parts, text[end:])) if parts else text


def _emails(text: str) -> Iterator[Span]:
    return (match.span() for match in _EMAIL.finditer(text))


def _ibans(text: str) -> Iterator[Span]:
    end = 0
    for match in _IBAN.finditer(text):
        start, candidate = match.start(1), match[1]
        length = _LENGTHS.get(candidate[:2].upper(), 0)
        places = [place for place, sign in enumerate(candidate) if sign.isalnum()]
        if start < end or not length or len(places) < length:
            continue
        stop = start + places[length - 1] + 1
        number = "".join(candidate[place] for place in places[:length])
        if not text[stop : stop + 1].isalnum() and _is_iban(number):
            end = stop
            yield start, stop


def _is_iban(number: str) -> bool:
    moved = number[4:] + number[:4]
    return int("".join(str(int(sign, 36)) for sign in moved)) % 97 == 1


def _cards(text: str) -> Iterator[Span]:
    """Runs of whole groups of digits: a year or a code may stand right beside the number."""
    text = _HASH.sub(lambda found: "x" * len(found[0]), text)
    for run in _GROUPED.finditer(text):
        groups = [group.span() for group in _GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            last = max((last for last, number in _grown(text, groups, first) if _is_card(number)), default=None)
            if last is not None:
                yield groups[first][0], groups[last][1]
            first = first + 1 if last is None else last + 1


def _grown(text: str, groups: list[Span], first: int) -> Iterator[tuple[int, str]]:
    """Numbers that begin with a group, and the last group of each."""
    number = ""
    for last in range(first, min(first + _CARD.stop, len(groups))):
        start, stop = groups[last]
        if len(number) + stop - start >= _CARD.stop:
            return
        number += text[start:stop]
        if len(number) in _CARD:
            yield last, number


def _is_card(number: str) -> bool:
    """By the digit of Luhn, and by a first digit of a card of payment."""
    digits = [int(digit) for digit in reversed(number)]
    if digits[-1] not in (2, 3, 4, 5, 6):
        return False
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _phones(text: str) -> Iterator[Span]:
    for match in _PHONE.finditer(text):
        number = match[0]
        count = sum(sign.isdigit() for sign in number)
        international = number.startswith(("+", "(+", "00"))
        if (
            (international and 8 <= count <= 15 + 2 * number.startswith("00"))
            or (9 <= count <= 12 and _NATIONAL.match(number))
            or (count == 10 and _NORTH_AMERICAN.fullmatch(number))
            or (count == 11 and _CHINESE_MOBILE.fullmatch(number))
        ):
            yield match.span()


_FINDERS: dict[str, Callable[[str], Iterator[Span]]] = {
    "iban": _ibans,
    "email": _emails,
    "card": _cards,
    "phone": _phones,
}
KINDS = tuple(_FINDERS)
