"""A text cut into passages that are ranked one by one. They lie side by side, lose nothing, and end where a reader would stop."""

from __future__ import annotations

import re

from clicket.model.document import Span

__all__ = ["LONGEST", "TARGET", "passages"]

TARGET, LONGEST = 2_000, 3_000
"""Characters. A text up to the longest is one passage."""

_BORDERS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？；][」』”’）]*\s*"),
    re.compile(r"\s+|[，、,;]\s*"),
)


def passages(text: str) -> list[Span]:
    """Spans that together are the whole text; an empty text has one empty span."""
    spans: list[Span] = []
    at = 0
    while len(text) - at > LONGEST:
        end = _border(text, at)
        spans.append((at, end))
        at = end
    spans.append((at, len(text)))
    return spans


def _border(text: str, at: int) -> int:
    """The best place to stop: the strongest border near the target, of equal ones the nearest."""
    low, high = at + TARGET // 2, at + LONGEST
    for pattern in _BORDERS:
        ends = [match.end() for match in pattern.finditer(text, low, high)]
        if ends:
            return min(ends, key=lambda end: (abs(end - at - TARGET), end))
    return at + TARGET
