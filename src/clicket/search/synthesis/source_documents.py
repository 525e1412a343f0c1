"""The best documents, split into sentences: the terms of each sentence, and which other documents it mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from clicket.model.document import Document, Span
from clicket.search.ranking.profiles import profile_of
from clicket.search.synthesis.statements import Statement, statements
from clicket.search.text.names import flattened, is_cjk

__all__ = ["Sentence", "SourceDocument", "mentions", "parts_read", "split_documents"]

_MAX_READ = 6_000
"""Characters of one document that are read."""
_SCORE_STEP = 0.1
"""How fast the score falls with the rank."""


class Sentence(msgspec.Struct, frozen=True, gc=False):
    """A statement of a document. `start` and `end` are offsets in the document's text."""

    start: int
    end: int
    statement: Statement
    part: str
    """The part of the text that it is in."""
    offset: int
    """Where that part begins in the text."""

    @property
    def text(self) -> str:
        return self.part[self.statement.start : self.statement.end]


class SourceDocument(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A document with its sentences. `score` is 1 for the best and depends on the rank alone, because every ranker has a scale of its
    own."""

    document: Document
    rank: int
    score: float
    sentences: tuple[Sentence, ...]
    names: tuple[tuple[str, frozenset[str]], ...]
    """Its own names, each with its terms."""
    title: frozenset[str]
    terms: frozenset[str]


def split_documents(ranked: Sequence[tuple[str, float]], documents: Mapping[str, Document]) -> list[SourceDocument]:
    sources: list[SourceDocument] = []
    for rank, (key, _) in enumerate(ranked):
        document = documents.get(key)
        if document is None or not document.text:
            continue
        found: list[Sentence] = []
        heading = document.title
        profile = profile_of(document)
        for start, end in parts_read(document, _MAX_READ):
            part = document.text[start:end]
            found += [
                Sentence(start + one.start, start + one.end, one, part, start)
                for one in statements(part, profile.terms if part == profile.text else ())
                if one.end - one.start != len(heading) or part[one.start : one.end] != heading
            ]
        named = zip(profile.full_names, map(frozenset, profile.full_name_terms), strict=True)
        title = frozenset(profile.title_terms) if heading else frozenset[str]().union(*profile.full_name_terms[:1])
        sources.append(
            SourceDocument(
                document=document,
                rank=rank,
                score=round(1 / (1 + _SCORE_STEP * rank), 6),
                sentences=tuple(found),
                names=tuple([one for one in named if one[1]]),
                title=title,
                terms=title.union(*[one.statement.terms for one in found]),
            )
        )
    return sources


def parts_read(document: Document, most: int) -> list[Span]:
    """The spans of a text that are read: those that were found, the best first until `most` characters, in the order of the text."""
    length = len(document.text)
    if length <= most and document.spans in ((), ((0, length),)):
        return [(0, length)]
    taken: list[Span] = []
    left = most
    for first, last in document.spans or ((0, length),):
        start = max(first, 0)
        end = min(last, length, start + left)
        if start < end:
            taken.append((start, end))
            left -= end - start
    parts: list[Span] = []
    behind = 0
    for start, end in sorted(taken):
        if max(start, behind) < end:
            parts.append((max(start, behind), end))
            behind = end
    return parts


def mentions(text: str, name: str) -> bool:
    """Does the text contain the name, which is a `name_key`?"""
    if text.isascii():
        plain = text.lower()
        at = plain.find(name)
        end = at + len(name)
        if at >= 0 and not plain[end : end + 1].isalnum() and not plain[max(at - 1, 0) : at].isalnum():
            return True
        for word in name.split():  # with other signs between them than blanks, all words may be there
            if word not in plain:
                return False
    flat = f" {flattened(text)} "
    return name in flat if is_cjk(name) else f" {name} " in flat
