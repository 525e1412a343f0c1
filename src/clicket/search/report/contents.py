"""What a report shows, before it is Markdown or HTML: sources, excerpts around what is cited, links, and how it was made.

Everything is bounded, however long the documents are and however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from clicket.model.document import Citation, Document
from clicket.search.findings import STOP_REASONS, SearchResult
from clicket.search.synthesis.citations import MARK

__all__ = [
    "MAX_LISTED",
    "CitedDocument",
    "Source",
    "answer_parts",
    "contents",
    "counted",
    "how_made",
    "is_web",
    "one_line",
    "printable",
    "quote_url",
    "quoted",
    "stop_reason",
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
"""Characters of one document that are shown; a shorter one is shown whole."""
_MAX_TEXTS = 40
_MAX_URL = 2_000
_MAX_QUOTE_END = 24
# Control characters, lone surrogates, and characters that change the direction of text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Piece(NamedTuple):
    """A part of a document's text, and the numbers of the citations that contain it."""

    text: str
    cited: tuple[int, ...]
    begins: tuple[int, ...]
    """The numbers of those citations that begin here."""


class Excerpt(NamedTuple):
    """Adjacent pieces. `skipped` characters are left out before them."""

    skipped: int
    pieces: tuple[Piece, ...]


class Source(NamedTuple):
    """One citation. `place` is the number of its document among those that are shown, or None."""

    number: int
    citation: Citation
    document: Document | None
    place: int | None


class CitedDocument(NamedTuple):
    """A document with its excerpts; `rest` characters follow the last of them."""

    number: int
    document: Document
    excerpts: tuple[Excerpt, ...]
    rest: int


def contents(result: SearchResult) -> tuple[list[Source], list[CitedDocument]]:
    """The sources and their documents, both in the order of the answer."""
    documents = {one.id: one for one in result.documents}
    texts: dict[str, int] = {}
    sources: list[Source] = []
    for number, citation in enumerate(result.citations[:_MAX_SOURCES], 1):
        document = documents.get(citation.doc)
        if document is not None and not citation.holds(document):
            document = None  # the text was cut, or is another version: show the quote without a place
        if document is not None and citation.doc not in texts and len(texts) < _MAX_TEXTS:
            texts[citation.doc] = len(texts) + 1
        sources.append(Source(number, citation, document, None if document is None else texts.get(citation.doc)))
    cited = [
        _cited_document(place, documents[key], [one for one in sources if one.place == place])
        for key, place in texts.items()
    ]
    return sources, cited


def _cited_document(number: int, document: Document, sources: Sequence[Source]) -> CitedDocument:
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
    return CitedDocument(number, document, tuple(excerpts), len(text) - behind)


def _windows(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The spans with their surroundings, overlapping ones joined, up to the limit."""
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
    """The text cut wherever a citation begins or ends, so that overlapping citations are both visible."""
    spans = [(one.citation.start, one.citation.end, one.number) for one in sources]
    cuts = sorted({start, end, *(at for first, last, _ in spans for at in (first, last) if start < at < end)})
    pieces = []
    for low, high in pairwise(cuts):
        cited = tuple(number for first, last, number in spans if first <= low and high <= last)
        begins = tuple(number for first, _, number in spans if first == low and number in cited)
        pieces.append(Piece(text[low:high], cited, begins))
    return tuple(pieces)


def answer_parts(paragraph: str, count: int) -> list[str | tuple[int, ...]]:
    """Texts and marks of a paragraph. A mark is a tuple of source numbers; marks with unknown numbers stay text."""
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


def printable(text: str, most: int = _MAX_ANSWER) -> str:
    """The text without unprintable characters, cut after `most` characters."""
    clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:most])
    return clean if len(text) <= most else f"{clean} …"


def one_line(text: str, most: int = _MAX_TITLE) -> str:
    return printable(" ".join(text[: most * 4].split()), most)


def title_of(document: Document) -> str:
    return one_line(document.title or document.url or document.source or document.id) or "Untitled"


def quoted(citation: Citation) -> str:
    return one_line(citation.text, _MAX_QUOTE)


def is_web(url: str) -> bool:
    """Is it a plain http or https URL, which may be a link?"""
    if len(url) > _MAX_URL or not url.isprintable() or any(one.isspace() for one in url) or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def quote_url(url: str, citation: Citation) -> str:
    """The URL with a text fragment: browsers scroll to the quote and highlight it."""
    words = citation.text.split()
    if len(words) > 2 * 6:
        ends = [" ".join(words[:6]), " ".join(words[-6:])]
    elif len(citation.text) > 4 * _MAX_QUOTE_END:
        ends = [citation.text[:_MAX_QUOTE_END].strip(), citation.text[-_MAX_QUOTE_END:].strip()]
    else:
        ends = [" ".join(words)]
    named = ",".join(quote(one.encode(errors="replace"), safe="").replace("-", "%2D") for one in ends)
    return f"{url}{':~:' if '#' in url else '#:~:'}text={named}"


def stop_reason(result: SearchResult) -> str:
    return STOP_REASONS.get(result.stopped, one_line(result.stopped))


def counted(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def how_made(result: SearchResult) -> Iterator[str]:
    """How the answer came about, in sentences."""
    searches = [found for one in result.rounds for found in one.found]
    failed = sum(found.error is not None for found in searches)
    summary = f"{counted(len(result.rounds), 'round')}, {counted(len(searches), 'search', 'searches')}"
    if failed:
        summary += f", of which {failed:,} failed"
    yield f"{summary}; {counted(len(result.documents), 'document')} found, duplicates merged. It ended because {stop_reason(result)}."
    yield (
        "Every citation is text of a document that was found, word for word: its position, text and SHA-256 were compared with the "
        "document before this report was written. Whether a document is right is for the reader to judge."
    )
    if any(one.analysis is not None for one in result.rounds):
        yield "The completeness score says how much of the question the documents cover, not whether the answer is right."
    if result.usage.total:
        yield (
            f"A language model was asked: {counted(result.usage.input_tokens, 'token')} in, "
            f"{counted(result.usage.output_tokens, 'token')} out."
        )
