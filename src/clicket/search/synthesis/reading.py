"""The best documents, read sentence by sentence: what each sentence says of the question, and of which other document it speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from clicket.model.document import Document, Span
from clicket.search.ranking.pages import name_terms, page_of
from clicket.search.text.names import flattened, is_cjk, name_key
from clicket.search.text.sentences import sentences
from clicket.search.text.terms import terms

__all__ = ["Page", "Sentence", "mentions", "read"]

_MAX_READ = 6_000
"""Characters of one document that are read."""
_FALL = 0.1
"""How fast the score falls from place to place."""
_LEAST = 3
"""Letters and digits that a sentence has: less is a rule, a number of a list, a stray mark …"""
_SURELY = 40
"""… and what is longer than this is not counted."""


class Sentence(NamedTuple):
    start: int
    end: int
    terms: frozenset[str]
    part: str
    """What it was cut from …"""
    offset: int
    """… and where that begins."""

    @property
    def text(self) -> str:
        return self.part[self.start - self.offset : self.end - self.offset]


class Page(NamedTuple):
    """A document as it is read. `score` is 1 for the best and goes by the place, because every ranker has its own scale;
    `key` is the same for documents of the same name.
    """

    document: Document
    rank: int
    score: float
    sentences: tuple[Sentence, ...]
    key: str
    names: tuple[tuple[str, frozenset[str]], ...]
    """Each with its terms."""
    title: frozenset[str]
    terms: frozenset[str]


def read(ranked: Sequence[tuple[str, float]], documents: Mapping[str, Document]) -> list[Page]:
    pages: list[Page] = []
    for rank, (key, _) in enumerate(ranked):
        document = documents.get(key)
        if document is None or not document.text:
            continue
        found: list[Sentence] = []
        heading = document.title
        for start, end in _parts(document):
            part = document.text[start:end]
            found += [
                Sentence(start + first, start + last, held, part, start)
                for first, last, held in _sentences(part)
                if last - first != len(heading) or part[first:last] != heading
            ]
        names, title, same = _called(heading, page_of(document).called)
        pages.append(
            Page(
                document=document,
                rank=rank,
                score=round(1 / (1 + _FALL * rank), 6),
                sentences=tuple(found),
                key=same or key,
                names=names,
                title=title,
                terms=title.union(*[one.terms for one in found]),
            )
        )
    return pages


@lru_cache(maxsize=4096)
def _called(title: str, names: tuple[str, ...]) -> tuple[tuple[tuple[str, frozenset[str]], ...], frozenset[str], str]:
    """The names of a document with their terms, the terms of its title, and what documents of one name have in common."""
    name = title or (names[0] if names else "")
    found = [(one, frozenset(name_terms(one))) for one in names]
    return tuple([one for one in found if one[1]]), frozenset(name_terms(name)), name_key(name)


def _parts(document: Document) -> list[Span]:
    """What of a text is read: of the parts that were found the best, which come first, in the order of the text."""
    length = len(document.text)
    if length <= _MAX_READ and document.spans in ((), ((0, length),)):
        return [(0, length)]
    taken: list[Span] = []
    left = _MAX_READ
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


@lru_cache(maxsize=4096)
def _sentences(part: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    made = []
    plain = "\n" not in part and "# " not in part  # no heading is in it, then
    for start, end in sentences(part):
        text = part[start:end]
        if (plain or not _is_heading(part, start, end)) and (
            end - start > _SURELY or sum(map(str.isalnum, text)) >= _LEAST
        ):
            made.append((start, end, frozenset(terms(text))))
    return tuple(made)


def _is_heading(part: str, start: int, end: int) -> bool:
    """Is it a heading of Markdown? It says what follows is about, and nothing of it."""
    return part[max(0, start - 2) : start] == "# " or part[end : end + 3] in ("\n==", "\n--")


def mentions(sentence: Sentence, name: str, needed: frozenset[str]) -> bool:
    """Does it say the name, word for word? `needed` are the name's terms: most sentences lack one, and that is soon seen."""
    return needed <= sentence.terms and (
        name in _flat(sentence.text) if is_cjk(name) else f" {name} " in _flat(sentence.text)
    )


@lru_cache(maxsize=4096)
def _flat(text: str) -> str:
    return f" {flattened(text)} "
