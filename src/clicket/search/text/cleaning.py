"""Texts that anybody may have cut: half characters, which no JSON and no file can carry, become one sign each."""

from __future__ import annotations

import re

__all__ = ["clean", "is_whole"]

_HALF = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """One sign for each half, so that places stay where they are."""
    return text if text.isascii() or is_whole(text) else _HALF.sub("\N{REPLACEMENT CHARACTER}", text)


def is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
