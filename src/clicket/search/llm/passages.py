"""Numbered passages for a small model: the sentences that the built-in synthesizer chose, one a line.

A prompt of whole documents takes minutes on a CPU; eight sentences are about 350 tokens. What is around a sentence is left out: for the
same tokens, more sentences contain the answer more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from clicket.model.document import Citation, Document
from clicket.search.llm.context_budget import count_tokens
from clicket.search.llm.response_formats import one_line

__all__ = ["Passage", "passages_of"]

_MAX_LENGTH = 400
"""Characters of one passage that are shown."""
_MAX_TITLE = 40


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a document. `number` counts from 1, and `line` is what the model sees."""

    number: int
    document: Document
    citation: Citation

    @property
    def line(self) -> str:
        """One line, so that no text can look like the next passage, or like the question."""
        title = one_line(self.document.title, _MAX_TITLE)
        text = one_line(self.citation.text, _MAX_LENGTH)
        return f"[{self.number}] {title}: {text}" if title else f"[{self.number}] {text}"


def passages_of(
    chosen: Sequence[Citation], documents: Mapping[str, Document], *, most: int, tokens: int
) -> list[Passage]:
    """At most `most` passages within `tokens`, in the order in which they were chosen."""
    passages: list[Passage] = []
    for citation in chosen:
        document = documents.get(citation.doc)
        if document is None or len(passages) == most:
            continue
        passage = Passage(number=len(passages) + 1, document=document, citation=citation)
        cost = count_tokens(passage.line)
        if cost <= tokens:
            tokens -= cost
            passages.append(passage)
    return passages
