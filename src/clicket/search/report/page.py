"""A search as one HTML file that needs nothing else: no script, nothing fetched, everything of others escaped.

A web source is linked to the very words on its page; for every source the text is in the file, with what is cited marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from clicket.model.document import Document
from clicket.search.dossier import Round, SearchResult
from clicket.search.report.contents import (
    MAX_LISTED,
    Shown,
    Source,
    answer_parts,
    contents,
    fragment,
    is_web,
    one_line,
    quoted,
    seen,
    stopped,
    title_of,
)
from clicket.search.report.making import counted, making
from clicket.search.report.style import POLICY, STYLE

__all__ = ["to_page"]


def to_page(result: SearchResult) -> str:
    """The result to be read in a browser."""
    sources, shown = contents(result)
    question = _line(result.question, 1_000)
    parts = [f"<h1>{question}</h1>", _facts(result), _answer(result)]
    if result.notes or result.unsupported:
        parts.append(f"<h2>Notes</h2><ul>{''.join(_notes(result))}</ul>")
    if sources:
        parts.append(f'<h2>Sources</h2><ol class="sources">{"".join(_source(one) for one in sources)}</ol>')
    if result.rounds:
        parts += ["<h2>Rounds</h2>", *(_round(one) for one in result.rounds)]
    if result.documents:
        parts += ["<h2>Documents</h2>", _documents(result, shown)]
    if shown:
        parts += ["<h2>What they say</h2>", *(_text_of(one) for one in shown)]
    made = "".join(f"<p>{_line(one, 2_000)}</p>" for one in making(result))
    parts.append(f"<footer><h2>How this was made</h2>{made}</footer>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{question}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _facts(result: SearchResult) -> str:
    facts = [
        counted(len(result.citations), "source"),
        counted(len(result.documents), "document"),
        counted(len(result.rounds), "round"),
        f"ended because {stopped(result)}",
    ]
    return f'<div class="facts">{" · ".join(escape(one) for one in facts)}</div>'


def _answer(result: SearchResult) -> str:
    titles = sorted({title_of(one) for one in result.documents if one.title}, key=lambda one: (-len(one), one))
    count = len(result.citations)
    paragraphs: list[str] = []
    for paragraph in re.split(r"\n{2,}", seen(result.answer).strip()):
        # The extractive answer says first whose words follow.
        title = next((one for one in titles if paragraph.startswith(f"{one}: ")), "")
        begin = f"<b>{escape(title)}</b><br>" if title else ""
        rest = paragraph[len(title) + 2 :] if title else paragraph
        paragraphs.append(f"<p>{begin}{_marked(rest, count)}</p>")
    return f'<section class="answer">{"".join(paragraphs)}</section>'


def _marked(text: str, count: int) -> str:
    return "".join(escape(part) if isinstance(part, str) else _marks(part) for part in answer_parts(text, count))


def _marks(numbers: tuple[int, ...]) -> str:
    return "".join(
        f'&#8288;<sup><a href="#cite-{number}">[{number}]</a></sup>' for number in numbers
    )  # no line break before


def _notes(result: SearchResult) -> Iterator[str]:
    for note in result.notes[:MAX_LISTED]:
        yield f"<li>{_line(note, 1_000)}</li>"
    for statement in result.unsupported[:MAX_LISTED]:
        yield f"<li>Left out, because no source says so: <i>{_line(statement, 1_000)}</i></li>"


def _source(source: Source) -> str:
    document, citation = source.document, source.citation
    title = _line(title_of(document) if document is not None else citation.doc)
    places: list[str] = []
    if source.place is not None:
        places.append(f'<a href="#doc-{source.place}-{source.number}">in the document</a>')
    if document is not None and is_web(document.url):
        places.append(_link(fragment(document.url, citation), "on the web"))
    elif document is not None and document.source:
        places.append(_line(document.source))
    places.append(
        f'<span title="SHA-256 {_line(citation.sha256)}">characters {citation.start:,}–{citation.end:,}</span>'
    )
    return (
        f'<li id="cite-{source.number}"><span class="number">{source.number}</span><div>'
        f"<blockquote>“{escape(quoted(citation))}”</blockquote>"
        f'<div class="where">{title} · {" · ".join(places)}</div></div></li>'
    )


def _round(one: Round) -> str:
    searches: list[str] = []
    for found in one.found:
        if found.error is None:
            told = f'<span class="dim">{counted(len(found.documents), "document")}</span>'
        else:
            told = f'<span class="bad">failed: {_line(found.error)}</span>'
        searches.append(f"<li>{_line(found.query)} – {told}</li>")
    told = ""
    if one.analysis is not None:
        score = min(max(one.completeness_score, 0.0), 1.0)
        signs = ", ".join(f"{_line(name, 60)} {value:.2f}" for name, value in one.analysis.components.items())
        told = (
            f'<p class="where">completeness <meter min="0" max="1" value="{score:.3f}"></meter> {score:.2f}'
            f"{f' ({signs})' if signs else ''}</p>"
        )
        if one.unexplored_areas:
            areas = "".join(f"<span>{_line(area)}</span>" for area in one.unexplored_areas)
            told += f'<p class="areas"><span class="dim">not yet looked into</span>{areas}</p>'
    return f'<section class="round"><b>Round {one.number}</b><ul>{"".join(searches)}</ul>{told}</section>'


def _documents(result: SearchResult, shown: list[Shown]) -> str:
    places = {one.document.id: one.number for one in shown}
    rows: list[str] = []
    for number, document in enumerate(result.documents[:MAX_LISTED], 1):
        title = _line(title_of(document))
        if document.id in places:
            title = f'<a href="#doc-{places[document.id]}">{title}</a>'
        rows.append(
            f'<tr><td class="count">{number}</td><td>{title}</td><td class="count">{document.score:.3f}</td>'
            f"<td>{_from(document)}</td></tr>"
        )
    if len(result.documents) > MAX_LISTED:
        rows.append(f"<tr><td></td><td>and {len(result.documents) - MAX_LISTED:,} more</td><td></td><td></td></tr>")
    return f"<table><tr><th></th><th>document</th><th>score</th><th>from</th></tr>{''.join(rows)}</table>"


def _from(document: Document) -> str:
    if is_web(document.url):
        return _link(document.url, one_line(document.url, 60))
    return _line(document.url or document.source, 60)


def _text_of(shown: Shown) -> str:
    parts: list[str] = []
    for excerpt in shown.excerpts:
        if excerpt.skipped:
            parts.append(f'<span class="skip">… {counted(excerpt.skipped, "character")} left out …</span>')
        for piece in excerpt.pieces:
            text = escape(seen(piece.text))
            if not piece.cited:
                parts.append(text)
                continue
            anchors = [f'<a id="doc-{shown.number}-{number}"></a>' for number in piece.begins[1:]]
            named = f' id="doc-{shown.number}-{piece.begins[0]}"' if piece.begins else ""
            parts.append(f"{''.join(anchors)}<mark{named}>{text}</mark>{_marks(piece.cited)}")
    if shown.rest:
        parts.append(f'<span class="skip">… {counted(shown.rest, "character")} left out</span>')
    return f'<h3 id="doc-{shown.number}">{_line(title_of(shown.document))}</h3><div class="text">{"".join(parts)}</div>'


def _link(url: str, words: str) -> str:
    return f'<a rel="noopener noreferrer nofollow" href="{escape(url)}">{escape(words)}</a>'


def _line(text: str, most: int = 200) -> str:
    return escape(one_line(text, most))
