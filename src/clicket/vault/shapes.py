"""Well-known token shapes: where a text holds what looks like somebody's key. One table; markers are found first, then judged.

Almost every text has no marker, and a substring test is all it costs. Only where a marker stands is a pattern tried, at that
place, so the cost of a big text does not depend on how much of it there is between markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

__all__ = ["MASK", "has_marker", "open_from", "spans"]

MASK = "[secret]"
MIN_TOKEN = 16
"""Shorter texts are not looked at: no token of any shape fits into them."""

MIN_VALUE = 4
"""Declared values that are shorter are hidden in their fields, and not looked for anywhere else."""

_HELD_FROM = 3
"""A text that ends with this much of a marker may be the beginning of a token."""

# Not in the middle of a word, but after an escape: `%3Dsk-…` in a query, `\nsk-…` in the repr of a text.
_APART = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"
_WORD = "[A-Za-z0-9_-]"
_MIXED = rf"(?={_WORD}*[A-Z0-9])"  # `sk-learn-compatible-estimators` is no key


class Shape(msgspec.Struct, frozen=True):
    """`whole` and `rest` are tried where `marker` stands; the last group of `whole`, or all of it, is what is hidden.

    `rest` matches what goes on to the end of the text: the token may be longer than what is there.
    """

    marker: str
    whole: re.Pattern[str]
    rest: re.Pattern[str]


def _token(marker: str, *, head: str = "", body: str = _WORD, least: int = 16, apart: bool = False) -> Shape:
    start = (_APART if apart else "") + (head or re.escape(marker))
    mixed = _MIXED if apart else ""
    return Shape(marker, re.compile(f"{start}{mixed}{body}{{{least},}}"), re.compile(rf"{start}{body}*\Z"))


_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_NAME = r"[^\s/@:?#\"'<>\\]"
_AFTER_NAME = r"[^\s/@?#\"'<>\\]"

_SHAPES = (
    _token("sk-", apart=True),  # OpenAI, Anthropic (sk-ant-), and many who follow them
    _token("ck_", apart=True),  # clicket's own
    _token("hf_", apart=True, body="[A-Za-z0-9]", least=20),
    _token("npm_", apart=True, body="[A-Za-z0-9]", least=20),
    _token("sk_live_"),
    _token("rk_live_"),
    _token("sk_test_"),
    _token("whsec_"),
    _token("ghp_"),
    _token("gho_"),
    _token("ghu_"),
    _token("ghs_"),
    _token("ghr_"),
    _token("github_pat_"),
    _token("glpat-"),
    _token("pypi-AgE"),
    Shape("xox", re.compile(r"xox[abeoprs]-[A-Za-z0-9-]{10,}"), re.compile(r"xox(?:[abeoprs](?:-[A-Za-z0-9-]*)?)?\Z")),
    _token("AKIA", body="[A-Z0-9]"),
    _token("ASIA", body="[A-Z0-9]"),
    _token("AIza", least=30),
    Shape(
        "eyJ",
        re.compile(r"eyJ[A-Za-z0-9_-]{4,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
        re.compile(r"eyJ[A-Za-z0-9_-]*(?:\.(?:e(?:y(?:J[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)?)?)?)?)?\Z"),
    ),
    Shape(
        "-----BEGIN ",
        re.compile(rf"{_PEM}(?:[\s\S]*?{_PEM_END}|[\s\S]*)"),
        re.compile(rf"-----BEGIN (?:[A-Z0-9 ]{{0,60}}-{{0,4}}\Z|{_PEM[11:]}(?![\s\S]*?{_PEM_END}))"),
    ),
    Shape(
        "earer ",
        re.compile(r"(?<=[Bb])earer +(?=[A-Za-z0-9._~+/=-]*[A-Z0-9])([A-Za-z0-9._~+/=-]{16,})"),
        re.compile(r"(?<=[Bb])earer +[A-Za-z0-9._~+/=-]*\Z"),
    ),
    Shape(
        "uthorization",
        re.compile(r"uthorization[\"'\\]*\s*[:=]\s*[\"'\\]*Basic +([A-Za-z0-9+/_=-]{8,})"),
        re.compile(r"uthorization[\"'\\]*\s*[:=]\s*[\"'\\]*(?:B(?:a(?:s(?:i(?:c(?: +[A-Za-z0-9+/_=-]*)?)?)?)?)?)?\Z"),
    ),
    Shape(
        "://",
        re.compile(rf"://{_NAME}*:({_AFTER_NAME}+)@"),
        re.compile(rf"://{_NAME}*:{_AFTER_NAME}*\Z"),
    ),
    Shape(
        "hooks.slack.com/",
        re.compile(r"hooks\.slack\.com/[a-z]+/([A-Za-z0-9/_-]{16,})"),
        re.compile(r"hooks\.slack\.com/[a-z]*(?:/[A-Za-z0-9/_-]*)?\Z"),
    ),
)

_MARKERS = tuple(shape.marker for shape in _SHAPES)
_WITH_UNDERSCORE = tuple(marker for marker in _MARKERS if "_" in marker)
_WITH_DASH = tuple(marker for marker in _MARKERS if "-" in marker)
_PLAIN = tuple(marker for marker in _MARKERS if "_" not in marker and "-" not in marker and marker != "://")
_BEGINNINGS = tuple(dict.fromkeys(marker[:size] for marker in _MARKERS for size in range(_HELD_FROM, len(marker))))


def has_marker(text: str) -> bool:
    """May there be a token in the text? Most often not, and then this is all that is asked."""
    for marker in _PLAIN:
        if marker in text:
            return True
    if "-" in text:
        for marker in _WITH_DASH:
            if marker in text:
                return True
    if "_" in text:
        for marker in _WITH_UNDERSCORE:
            if marker in text:
                return True
    return "://" in text and "@" in text


def spans(text: str, values: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Where secrets stand in a text, in order, none touching another."""
    found = list(_tokens(text)) if len(text) >= MIN_TOKEN and has_marker(text) else []
    for value in values:
        at = text.find(value)
        while at >= 0:
            found.append((at, at + len(value)))
            at = text.find(value, at + 1)
    if len(found) < 2:
        return found
    found.sort()
    merged = [found[0]]
    for start, end in found[1:]:
        last = merged[-1]
        if start <= last[1]:
            merged[-1] = (last[0], max(last[1], end))
        else:
            merged.append((start, end))
    return merged


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    for shape in _SHAPES:
        at = text.find(shape.marker)
        while at >= 0:
            match = shape.whole.match(text, at)
            if match is not None:
                yield match.span(shape.whole.groups)
            at = text.find(shape.marker, at + 1 if match is None else max(match.end(), at + 1))


def open_from(text: str, values: Sequence[str] = ()) -> int:
    """Where the text's end may be the beginning of a secret that goes on in the next piece; its length if nowhere."""
    first = len(text)
    if text.endswith(_BEGINNINGS):
        first = min(first - len(begun) for begun in _BEGINNINGS if text.endswith(begun))
    if has_marker(text) or "://" in text:
        for shape in _SHAPES:
            at = text.find(shape.marker)
            while 0 <= at < first:
                if shape.rest.match(text, at) is not None:
                    first = at
                at = text.find(shape.marker, at + 1)
    for value in values:
        at = text.find(value[0], max(len(text) - len(value) + 1, 0))
        while 0 <= at < first:
            if value.startswith(text[at:]):
                first = at
            at = text.find(value[0], at + 1)
    return first
