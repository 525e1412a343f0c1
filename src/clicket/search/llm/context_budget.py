"""Which parts of the documents fit into a prompt: the best documents, and of long ones the sentences about the question; or, for a small
model, only the sentences that the built-in synthesizer chose (`passages_of`).

The text is the document's own, word for word, so that the model can quote it; […] stands where something is left out. A prompt of whole
documents takes minutes on a CPU; eight sentences are about 350 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from clicket.model.document import Citation, Document, Span
from clicket.model.text.surrogates import one_line
from clicket.model.text.terms import terms
from clicket.search.findings import Findings
from clicket.search.synthesis.source_documents import parts_read
from clicket.search.text.sentences import sentences
from clicket.search.usage import current_usage

__all__ = ["Passage", "PromptDocument", "count_tokens", "fit_documents", "passages_of"]

_GAP = " […] "
_MIN_TOKENS = 40
"""Tokens: a document with fewer is left out."""
_SHARE = 0.3
"""The share of the remaining tokens that each document in turn may use."""
_RESERVED = 1_500
"""Tokens for the rest of the prompt, and for the answer."""
_MAX_READ = 20_000
"""Characters of one document that are read."""
_MAX_PASSAGE, _MAX_TITLE = 400, 40
"""Characters of one passage that are shown, and of its title."""


class PromptDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as the model sees it. `number` counts from 1."""

    number: int
    document: Document
    text: str


def count_tokens(text: str) -> int:
    """An estimate: four ASCII characters are one token, and so is each other character."""
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


def fit_documents(findings: Findings, *, documents: int, tokens: int, each: int | None = None) -> list[PromptDocument]:
    """The best documents that fit into `tokens` and into the stage's budget, with at most `each` tokens of one."""
    wanted = frozenset(terms(findings.question))
    fitted: list[PromptDocument] = []
    budget = current_usage().tokens_left
    left = tokens if budget is None else min(tokens, budget - _RESERVED)
    for document in findings.best(documents):
        share = int(left * _SHARE) if each is None else min(each, left)
        if share < _MIN_TOKENS:
            break
        text = _cut(document, wanted, share)
        if text.strip():
            fitted.append(PromptDocument(number=len(fitted) + 1, document=document, text=text))
            left -= count_tokens(text) + 30  # its title and its marks
    return fitted


def _cut(document: Document, wanted: frozenset[str], tokens: int) -> str:
    text = document.text
    if len(text) <= tokens * 4 and count_tokens(text) <= tokens:
        return text
    spans = [
        (first + start, first + end)
        for first, last in parts_read(document, _MAX_READ)
        for start, end in sentences(text[first:last])
    ]
    scored = sorted(
        range(len(spans)), key=lambda at: (-len(wanted.intersection(terms(text[spans[at][0] : spans[at][1]]))), at)
    )
    # The first sentence usually says what the text is about.
    order = [0, *(at for at in scored if at != 0)] if spans else []
    chosen: list[int] = []
    for at in order:
        cost = count_tokens(text[spans[at][0] : spans[at][1]]) + 2
        if cost <= tokens:
            chosen.append(at)
            tokens -= cost
    return _joined(text, [spans[at] for at in sorted(chosen)])


def _joined(text: str, spans: list[Span]) -> str:
    """The sentences as one text; a gap mark between those that are not neighbours."""
    joined = ""
    before: Span | None = None
    for start, end in spans:
        between = text[before[1] : start] if before is not None else ""
        if before is not None:
            joined += between if len(between) < 20 and not between.strip() else _GAP
        joined += text[start:end]
        before = (start, end)
    return joined


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a document. `number` counts from 1, and `line` is what the model sees."""

    number: int
    document: Document
    citation: Citation

    @property
    def line(self) -> str:
        """One line, so that no text can look like the next passage, or like the question."""
        title = one_line(self.document.title, _MAX_TITLE)
        text = one_line(self.citation.text, _MAX_PASSAGE)
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
