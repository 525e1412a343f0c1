"""Lone surrogates, which a text that was cut or decoded badly may hold, and which cannot be written as UTF-8."""

from __future__ import annotations

import re

__all__ = ["clean"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace each lone surrogate by one character, so that offsets stay valid."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text
