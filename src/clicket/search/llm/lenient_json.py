"""Reads JSON as models write it. Reading always ends, soon, with plain values or none.

Text is first read as strict JSON. Otherwise it may be fenced, stand among prose, have comments, single quotes, bare names, missing or
extra commas, or end in the middle: then what is open is closed. Non-finite numbers become None. Of a name that occurs twice the
last counts. Values that nest too deeply are dropped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["MAX_TEXT", "values_in"]

MAX_TEXT = 200_000
"""Characters of an answer that are read, ten times what an answer needs."""
_MAX_DEPTH = 32
_MAX_PLACES = 40
_MAX_STEPS = 50_000
"""Values in all. Reading stops there, as at the end of the text."""

_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPEN = re.compile(r"[{\[]")
_BLANK = re.compile(r"(?:[\s\ufeff\u200b]+|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*)*", re.DOTALL)
_BARE = re.compile(r"[^\s,:{}\[\]\"'“”]+")
_STRINGS = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)("|\\?\Z)', re.DOTALL),
    "'": re.compile(
        r"'((?:[^'\\]|\\.|'(?=\w))*)('|\\?\Z)", re.DOTALL
    ),  # an apostrophe inside a word does not end the string
    "“": re.compile(r"“((?:[^”\\]|\\.)*)(”|\\?\Z)", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None, "nan": None, "undefined": None}
_NUMBER = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?\Z")


class _Unreadable(Exception):
    """There is no value at this place."""


def values_in(text: str) -> Iterator[Any]:
    """Every value that the text may contain, the likeliest first."""
    text = _THINKING.sub("", text[:MAX_TEXT]).strip()
    fenced = [found.group(1).strip() for found in _FENCE.finditer(text)][:_MAX_PLACES]
    for whole in (text, *fenced):
        found, value = _strict(whole)
        if found:
            yield value
    steps = [_MAX_STEPS]
    for part in (*fenced, text):
        yield from _embedded(part, steps)


def _strict(text: str) -> tuple[bool, Any]:
    try:
        return True, json.loads(text, parse_constant=lambda _name: None, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError):
        return False, None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= 300 else None


def _embedded(text: str, steps: list[int]) -> Iterator[Any]:
    """Values that begin at a bracket; brackets inside a value that was read are skipped."""
    at, places = 0, 0
    while places < _MAX_PLACES and steps[0] > 0 and (found := _OPEN.search(text, at)) is not None:
        places += 1
        reader = _Reader(text, found.start(), steps)
        try:
            value = reader.value(0)
        except _Unreadable:
            at = found.end()
        else:
            at = max(reader.at, found.end())
            yield value


class _Reader:
    def __init__(self, text: str, at: int, steps: list[int]) -> None:
        self.text = text
        self.at = at
        self._steps = steps

    def value(self, depth: int) -> Any:
        self._steps[0] -= 1
        if depth > _MAX_DEPTH:
            raise _Unreadable
        mark = self._next()
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._list(depth)
        if mark in _STRINGS:
            return self._string(mark)
        return self._word()

    def _next(self) -> str:
        blank = _BLANK.match(self.text, self.at)
        if blank is not None:
            self.at = blank.end()
        return self.text[self.at : self.at + 1]

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        members: dict[str, Any] = {}
        while self._steps[0] > 0 and (mark := self._next()) not in ("", "}"):
            if mark in ",;":
                self.at += 1
                continue
            if mark in "{[]:":
                raise _Unreadable
            name = self._string(mark) if mark in _STRINGS else self._bare()
            if self._next() != ":":
                if self._next() == "":  # cut in the middle of a name
                    break
                raise _Unreadable
            self.at += 1
            if self._next() == "":
                break
            members[name] = None if self._next() in ",}" else self.value(depth + 1)
        self.at += 1
        return members

    def _list(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while self._steps[0] > 0 and (mark := self._next()) not in ("", "]"):
            if mark in ",;":
                self.at += 1
                continue
            if mark in "}:":
                raise _Unreadable
            items.append(self.value(depth + 1))
        self.at += 1
        return items

    def _string(self, mark: str) -> str:
        found = _STRINGS[mark].match(self.text, self.at)
        if found is None:
            raise _Unreadable
        self.at = found.end()
        text = _ESCAPE.sub(_unescape, found.group(1))
        # Two escapes may form one character; a lone half is replaced.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _bare(self) -> str:
        found = _BARE.match(self.text, self.at)
        if found is None:
            raise _Unreadable
        self.at = found.end()
        return found.group()

    def _word(self) -> Any:
        word = self._bare()
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        if _NUMBER.match(word):
            return _finite(word) if any(mark in word for mark in ".eE") else _whole(word)
        if word.lstrip("-+").lower() in ("inf", "infinity", "nan"):
            return None
        if self._next() == "":  # cut in the middle of a word
            return None
        raise _Unreadable


def _unescape(found: re.Match[str]) -> str:
    what = found.group(1)
    if what[0] == "u" and len(what) == 5:
        return chr(int(what[1:], 16))
    return _ESCAPES.get(what, what)
