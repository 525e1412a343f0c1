"""The statements of a text: its sentences, list items, table rows and pieces of code, each with what it must be read with.

A list item is read with the sentence that leads to the list, a row with the header of its table, everything with the heading of its
section. A sentence that ends with a colon and the lines that follow it are one statement, as far as they are short: half of it would
be no answer. Navigation is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import msgspec

from clicket.model.document import Span
from clicket.model.text.terms import terms, terms_of_spans
from clicket.search.text.sentences import MAX_SENTENCE, sentences

__all__ = ["Statement", "statements"]

_BLOCK = re.compile(r"[^\n]++(?>(?:\n(?![^\S\n]*+\n)[^\n]*+)*)")
_MARKED = re.compile(r"\s*(?:[-*+•·‣>]|#{1,6}|\d{1,3}[.)]|[一二三四五六七八九十]{1,3}、)\s|\s*```")
_NUMBERED = re.compile(
    r"(?:Chapter|Appendix|Section|Part)\s+\w{1,5}\.?\s|(?:[A-Z]\.)?\d{1,3}(?:\.\d{1,3})+\.?\s+\S|[A-Z]\.\d{1,3}\.?\s"
)
"""A numbered heading. A single number may be that of a step."""
_UNDERLINE = re.compile(r"[=\-~^*]{3,}\s*$")
_CODE = re.compile(r"(?:>>> |\.\.\. |\$ |# |    |\t)")
_NAVIGATION = re.compile(r"(?:Chapter|Appendix|Section|Prev|Next|Home|Up|Part)\b")
_TABLE_OF_CONTENTS = re.compile(r"(?:table of )?contents|目录", re.IGNORECASE)
_MAX_HEADING = 150
_MAX_LABEL = 80
_MIN_LETTERS, _LONG = 3, 40
_ENDS = ".!?…。！？；｡"
_CLOSERS = "\"'”’»)]」』）】》*_` "


class Statement(msgspec.Struct, frozen=True, gc=False):
    """`start` and `end` are offsets in the text. `kind`: sentence, item, row, code, lead (with what follows),
    example (the same with code), open (without it), label or heading."""

    start: int
    end: int
    order: tuple[str, ...]
    """Its terms, in order."""
    terms: frozenset[str]
    kind: str
    heading: frozenset[str]
    """Terms of the heading of its section."""
    lead: tuple[int, int] | None
    """The sentence before its list, or the header of its table."""
    lead_terms: frozenset[str]


_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=256)  # more would cost more in garbage collections than it saves
def statements(text: str, found: tuple[str, ...] = ()) -> tuple[Statement, ...]:
    """All statements of a text, in order; some may overlap. `found` are the terms of the text, if they are known."""
    if "\n" in text:
        return tuple(_Reader(text, found).read())
    spans = _spoken(text, sentences(text))
    return tuple(
        [
            Statement(start, end, tuple(order), frozenset(order), "sentence", _NONE, None, _NONE)
            for (start, end), order in zip(spans, terms_of_spans(text, spans, found), strict=True)
        ]
    )


class _Reader:
    """Reads a text block by block; blocks are separated by empty lines."""

    def __init__(self, text: str, found: tuple[str, ...]) -> None:
        self._text = text
        self._found = found
        self._heading_terms = _NONE
        self._lead: tuple[int, int] | None = None
        self._lead_terms = _NONE
        self._header: tuple[int, int] | None = None
        self._open: int | None = None
        """The start of a statement that the next block completes."""

    def read(self) -> Iterator[Statement]:
        text = self._text
        for match in _BLOCK.finditer(text):
            start, end = match.span()
            while end > start and text[end - 1].isspace():
                end -= 1
            if start < end:
                yield from self._block(start, end)

    def _block(self, start: int, end: int) -> Iterator[Statement]:
        text = self._text
        block = text[start:end]
        lines = block.split("\n")
        first = lines[0].strip()
        if len(lines) == 2 and _UNDERLINE.match(lines[1]) and len(first) <= _MAX_HEADING:
            yield from self._heading(start, start + len(lines[0]))
            return
        if first.startswith("#") and not first.startswith("#!"):
            stripped = first.lstrip("#")
            if stripped[:1] in (" ", "\t") and len(first) <= _MAX_HEADING + 8:
                at = block.index(first) + len(first) - len(stripped.lstrip())
                yield from self._heading(start + at, start + len(lines[0].rstrip()))
                if len(lines) > 1:
                    yield from self._block(start + len(lines[0]) + 1, end)
                return
        if len(lines) == 1:
            yield from self._line(start, end, first)
            return
        if len(lines) > 2 and all(_NUMBERED.match(line) and len(line) <= _MAX_HEADING for line in lines):
            self._open = None  # a table of contents
            return
        if "```" in block or sum(_CODE.match(line) is not None for line in lines) * 2 >= len(lines):
            yield from self._after_open(start, end, "example")
            yield from self._pieces(start, end, "code")
        elif sum(" | " in line for line in lines) * 2 > len(lines):
            yield from self._table(start, lines)
        elif _is_wrapped(lines) or any(_MARKED.match(line) for line in lines):
            yield from self._after_open(start, end)
            kind = "item" if self._lead is not None or _MARKED.match(lines[0]) else "sentence"
            yield from self._sentences(start, end, kind)
        else:
            yield from self._after_open(start, end)
            at = start
            for line in lines:
                yield from self._sentences(at, at + len(line), "item")
                at += len(line) + 1
        self._end_lead(block)

    def _line(self, start: int, end: int, line: str) -> Iterator[Statement]:
        """A block of one line: a heading, a label, a row, or a paragraph."""
        if " | " in line:
            if _NAVIGATION.match(line.rsplit(" | ", 1)[1]) is None:
                yield from self._table(start, [line])
            return
        ended = line.rstrip(_CLOSERS)[-1:] in _ENDS
        if len(line) <= _MAX_HEADING and (
            (line.endswith(("?", "？")) and self._open is None) or (not ended and _NUMBERED.match(line))
        ):
            yield from self._heading(start, end)
            return
        self._header = None
        if not ended and _TABLE_OF_CONTENTS.fullmatch(line):
            self._open = None
            return
        if not ended and len(line) <= _MAX_LABEL and line[-1] not in ":：,，;；":
            completes = self._open is not None
            yield from self._after_open(start, end)
            yield from self._label(start, end, opens=not completes)
            return
        yield from self._after_open(start, end)
        yield from self._sentences(start, end, "item" if self._lead is not None else "sentence")
        self._end_lead(line)

    def _heading(self, start: int, end: int) -> Iterator[Statement]:
        self._open = None
        order = tuple(terms(self._text[start:end]))
        self._heading_terms = frozenset(order)
        self._lead = None
        self._lead_terms = _NONE
        self._header = None
        if not self._text[start:end].rstrip().endswith(("?", "？")):
            yield self._statement(start, end, "heading", order)

    def _label(self, start: int, end: int, *, opens: bool) -> Iterator[Statement]:
        """A line without a full stop: it names what follows, or is a command that completes what was before."""
        order = tuple(terms(self._text[start:end]))
        yield self._statement(start, end, "label", order)
        if opens:
            self._lead, self._lead_terms, self._open = (start, end), frozenset(order), start
        else:
            self._lead = None
            self._lead_terms = _NONE

    def _table(self, start: int, lines: list[str]) -> Iterator[Statement]:
        self._open = None
        if len(lines) > 1:
            self._header = None
        at = start
        for line in lines:
            end = at + len(line.rstrip())
            if line.strip(" |-:+="):
                if self._header is None:
                    self._header = (at, end)
                    self._lead, self._lead_terms = self._header, frozenset(terms(line))
                yield from self._pieces(at, end, "row")
            at += len(line) + 1

    def _pieces(self, start: int, end: int, kind: str) -> Iterator[Statement]:
        """The span as one statement, or in lines if it is too long."""
        if end - start <= MAX_SENTENCE:
            yield self._statement(start, end, kind, tuple(terms(self._text[start:end])))
            return
        for first, last in sentences(self._text[start:end]):
            yield self._statement(
                start + first, start + last, kind, tuple(terms(self._text[start + first : start + last]))
            )

    def _sentences(self, start: int, end: int, kind: str) -> Iterator[Statement]:
        text = self._text[start:end]
        found = sentences(text)
        final = found[-1][1] if found else 0
        spans = _spoken(text, found)
        orders = terms_of_spans(text, spans, self._found if len(text) == len(self._text) else ())
        for (first, last), order in zip(spans, orders, strict=True):
            if last == final and self._is_open(start + first, start + last, kind):
                self._open = start + first
                self._lead, self._lead_terms = (start + first, start + last), frozenset(order)
                yield self._statement(start + first, start + last, "open", tuple(order))
                return
            yield self._statement(start + first, start + last, kind, tuple(order))

    def _is_open(self, first: int, last: int, kind: str) -> bool:
        """Does the last sentence of a block lead to the next block? Items of a list often end without a full stop."""
        text = self._text
        if text[first:last].rstrip(_CLOSERS)[-1:] in _ENDS:
            return False
        return kind != "item" or text[last - 1] in ":："

    def _after_open(self, start: int, end: int, kind: str = "lead") -> Iterator[Statement]:
        """The statement that was left open, with the block that completes it."""
        if self._open is None:
            return
        first, self._open = self._open, None
        last = end
        text = self._text[start:end]
        if kind == "lead" and "\n" not in text:  # a paragraph: its first sentence completes what was before
            last = start + next((stop for _, stop in sentences(text)), 0)
        if last - first > MAX_SENTENCE:
            ends = [start + stop for _, stop in sentences(text)]
            last = max((stop for stop in ends if stop - first <= MAX_SENTENCE), default=0)
        if last > start:
            yield self._statement(first, last, kind, tuple(terms(self._text[first:last])))

    def _end_lead(self, block: str) -> None:
        """A lead holds for a list: for a block of several lines, and for single lines that go on in lower case or end with no full stop."""
        if self._open is None and not (block[:1].islower() or block.rstrip()[-1:] in ";；,，"):
            self._lead = None
            self._lead_terms = _NONE

    def _statement(self, start: int, end: int, kind: str, order: tuple[str, ...]) -> Statement:
        lead = self._lead if self._lead is not None and self._lead[0] != start else None
        lead_terms = self._lead_terms if lead else _NONE
        return Statement(start, end, order, frozenset(order), kind, self._heading_terms, lead, lead_terms)


def _spoken(text: str, spans: list[Span]) -> list[Span]:
    """Without those that have hardly a letter: a rule, the number of a list item or a stray mark. Longer ones are not counted."""
    return [one for one in spans if one[1] - one[0] > _LONG or sum(map(str.isalnum, text[slice(*one)])) >= _MIN_LETTERS]


def _is_wrapped(lines: list[str]) -> bool:
    """Is it one text in several lines? Then no line had room for the first word of the next one."""
    width = max(map(len, lines))
    if width > 110:
        return False
    return all(
        len(line) + 1 + len(after.split(None, 1)[0] if after.strip() else "") > width - 8
        for line, after in pairwise(lines)
    )
