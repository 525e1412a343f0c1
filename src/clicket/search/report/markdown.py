"""A search result as Markdown. Text of documents and models is escaped: no markup, HTML or link of theirs takes effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    title_of,
)

__all__ = ["to_markdown"]

_SPECIAL = re.compile(r"([\\`*_\[\]#|~>!$])")
_LIST = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])")


def to_markdown(result: SearchResult) -> str:
    """The result as Markdown: question, answer with numbered sources, notes, rounds, documents with excerpts, and how it was made."""
    sources, cited = contents(result)
    parts = [f"# {_text(one_line(result.question, 1_000))}", *_answer(result)]
    if sources:
        parts += ["## Sources", *(_source(one) for one in sources)]
    if result.notes or result.unsupported:
        parts += ["## Notes", "\n".join(_notes(result))]
    if result.rounds:
        parts += ["## Rounds", *(_round(one) for one in result.rounds)]
    if result.documents:
        parts += ["## Documents", _documents(result, cited)]
    parts += [_excerpts(one) for one in cited]
    parts += ["## How this was made", *how_made(result)]
    return "\n\n".join(parts) + "\n"


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
    where = "".join(f" · {one}" for one in (*places, f"characters {citation.start:,}–{citation.end:,}"))
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
        lines += ["", f"Completeness {one.completeness_score:.2f}"]
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
        text = "… " if excerpt.skipped else ""
        for piece in excerpt.pieces:
            anchors = "".join(f'<a id="doc-{cited.number}-{number}"></a>' for number in piece.begins)
            plain = _text(" ".join(printable(piece.text).split()))
            before = " " if piece.text[:1].isspace() else ""
            after = " " if piece.text[-1:].isspace() else ""
            numbers = "".join(f"\\[{number}\\]" for number in piece.cited)
            text += f"{before}{anchors}{f'**{plain}** {numbers}' if piece.cited and plain else plain}{after}"
        parts.append(text.strip())
    if cited.rest:
        parts[-1] += " …"
    return "\n\n".join(parts)


def _text(text: str) -> str:
    """The text, escaped."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    return _LIST.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", escaped)


def _address(url: str) -> str:
    """The URL for use inside <…>."""
    return url.replace("<", "%3C").replace(">", "%3E")
