"""Where texts are cut: the text of a file into documents, and the text of a document into passages.

Pieces are adjacent and together are the whole text. They end where a reader would stop: a passage does not reach beyond its
section, unless both are short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from clicket.model.document import Span
from clicket.search.extract.extracted_text import Extracted, Heading

__all__ = ["MAX_PART", "MAX_PASSAGE", "Part", "parts_of", "passages"]

MAX_PART = 200_000
"""Characters of one document that is made of a file."""
TARGET, MAX_PASSAGE = 2_000, 3_000
"""Characters of a passage. A section of up to `MAX_PASSAGE` is one passage."""
MIN_SECTION = 700
"""Characters. Shorter sections are joined with the next ones."""
_MAX_HEADINGS = 300
_PART_BORDERS = ("\f", "\n\n", "\n", " ")
_PASSAGE_BORDERS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？；][」』”’）]*\s*"),
    re.compile(r"\s+|[，、,;]\s*"),
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file's text. `number` counts from 1; `page` is the page on which it begins.

    `headings` are offsets in the piece, each with the headings that hold from there.
    """

    number: int
    page: int
    text: str
    headings: tuple[tuple[int, str], ...]


def parts_of(extracted: Extracted) -> Iterator[Part]:
    """The text of a file in parts of at most `MAX_PART`. A form feed ends a page."""
    paths = _heading_paths(extracted.headings, extracted.title)
    start = 0
    number = 1
    page = 1
    used = 0
    while True:
        end = _part_end(extracted.text, start)
        first = max(used - 1, 0)  # the last heading of the part before also holds at the begin of this one
        while used < len(paths) and paths[used][0] < end:
            used += 1
        headings = tuple((max(offset - start, 0), path) for offset, path in paths[first:used] if path)
        text = extracted.text[start:end]
        yield Part(number=number, page=page, text=text, headings=headings)
        if end >= len(extracted.text):
            return
        page += text.count("\f")
        start, number = end, number + 1


def passages(text: str, sections: Iterable[int] = ()) -> list[Span]:
    """The text in spans of at most `MAX_PASSAGE`. `sections` are the offsets at which sections begin, in order. An empty text has
    one empty span."""
    spans: list[Span] = []
    start = 0
    for border in (*sections, len(text)):
        if border - start < MIN_SECTION and border < len(text):
            continue
        while border - start > MAX_PASSAGE:
            end = _passage_end(text, start, border)
            spans.append((start, end))
            start = end
        if start < border or not spans:
            spans.append((start, border))
        start = max(start, border)
    return spans


def _part_end(text: str, start: int) -> int:
    """The end of a page, a paragraph, a line or a word, whichever is found first in this order."""
    if len(text) - start <= MAX_PART:
        return len(text)
    for border in _PART_BORDERS:
        found = text.rfind(border, start + MAX_PART // 2, start + MAX_PART)
        if found >= 0:
            return found + len(border)
    return start + MAX_PART


def _passage_end(text: str, start: int, stop: int) -> int:
    """The strongest border near the target; of equal ones the nearest."""
    low = start + TARGET // 2
    high = min(start + MAX_PASSAGE, stop)
    for pattern in _PASSAGE_BORDERS:
        ends = [match.end() for match in pattern.finditer(text, low, high)]
        if ends:
            return min(ends, key=lambda end: (abs(end - start - TARGET), end))
    return start + TARGET


def _heading_paths(headings: tuple[Heading, ...], title: str) -> list[tuple[int, str]]:
    """For each heading its offset, and the heading behind those above it. The title is left out: it is indexed anyway."""
    stack: list[Heading] = []
    paths = []
    for heading in headings:
        while stack and stack[-1].level >= heading.level:
            stack.pop()
        stack.append(heading)
        path = " > ".join(above.text for above in stack if above.text != title)
        paths.append((heading.start, path[-_MAX_HEADINGS:]))
    return paths
