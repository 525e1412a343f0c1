"""The best documents, read sentence by sentence: what each sentence says of the question, and of which other document it speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from clicket.model.document import Document, Span
from clicket.search.text.names import flattened, is_cjk, own_names
from clicket.search.text.sentences import sentences
from clicket.search.text.terms import terms

__all__ = ["Page", "Sentence", "is_named_in", "read"]

_MAX_READ = 6_000
"""Characters of one document that are read: the parts that were found, the first ones first."""
_LEAST = 3
"""Letters and digits that a sentence has: less is a rule, a number of a list, a stray mark."""


class Sentence(NamedTuple):
    """`flat` is for looking up names, see `is_named_in`."""

    start: int
    end: int
    terms: frozenset[str]
    flat: str


class Page(NamedTuple):
    """A document as it is read: its place among all, its score (1 is the best's), its sentences, and what it is called."""

    document: Document
    rank: int
    score: float
    sentences: tuple[Sentence, ...]
    names: tuple[str, ...]
    title: frozenset[str]
    terms: frozenset[str]


def read(ranked: Sequence[tuple[str, float]], documents: Mapping[str, Document]) -> list[Page]:
    best = max([score for _, score in ranked] or [0.0])
    pages: list[Page] = []
    for rank, (key, score) in enumerate(ranked):
        document = documents.get(key)
        if document is None or not document.text:
            continue
        found: list[Sentence] = []
        for start, end in _parts(document):
            found += [
                Sentence(start + one.start, start + one.end, one.terms, one.flat)
                for one in _sentences(document.text[start:end])
            ]
        title = frozenset(terms(document.title))
        pages.append(
            Page(
                document=document,
                rank=rank,
                score=round(score / best, 6) if best > 0 else 0.0,
                sentences=tuple(found),
                names=own_names(document.title, document.text[:_MAX_READ])[:3],
                title=title,
                terms=title.union(*(one.terms for one in found)),
            )
        )
    return pages


def _parts(document: Document) -> list[Span]:
    """What of a text is read: the parts that were found, or its beginning."""
    parts: list[Span] = []
    left, behind = _MAX_READ, 0
    for start, end in sorted(document.spans or ((0, len(document.text)),)):
        start, end = max(start, behind, 0), min(end, len(document.text))
        if start < end and left > 0:
            parts.append((start, min(end, start + left)))
            left -= end - start
            behind = end
    return parts


@lru_cache(maxsize=4096)
def _sentences(part: str) -> tuple[Sentence, ...]:
    made = []
    for start, end in sentences(part):
        text = part[start:end]
        flat = flattened(text)
        if len(flat.replace(" ", "")) >= _LEAST:
            made.append(Sentence(start, end, frozenset(terms(text)), f" {flat} "))
    return tuple(made)


def is_named_in(name: str, flat: str) -> bool:
    """Does a text, flattened and with a space at both ends, mention the name as a word of its own?"""
    return (name in flat) if is_cjk(name) else (f" {name} " in flat)
