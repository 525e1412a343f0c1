"""What a report shows, before it has a form: sources, excerpts of the documents around what is cited, links that lead somewhere.

All of it is bounded, however long documents are and however many there are: a report is opened by a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from clicket.model.document import Citation, Document
from clicket.search.dossier import SearchResult
from clicket.search.synthesis.citations import MARK

__all__ = [
    "MAX_LISTED",
    "Excerpt",
    "Piece",
    "Shown",
    "Source",
    "answer_parts",
    "contents",
    "fragment",
    "is_web",
    "one_line",
    "quoted",
    "seen",
    "stopped",
    "title_of",
]

_MAX_SOURCES = 200
MAX_LISTED = 200
_MAX_TITLE = 200
_MAX_ANSWER = 60_000
_MAX_QUOTE = 2_000
_AROUND = 280
"""Characters shown before and after what is cited."""
_MAX_TEXT = 5_000
"""Characters of one document: what is shorter is shown whole."""
_MAX_TEXTS = 40
_MAX_URL = 2_000
_ENDS = 24
_STOPPED = {
    "complete": "the analysis found enough",
    "max_loop": "all rounds that were allowed had been made",
    "nothing_new": "there was nothing new to ask",
    "budget": "the budget was spent",
    "engines_failed": "all searches of a later round failed",
}
# Controls, half characters, and what turns the direction of the text that follows.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Piece(NamedTuple):
    """A stretch of a document, and the numbers of the citations that hold it."""

    text: str
    cited: tuple[int, ...]
    begins: tuple[int, ...]
    """Those of them that begin here."""


class Excerpt(NamedTuple):
    """Pieces that follow each other. `skipped` characters are left out before them."""

    skipped: int
    pieces: tuple[Piece, ...]


class Source(NamedTuple):
    """One citation. `place` is the number of its document among the texts that are shown, or None."""

    number: int
    citation: Citation
    document: Document | None
    place: int | None


class Shown(NamedTuple):
    """A cited document with its excerpts; `rest` characters follow the last of them."""

    number: int
    document: Document
    excerpts: tuple[Excerpt, ...]
    rest: int


def contents(result: SearchResult) -> tuple[list[Source], list[Shown]]:
    """The sources, and the documents that they are from, both in the order of the answer."""
    documents = {one.id: one for one in result.documents}
    texts: dict[str, int] = {}
    sources: list[Source] = []
    for number, citation in enumerate(result.citations[:_MAX_SOURCES], 1):
        document = documents.get(citation.doc)
        if document is not None and not citation.holds(document):
            document = None  # cut for the messages, or another version: the quote is shown, no place is claimed
        if document is not None and citation.doc not in texts and len(texts) < _MAX_TEXTS:
            texts[citation.doc] = len(texts) + 1
        sources.append(Source(number, citation, document, None if document is None else texts.get(citation.doc)))
    shown = [
        _shown(place, documents[key], [one for one in sources if one.place == place]) for key, place in texts.items()
    ]
    return sources, shown


def _shown(number: int, document: Document, sources: Sequence[Source]) -> Shown:
    text = document.text
    if len(text) <= _MAX_TEXT:
        windows = [(0, len(text))]
    else:
        windows = _windows([(one.citation.start, one.citation.end) for one in sources], len(text))
    excerpts: list[Excerpt] = []
    behind = 0
    for start, end in windows:
        excerpts.append(Excerpt(start - behind, _pieces(text, start, end, sources)))
        behind = end
    return Shown(number, document, tuple(excerpts), len(text) - behind)


def _windows(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The surroundings of the spans, those that meet as one, until there are enough."""
    windows: list[tuple[int, int]] = []
    left = _MAX_TEXT
    for start, end in sorted(spans):
        first, last = max(0, start - _AROUND), min(length, end + _AROUND)
        if windows and first <= windows[-1][1]:
            first = windows[-1][1]
            if last > first:
                windows[-1] = (windows[-1][0], last)
        else:
            windows.append((first, last))
        left -= max(0, last - first)
        if left <= 0:
            break
    return windows


def _pieces(text: str, start: int, end: int, sources: Sequence[Source]) -> tuple[Piece, ...]:
    """Cut wherever a citation begins or ends, so that those that overlap are both seen."""
    spans = [(one.citation.start, one.citation.end, one.number) for one in sources]
    cuts = sorted({start, end, *(at for first, last, _ in spans for at in (first, last) if start < at < end)})
    pieces = []
    for low, high in pairwise(cuts):
        cited = tuple(number for first, last, number in spans if first <= low and high <= last)
        begins = tuple(number for first, _, number in spans if first == low and number in cited)
        pieces.append(Piece(text[low:high], cited, begins))
    return tuple(pieces)


def answer_parts(paragraph: str, count: int) -> list[str | tuple[int, ...]]:
    """Text and marks in turn: a mark is the numbers of the sources that it names. Others are text."""
    parts: list[str | tuple[int, ...]] = []
    at = 0
    for found in MARK.finditer(paragraph):
        numbers = tuple(
            int(one) for one in re.findall(r"\d+", found["numbers"]) if len(one) < 6 and 0 < int(one) <= count
        )
        if not numbers:
            continue
        parts += [paragraph[at : found.start()].rstrip(" \t"), numbers]
        at = found.end()
    parts.append(paragraph[at:])
    return [one for one in parts if one]


def seen(text: str, most: int = _MAX_ANSWER) -> str:
    """Text that can be shown, and not too much of it."""
    shown = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text[:most])
    return shown if len(text) <= most else f"{shown} …"


def one_line(text: str, most: int = _MAX_TITLE) -> str:
    return seen(" ".join(text[: most * 4].split()), most)


def title_of(document: Document) -> str:
    return one_line(document.title or document.url or document.source or document.id) or "Untitled"


def quoted(citation: Citation) -> str:
    return one_line(citation.text, _MAX_QUOTE)


def is_web(url: str) -> bool:
    """May this be a link? Only what leads to a page, and says so plainly."""
    if len(url) > _MAX_URL or not url.isprintable() or any(one.isspace() for one in url) or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def fragment(url: str, citation: Citation) -> str:
    """The address of the very words: browsers scroll to them and mark them."""
    words = citation.text.split()
    if len(words) > 2 * 6:
        ends = [" ".join(words[:6]), " ".join(words[-6:])]
    elif len(citation.text) > 4 * _ENDS:
        ends = [citation.text[:_ENDS].strip(), citation.text[-_ENDS:].strip()]
    else:
        ends = [" ".join(words)]
    named = ",".join(quote(one.encode(errors="replace"), safe="").replace("-", "%2D") for one in ends)
    return f"{url}{':~:' if '#' in url else '#:~:'}text={named}"


def stopped(result: SearchResult) -> str:
    return _STOPPED.get(result.stopped, one_line(result.stopped))
