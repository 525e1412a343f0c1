"""Numbered passages for a small model: the sentences that were chosen, each with a little of what is around it.

A prompt of 15 documents takes minutes on a CPU. These are a few hundred tokens: the built-in synthesizer has already found the sentences
that matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from clicket.model.document import Citation, Document, Span
from clicket.search.llm.context_budget import count_tokens
from clicket.search.llm.response_formats import one_line
from clicket.search.text.sentences import sentences

__all__ = ["Passage", "passages_of"]

_BEFORE, _AFTER = 160, 240
"""Characters around a sentence: what a list item or a pronoun refers to is before it, what goes on is after it."""
_MAX_LENGTH = 640
"""Characters of one passage."""
_MAX_TITLE = 80


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A span of a document. `number` counts from 1, and `line` is what the model sees."""

    number: int
    document: Document
    span: Span

    @property
    def line(self) -> str:
        """One line, so that no text can look like the next passage, or like the question."""
        start, end = self.span
        title = one_line(self.document.title, _MAX_TITLE)
        text = one_line(self.document.text[start:end], _MAX_LENGTH)
        return f"[{self.number}] {title}: {text}" if title else f"[{self.number}] {text}"


def passages_of(
    chosen: Sequence[Citation], documents: Mapping[str, Document], *, most: int, tokens: int
) -> list[Passage]:
    """At most `most` passages within `tokens`, the best first. Sentences near each other share a passage."""
    spans: list[tuple[str, Span]] = []
    for one in chosen:
        document = documents.get(one.doc)
        if document is None:
            continue
        span = _widened(document.text, one.start, one.end)
        at = next((at for at, (doc, other) in enumerate(spans) if doc == one.doc and _joins(other, span)), None)
        if at is not None:
            spans[at] = (one.doc, _joined(spans[at][1], span))
        elif len(spans) < most:
            spans.append((one.doc, span))
    passages: list[Passage] = []
    for doc, span in spans:
        passage = Passage(number=len(passages) + 1, document=documents[doc], span=span)
        tokens -= count_tokens(passage.line)
        if tokens < 0:
            break
        passages.append(passage)
    return passages


def _widened(text: str, start: int, end: int) -> Span:
    """The span with whole sentences before and after it."""
    low, high = max(start - _BEFORE, 0), min(end + _AFTER, len(text))
    before = [low + first for first, _ in sentences(text[low:start])]
    if low > 0:
        before = before[1:]  # the first one is cut
    after = [end + last for _, last in sentences(text[end:high])]
    if high < len(text):
        after = after[:-1]
    return before[0] if before else start, after[-1] if after else end


def _joined(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])


def _joins(one: Span, other: Span) -> bool:
    """Do they overlap, and are short enough to be one?"""
    first, last = _joined(one, other)
    return one[0] <= other[1] and other[0] <= one[1] and last - first <= _MAX_LENGTH
