"""Characters that a text must not have: lone surrogates, which cannot be written as UTF-8, and those that cannot be seen."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["clean", "one_line"]

_SURROGATE = re.compile("[\ud800-\udfff]")
# Control characters, lone surrogates, and invisible or direction-changing characters.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff\ud800-\udfff]+")


def clean(text: str) -> str:
    """Replace each lone surrogate by one character, so that offsets stay valid."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def one_line(value: Any, most: int) -> str:
    """The text in one line of at most `most` characters; empty if it is not a text."""
    if not isinstance(value, str):
        return ""
    return " ".join(_UNSEEN.sub(" ", value[: most * 4]).split())[:most].rstrip()
