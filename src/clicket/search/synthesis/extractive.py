"""The answer in the documents' own words: at most eight sentences, each a citation, and what was not found is said.

Nothing is written here but where a sentence is from; so nothing can be wrong that is not wrong in a document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from clicket.errors import UsageError
from clicket.model.document import Citation
from clicket.search.dossier import Dossier, Synthesis
from clicket.search.parts import Collection
from clicket.search.synthesis.choosing import Choice, choose
from clicket.search.synthesis.citations import EXTRACTIVE, unmarked
from clicket.search.synthesis.reading import Page, read
from clicket.search.text.names import leading_name, names
from clicket.search.text.terms import terms

__all__ = ["ExtractiveSynthesizer"]

_DEPTH = 12
"""Documents that are read, the best ones: an answer may be in one that does not look it."""
_SMALL = re.compile(r"(?<!\s)\s++(?:(?:[a-z]++|&)\s++)++")
"""What ties several names together, as in "Stan in Toledo": each is looked for by itself."""
_MAX_TITLE = 120
_MAX_PLAIN = 1_000
_MAX_TOLD = 5


class ExtractiveSynthesizer:
    """Given a `collection`, it knows which words are rare there; without one, it judges by the documents that were found."""

    def __init__(self, collection: Collection | None = None, *, max_sentences: int = 8) -> None:
        if not isinstance(max_sentences, int) or max_sentences < 1:
            raise UsageError(f"max_sentences is at least 1, not {max_sentences!r}")
        self._collection = collection
        self._most = max_sentences

    async def synthesize(self, dossier: Dossier) -> Synthesis:
        return self.extract(dossier)

    def extract(self, dossier: Dossier) -> Synthesis:
        pages = read(dossier.ranked[:_DEPTH], dossier.documents)
        chosen = choose(dossier.question, pages, lambda asked: self._rarity(asked, pages), self._most)
        lines, citations = _told(chosen)
        missing = list(_missing(dossier, pages))
        if not lines:
            lines = ["Nothing was found that answers this question."]
        elif not any(one.covers for one in chosen):
            lines.insert(0, "No document that was found uses the words of the question; these come nearest.")
        if missing:
            lines.append("\n".join(missing))
        return Synthesis(answer="\n\n".join(lines), citations=tuple(citations), by=EXTRACTIVE)

    def _rarity(self, asked: Sequence[str], pages: Sequence[Page]) -> list[float]:
        """How much each term tells: the rarer, the more."""
        if self._collection is not None:
            size = self._collection.size()
            counts: Sequence[int] = self._collection.frequencies(asked)
        else:
            size = len(pages)
            counts = [sum(term in page.terms for page in pages) for term in asked]
        return [round(math.log1p((max(size - count, 0) + 0.5) / (count + 0.5)), 6) for count in counts]


def _told(chosen: Sequence[Choice]) -> tuple[list[str], list[Citation]]:
    """A paragraph for each document, the best first, its sentences in the order of the text."""
    citations: list[Citation] = []
    lines: list[str] = []
    for page in sorted({one.page.rank: one.page for one in chosen}.values(), key=lambda one: one.rank):
        parts: list[str] = []
        for one in sorted((one for one in chosen if one.page is page), key=lambda one: one.sentence.start):
            citation = page.document.cite(one.sentence.start, one.sentence.end)
            citations.append(citation)
            parts.append(f"{_plain(citation.text)} [{len(citations)}]")
        lines.append(f"{_title(page)}: {' '.join(parts)}")
    return lines, citations


def _plain(text: str) -> str:
    """One line, without marks of its own: a footnote of the document would read as one of ours."""
    return " ".join(unmarked(text[:_MAX_PLAIN]).split())


def _title(page: Page) -> str:
    document = page.document
    title = document.title or leading_name(document.text[:400]) or document.url or document.source or document.id
    return _plain(title)[:_MAX_TITLE] or "Untitled"


def _is_known(term: str, pages: Sequence[Page]) -> bool:
    return any(term in page.terms for page in pages)


def _missing(dossier: Dossier, pages: Sequence[Page]) -> Iterator[str]:
    """What the question names and no document does, and searches that found nothing or failed."""
    # One word with a capital at the beginning is seldom a name.
    named = [name for name, start, _ in names(dossier.question) if start > 0 or " " in name]
    parts = dict.fromkeys(part for name in named for part in _SMALL.split(name))
    absent = [part for part in parts if any(word.isalpha() and not _is_known(word, pages) for word in terms(part))]
    for part in absent[:_MAX_TOLD]:
        yield f"None of the best documents mentions “{_plain(part)}”."
    empty = [found for one in dossier.rounds for found in one.found if not found.documents]
    for found in empty[:_MAX_TOLD]:
        if found.error is None:
            yield f"Nothing was found for “{_plain(found.query)}”."
        else:
            yield f"The search for “{_plain(found.query)}” failed."
