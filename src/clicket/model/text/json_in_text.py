"""The JSON values that a model's text has: the whole text, in code fences, or among prose.

Nothing is repaired and nothing ambiguous is guessed: a key that is written twice, NaN and a text that ends in the middle are refused. Each
character is read a bounded number of times.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

__all__ = ["MAX_TEXT", "FoundJson", "json_in_text"]

MAX_TEXT = 1_000_000
"""Characters of a text that is read."""
_MAX_PLACES = 100
"""Places in a text where JSON may begin."""
_BLANK = " \t\r\n\ufeff\u200b"

_THINKING = re.compile(r"\A\s*<(think(?:ing)?)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_PLACE = re.compile(
    # A bracket that looks like the beginning of JSON, not of a remark.
    r"(?P<object>\{(?=\s*+[\"}]))|(?P<array>\[(?=\s*+(?:[\[{\"\]\-0-9]|null\b|true\b|false\b)))"
    r"|(?P<fence>```(?:json\b)?[ \t]*+(?=[\r\n{\[]))|(?P<other>```[^\s`{\[]++)",
    re.IGNORECASE,
)
_CLOSED = re.compile(r"\s*+(?:```|\Z)")
_REST_OF_LINE = re.compile(r"[ \t`*.]*+(?:[\r\n]|\Z)")


class FoundJson(msgspec.Struct, frozen=True):
    """`values`: what may be the answer, all of them equally likely. `broken`: why the text is not an answer, if it has begun JSON that
    cannot be read; then there are no values."""

    values: tuple[Any, ...] = ()
    broken: str = ""


class _Refused(ValueError):
    """Valid JSON that says two things, or a number that JSON does not have."""


def json_in_text(text: str) -> FoundJson:
    """A text that is JSON is its only value. Else values in fences count, and if there are none, objects among prose and arrays on lines
    of their own."""
    if len(text) > MAX_TEXT:
        return FoundJson(broken=f"it has {len(text):,} characters, and at most {MAX_TEXT:,} are read")
    text = _THINKING.sub("", text, count=1).strip(_BLANK)
    try:
        return FoundJson(values=(_decoder.decode(text),))
    except (ValueError, RecursionError):
        return _in_places(text)


def _in_places(text: str) -> FoundJson:
    fenced: list[Any] = []
    among_prose: list[Any] = []
    broken, at = "", 0
    for _ in range(_MAX_PLACES):
        place = _PLACE.search(text, at)
        if place is None:
            break
        kind = place.lastgroup
        start = place.start()
        if kind == "other":  # code in another language
            at = _after_fence(text, place.end())
            continue
        if kind == "fence":
            start = _begin(text, place.end())
        try:
            value, at = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if kind == "fence":
                is_json = text[start : start + 1] in ("{", "[")
                broken, at = _reason(error) if is_json else broken, _after_fence(text, start)
                continue
            broken = _reason(error)
            # What follows may be a part of this value, and a part is not the answer.
            if kind == "object" or isinstance(error, RecursionError):
                return FoundJson(broken=broken)
            at = start + 1
            continue
        if kind == "fence":
            closing = _CLOSED.match(text, at)
            if closing is None:
                broken, at = "not valid JSON: the code block has more text after the JSON value", _after_fence(text, at)
            else:
                fenced.append(value)
                at = closing.end()
        elif kind == "object" or _is_alone(text, start, at):
            among_prose.append(value)
    else:
        return FoundJson(broken=f"it has more than {_MAX_PLACES} places that look like JSON")
    if fenced:
        return FoundJson(values=tuple(fenced))
    return FoundJson(broken=broken) if broken else FoundJson(values=tuple(among_prose))


def _is_alone(text: str, start: int, end: int) -> bool:
    """Does the value have its lines to itself? An array in a line of prose is rather a reference such as `[1]`."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return not before.strip(" \t`*") and _REST_OF_LINE.match(text, end) is not None


def _after_fence(text: str, at: int) -> int:
    end = text.find("```", at)
    return len(text) if end < 0 else end + 3


def _begin(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, _Refused) else f"not valid JSON: {error}"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # it adds
        raise _Refused(f"the key {json.dumps(twice[:100], ensure_ascii=False)} appears more than once in one object")
    return made


def _no_constant(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused(f"the number {text[:40]} is out of range")
    return value


# Not strict: models write line ends into strings, which can mean nothing else.
_decoder = json.JSONDecoder(strict=False, object_pairs_hook=_pairs, parse_constant=_no_constant, parse_float=_finite)
