"""A file's text as documents: long ones in parts, each with the headings above its places and the page it begins on."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clicket.search.extract.extracted_text import Extracted, Heading

__all__ = ["MAX_PART", "Part", "parts_of"]

MAX_PART = 200_000
_MAX_HEADINGS = 300
_BORDERS = ("\f", "\n\n", "\n", " ")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the text. `number` counts from 1, `page` is the page that it begins on."""

    number: int
    page: int
    text: str
    headings: tuple[tuple[int, str], ...]


def parts_of(read: Extracted) -> Iterator[Part]:
    """The whole text, in order, nothing twice. A page ends with a form feed."""
    above = _paths(read.headings, read.title)
    start, number, page, used = 0, 1, 1, 0
    while True:
        end = _end(read.text, start)
        first = max(used - 1, 0)  # the heading that was last before this part holds at its beginning
        while used < len(above) and above[used][0] < end:
            used += 1
        headings = tuple((max(at - start, 0), path) for at, path in above[first:used] if path)
        text = read.text[start:end]
        yield Part(number=number, page=page, text=text, headings=headings)
        if end >= len(read.text):
            return
        page += text.count("\f")
        start, number = end, number + 1


def _end(text: str, start: int) -> int:
    """Where the part that begins here ends: at a page, a paragraph, a line, a word, or where it must."""
    if len(text) - start <= MAX_PART:
        return len(text)
    for border in _BORDERS:
        found = text.rfind(border, start + MAX_PART // 2, start + MAX_PART)
        if found >= 0:
            return found + len(border)
    return start + MAX_PART


def _paths(headings: tuple[Heading, ...], title: str) -> list[tuple[int, str]]:
    """For each heading where it stands, and it with those above it. The title counts anyway, so it is left out."""
    stack: list[Heading] = []
    made = []
    for one in headings:
        while stack and stack[-1].level >= one.level:
            stack.pop()
        stack.append(one)
        path = " > ".join(each.text for each in stack if each.text != title)
        made.append((one.start, path[-_MAX_HEADINGS:]))
    return made
