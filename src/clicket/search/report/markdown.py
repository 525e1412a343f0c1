"""A search result as Markdown. Text of documents and models is escaped: no markup, HTML or link of theirs takes effect.

The anchors and marks are HTML, which Markdown allows. A web source links to the quote on its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from clicket.model.document import Document
from clicket.search.findings import Round, SearchResult
from clicket.search.report.contents import (
    MAX_LISTED,
    CitedDocument,
    Source,
    answer_parts,
    contents,
    counted,
    how_made,
    is_web,
    one_line,
    printable,
    quote_url,
    quoted,
    stop_reason,
    title_of,
)

__all__ = ["sections", "to_markdown"]

_SPECIAL = re.compile(r"([\\`*_\[\]#|~>!$])")
_LIST = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])")


def to_markdown(result: SearchResult) -> str:
    """The result as Markdown: question, answer with numbered sources, notes, rounds, documents with excerpts, and how it was made."""
    return "\n\n".join(text for _, text in sections(result)) + "\n"


def sections(result: SearchResult) -> Iterator[tuple[str, str]]:
    """The sections of the report: the name and the Markdown of each."""
    sources, cited = contents(result)
    counts = ((result.citations, "source"), (result.documents, "document"), (result.rounds, "round"))
    facts = [*(counted(len(some), one) for some, one in counts), f"ended because {_text(stop_reason(result))}"]
    yield "question", f"# {_text(one_line(result.question, 1_000))}\n\n{' · '.join(facts)}"
    yield "answer", "\n\n".join(_answer(result))
    if sources:
        yield "sources", "\n\n".join(["## Sources", *(_source(one) for one in sources)])
    if result.notes or result.unsupported:
        yield "notes", "\n".join(["## Notes", "", *_notes(result)])
    if result.rounds:
        yield "rounds", "\n\n".join(["## Rounds", *(_round(one) for one in result.rounds)])
    if result.documents:
        yield "documents", "\n\n".join(["## Documents", _documents(result, cited), *(_excerpts(one) for one in cited)])
    yield "made", "\n\n".join(["## How this was made", *how_made(result)])


def _answer(result: SearchResult) -> Iterator[str]:
    count = len(result.citations)
    for paragraph in re.split(r"\n{2,}", printable(result.answer).strip()):
        lines = [
            "".join(_text(part) if isinstance(part, str) else _marks(part) for part in answer_parts(line, count))
            for line in paragraph.split("\n")
        ]
        yield "  \n".join(lines)


def _marks(numbers: tuple[int, ...]) -> str:
    return "".join(f" [\\[{number}\\]](#cite-{number})" for number in numbers)


def _source(source: Source) -> str:
    document, citation = source.document, source.citation
    places: list[str] = []
    if source.place is not None:
        places.append(f"[in the document](#doc-{source.place}-{source.number})")
    if document is not None and is_web(document.url):
        places.append(f"[on the web](<{_address(quote_url(document.url, citation))}>)")
    elif document is not None and document.source:
        places.append(_text(one_line(document.source)))
    title = _text(title_of(document) if document is not None else one_line(citation.doc))
    place = f"characters {citation.start:,}–{citation.end:,}"
    places.append(f'<span title="SHA-256 {escape(one_line(citation.sha256))}">{place}</span>')
    where = "".join(f" · {one}" for one in places)
    return f'<a id="cite-{source.number}"></a>**[{source.number}]** {title}{where}\n\n> {_text(quoted(citation))}'


def _notes(result: SearchResult) -> Iterator[str]:
    for note in result.notes[:MAX_LISTED]:
        yield f"- {_text(one_line(note, 1_000))}"
    for statement in result.unsupported[:MAX_LISTED]:
        yield f"- Left out, because no source says so: {_text(one_line(statement, 1_000))}"


def _round(one: Round) -> str:
    lines = [f"**Round {one.number}**", ""]
    for found in one.found:
        outcome = (
            counted(len(found.documents), "document")
            if found.error is None
            else f"**failed**: {_text(one_line(found.error))}"
        )
        lines.append(f"- {_text(one_line(found.query))} – {outcome}")
    if one.analysis is not None:
        signs = ", ".join(f"{_text(one_line(name, 60))} {value:.2f}" for name, value in one.analysis.components.items())
        lines += ["", f"Completeness {one.completeness_score:.2f}{f' ({signs})' if signs else ''}"]
        if one.unexplored_areas:
            lines[-1] += "; not yet looked into: " + ", ".join(_text(one_line(area)) for area in one.unexplored_areas)
    return "\n".join(lines)


def _documents(result: SearchResult, cited: list[CitedDocument]) -> str:
    places = {one.document.id: one.number for one in cited}
    lines = ["| | document | score | from |", "|---|---|---|---|"]
    for number, document in enumerate(result.documents[:MAX_LISTED], 1):
        title = _text(title_of(document))
        if document.id in places:
            title = f"[{title}](#doc-{places[document.id]})"
        lines.append(f"| {number} | {title} | {document.score:.3f} | {_from(document)} |")
    if len(result.documents) > MAX_LISTED:
        lines.append(f"| | and {len(result.documents) - MAX_LISTED:,} more | | |")
    return "\n".join(lines)


def _from(document: Document) -> str:
    if is_web(document.url):
        return f"[{_text(one_line(document.url, 80))}](<{_address(document.url)}>)"
    return _text(one_line(document.url or document.source, 80))


def _excerpts(cited: CitedDocument) -> str:
    parts = [f'<a id="doc-{cited.number}"></a>', f"### {_text(title_of(cited.document))}"]
    for excerpt in cited.excerpts:
        text = f"… {counted(excerpt.skipped, 'character')} left out … " if excerpt.skipped else ""
        for piece in excerpt.pieces:
            anchors = "".join(f'<a id="doc-{cited.number}-{number}"></a>' for number in piece.begins)
            plain = _text(" ".join(printable(piece.text).split()))
            before = " " if piece.text[:1].isspace() else ""
            after = " " if piece.text[-1:].isspace() else ""
            numbers = "".join(f"\\[{number}\\]" for number in piece.cited)
            text += f"{before}{anchors}{f'<mark>{plain}</mark> {numbers}' if piece.cited and plain else plain}{after}"
        parts.append(text.strip())
    if cited.rest:
        parts[-1] += f" … {counted(cited.rest, 'character')} left out"
    return "\n\n".join(parts)


def _text(text: str) -> str:
    """The text, escaped."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    return _LIST.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", escaped)


def _address(url: str) -> str:
    """The URL for use inside <…>."""
    return url.replace("<", "%3C").replace(">", "%3E")
