"""Text from outside as it may be printed: no control character in it moves a cursor or makes a line of its own."""

from __future__ import annotations

import re

__all__ = ["escaped", "escaped_json"]

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str, *, lines: bool = False) -> str:
    """Control characters as escapes: `\\x1b`, `\\n`. `lines`: line breaks and tabs stay."""

    def escape(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] in "\n\t" else found[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escape, text)


def escaped_json(text: str) -> str:
    """JSON whose strings have no control characters and no separators of lines: the same value, safe to print."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
