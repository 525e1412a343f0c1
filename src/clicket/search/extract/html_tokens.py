"""HTML as a flat sequence of texts and tags, split as browsers split it, in one pass: time and memory are linear.

Nothing is refused. A tag or comment that is never closed reaches to the end, as in a browser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Literal

__all__ = ["Token", "attributes", "tokens", "unescape"]

Kind = Literal["text", "open", "close"]


Token = tuple[Kind, str, str]
"""The kind, the tag's name, and the raw source: the attributes of a tag, or a text."""

_MAX_ATTRIBUTES = 4096  # characters of a tag that are kept
_NAME = re.compile(r"[a-zA-Z][^\s/>]{0,40}+")
_STOP = re.compile(r"[>\"']")
_ATTRIBUTE = re.compile(r"([a-zA-Z][a-zA-Z:_-]{0,40}+)(?:\s{0,20}+=\s{0,20}+(\"[^\"]*+\"|'[^']*+'|[^\s\"'>]++))?")
_LONG_NUMBER = re.compile(r"&#([xX]?)([0-9a-fA-F]{9,}+);?")
_RAW = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII) for name in _RAW}
_SHOWN_RAW = frozenset({"title", "textarea", "xmp"})


def tokens(text: str) -> Iterator[Token]:
    """The texts and tags of a page, without comments, declarations, scripts and styles."""
    at = 0
    size = len(text)
    while at < size:
        less = text.find("<", at)
        if less < 0:
            yield "text", "", text[at:]
            return
        if less > at:
            yield "text", "", text[at:less]
        mark = text[less + 1 : less + 2]
        if mark.isascii() and mark.isalpha():
            name, attributes, at = _tag(text, less + 1)
            if at < 0:
                return
            yield "open", name, attributes
            if name in _RAW_END:
                found = _RAW_END[name].search(text, at)
                end = found.start() if found else size
                if name in _SHOWN_RAW:
                    yield "text", "", text[at:end]
                at = end
        elif mark == "/" and _NAME.match(text, less + 2):
            name, _, at = _tag(text, less + 2)
            if at < 0:
                return
            yield "close", name, ""
        elif mark in ("!", "?", "/") and mark:
            at = _comment_end(text, less)
            if at < 0:
                return
        else:
            yield "text", "", "<"
            at = less + 1


def _tag(text: str, at: int) -> tuple[str, str, int]:
    """The name and the attributes of a tag, and the offset behind it; -1 when the tag is never closed."""
    found = _NAME.match(text, at)
    assert found is not None
    start = since = place = found.end()
    while True:
        stop = _STOP.search(text, place)
        if stop is None:
            return "", "", -1
        where = stop.start()
        if text[where] == ">":
            attributes = text[start : min(where, start + _MAX_ATTRIBUTES)]
            return found[0].lower(), attributes, where + 1
        place = where + 1
        before = where - 1
        while before >= since and text[before].isspace():
            before -= 1
        if before >= since and text[before] == "=":  # else it is a stray quote, which browsers ignore
            closed = text.find(text[where], place)
            if closed < 0:
                return "", "", -1
            place = since = closed + 1


def _comment_end(text: str, less: int) -> int:
    """The offset behind a comment, a declaration or a processing instruction; -1 when it is never closed."""
    if not text.startswith("<!--", less):
        end = text.find(">", less)
        return end + 1 if end >= 0 else -1
    if text.startswith(("<!-->", "<!--->"), less):
        return text.index(">", less) + 1
    end = text.find("-->", less + 4)
    return end + 3 if end >= 0 else -1


def attributes(written: str) -> dict[str, str]:
    """The attributes of a tag. Of two with one name the first counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(written):
        value = match[2] or ""
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        found.setdefault(match[1].lower(), unescape(value))
    return found


def unescape(text: str) -> str:
    """Replace character references. Their numbers are shortened first: Python refuses to convert very long ones."""
    if "&" not in text:
        return text
    return html.unescape(_LONG_NUMBER.sub(_bounded, text))


def _bounded(number: re.Match[str]) -> str:
    digits = number[2].lstrip("0")
    return f"&#{number[1]}{digits or 0};" if len(digits) < 8 else "\ufffd"
