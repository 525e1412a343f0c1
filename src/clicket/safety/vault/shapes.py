"""Well-known token shapes, as one table: finds what looks like a key or a password in a text. Markers are searched first.

Almost every text has no marker, so that substring tests are its whole cost. A pattern is tried only at the place of a marker, so that
a big text costs no more than these tests.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator

import msgspec

from clicket.model.codec import CUT_NOTE
from clicket.safety.vault.values import NO_VALUES, Values, open_value, places

__all__ = ["MASK", "has_marker", "hide_always", "open_from", "spans"]

MASK = "[secret]"
MIN_TOKEN = 16
"""Shorter texts are not searched: no token of any shape fits into them."""

_HELD_FROM = 3
"""A text that ends with this much of a marker may be the beginning of a token."""

# Not in the middle of a word, but after an escape: `%3Dsk-…` in a query, `\nsk-…` in the repr of a text.
_APART = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"
_ALNUM = string.ascii_letters + string.digits


class Shape(msgspec.Struct, frozen=True):
    """`whole` is tried where `marker` is found; its last group, or all of it, is masked.

    `tail` are the characters that may stand between the marker and the end of a text that was cut in the token, `start` what
    must hold at the marker then. Nothing here tries one place of a text for each marker in it: texts may be hostile.
    """

    marker: str
    whole: re.Pattern[str]
    tail: str
    start: re.Pattern[str]


def _shape(marker: str, whole: str, tail: str, start: str = "") -> Shape:
    return Shape(marker, re.compile(whole), tail, re.compile(start or re.escape(marker)))


def _token(marker: str, *, more: str = "_-", least: int = 16) -> Shape:
    return _shape(marker, f"{re.escape(marker)}[A-Za-z0-9{more}]{{{least},}}", _ALNUM + more)


def _word(marker: str, *, more: str = "_-", least: int = 16) -> Shape:
    """A marker so short that words end with it: it must stand apart, and what follows must not be words."""
    body = f"[A-Za-z0-9{more}]"
    start = _APART + re.escape(marker)
    return _shape(marker, f"{start}(?=[a-z{more}]{{0,64}}+[A-Z0-9]){body}{{{least},}}", _ALNUM + more, start)


_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_NAME = r"[^\s/@:?#\"'<>\\]"
_AFTER_NAME = r"[^\s/@?#\"'<>\\]"
_URL_OPEN = re.compile(rf"://{_NAME}*:{_AFTER_NAME}*\Z")
_PEM_OPEN = re.compile(rf"{_PEM}|-----BEGIN [A-Z0-9 ]{{0,60}}-{{0,4}}\Z")
_PEM_ENDS = re.compile(_PEM_END)
_JWT_RUN = re.compile(r"[A-Za-z0-9_-]*")

_SHAPES = (
    _word("sk-"),  # OpenAI, Anthropic (sk-ant-), and many others
    _word("ck_"),  # clicket's own
    _token("ckx_", least=40),  # tokens of external calls
    _token("ckc_", least=40),  # links to connect an account
    _word("hf_", more="", least=20),
    _word("npm_", more="", least=20),
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
    _shape("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}", _ALNUM + "-"),
    _shape("AKIA", "AKIA[A-Z0-9]{16,}", _ALNUM),
    _shape("ASIA", "ASIA[A-Z0-9]{16,}", _ALNUM),
    _token("AIza", least=30),
    _shape("eyJ", r"eyJ[A-Za-z0-9_-]{4,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", _ALNUM + "_-."),
    _shape("-----BEGIN ", rf"{_PEM}(?:[\s\S]*?{_PEM_END}|[\s\S]*)", ""),
    _shape(
        "earer ",
        r"(?<=[Bb])earer +(?=[A-Za-z0-9._~+/=-]*[A-Z0-9])([A-Za-z0-9._~+/=-]{16,})",
        _ALNUM + "._~+/=- ",
        r"(?<=[Bb])earer +[^ ]*\Z",
    ),
    _shape(
        "uthorization",
        r"uthorization[\"'\\]*\s*[:=]\s*[\"'\\]*Basic +([A-Za-z0-9+/_=-]{8,})",
        _ALNUM + "\"'\\:= +/_-",
        r"uthorization[\"'\\]*\s*[:=]\s*[\"'\\]*(?:B(?:a(?:s(?:i(?:c(?: +[^ ]*)?)?)?)?)?)?\Z",
    ),
    _shape("://", rf"://{_NAME}*:({_AFTER_NAME}+)@", ""),
    _shape("hooks.slack.com/", r"hooks\.slack\.com/[a-z]+/([A-Za-z0-9/_-]{16,})", _ALNUM + "/_-"),
)

_MARKERS = tuple(shape.marker for shape in _SHAPES)
_PARTS = ("A", "J", "z", ";", "-", "xo", " ", "/")
_UNDERSCORED_PARTS = ("k_", "gh", "")
"""A text without one of these has none of the markers that contain it. One character is found much faster than a marker."""


def _by_part(markers: Iterable[str], parts: tuple[str, ...]) -> tuple[tuple[str, list[str]], ...]:
    found: dict[str, list[str]] = {part: [] for part in parts}
    for marker in markers:
        found[next(part for part in parts if part in marker)].append(marker)
    return tuple(found.items())


_SEARCHED = [marker for marker in _MARKERS if marker != "://"]
_SEARCHES = _by_part(
    # The note is not a secret, but a text that contains it is looked at, too.
    [*(marker for marker in _SEARCHED if "_" not in marker), CUT_NOTE],
    _PARTS,
)
_UNDERSCORED = _by_part((marker for marker in _SEARCHED if "_" in marker), _UNDERSCORED_PARTS)
_BEGINNINGS = tuple(dict.fromkeys(marker[:size] for marker in _MARKERS for size in range(_HELD_FROM, len(marker))))


_always: list[str] = []


def hide_always(values: Iterable[str]) -> None:
    """Mask these values, too, from now on in this process: our own keys, which a tool may find in its environment."""
    _always.extend(value for value in values if len(value) >= MIN_TOKEN and value not in _always)


def has_marker(text: str) -> bool:
    """May there be a token in the text? False is certain; True means that patterns must be tried."""
    for part, markers in _SEARCHES:
        if part in text:
            for marker in markers:
                if marker in text:
                    return True
    if "_" in text:
        for part, markers in _UNDERSCORED:
            if part in text:
                for marker in markers:
                    if marker in text:
                        return True
    for value in _always:
        if value in text:
            return True
    return "@" in text and "://" in text


def spans(text: str, values: Values = NO_VALUES) -> list[tuple[int, int]]:
    """The places of secrets in a text, in order, merged where they touch."""
    found = list(_tokens(text)) if len(text) >= MIN_TOKEN and has_marker(text) else []
    if values:
        found += values.places(text)
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
    for value in _always:
        yield from places(text, value)
    for shape in _SHAPES:
        at = text.find(shape.marker)
        while at >= 0:
            match = shape.whole.match(text, at)
            after = at + 1
            if match is not None:
                yield match.span(shape.whole.groups)
                after = max(match.end(), after)
            elif shape.marker == "eyJ":  # where this one fails, the others of its run fail
                run = _JWT_RUN.match(text, at)
                after = max(run.end() if run is not None else 0, after)
            at = text.find(shape.marker, after)


def open_from(text: str, values: Values = NO_VALUES) -> int:
    """Where a secret may begin that continues in the next piece of the text; the text's length if nowhere."""
    first = len(text)
    if text.endswith(_BEGINNINGS):
        first = min(first - len(begun) for begun in _BEGINNINGS if text.endswith(begun))
    if has_marker(text) or "://" in text:
        first = min(first, *(_open_token(shape, text) for shape in _SHAPES))
    first = values.open_from(text, first)
    for value in _always:
        held = open_value(text, value, first)
        first = held if len(text) - held >= _HELD_FROM else first
    return first


def _open_token(shape: Shape, text: str) -> int:
    marker = shape.marker
    if marker not in text:
        return len(text)
    if marker == "://":  # no user and no password holds a slash, so only the last one can be open
        at = text.rfind(marker)
        return at if _URL_OPEN.match(text, at) else len(text)
    if marker == "-----BEGIN ":
        ended = max((end.end() for end in _PEM_ENDS.finditer(text)), default=0)
        at = text.find(marker, ended)
        while at >= 0 and not _PEM_OPEN.match(text, at):
            at = text.find(marker, at + 1)
        return at if at >= 0 else len(text)
    at = text.find(marker, max(len(text.rstrip(shape.tail)) - len(marker), 0))
    while at >= 0 and not shape.start.match(text, at):
        at = text.find(marker, at + 1)
    return at if at >= 0 else len(text)
