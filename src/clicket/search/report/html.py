"""A search result as one HTML file without scripts and without anything to fetch. Text of documents and models is escaped.

A web source links to the quote on its page. The file contains the text of every source, with the quotes marked.
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

__all__ = ["to_html"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1d2129; --dim: #646c7a; --paper: #fff; --panel: #f5f6f8; --line: #dfe3e8; --link: #0b5cad;
  --bad: #c2242f; --good: #1a7f37; --mark: #fff3bf; --edge: #e0b400; --target: #ffd84d }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e7ec; --dim: #98a0ad; --paper: #15181d; --panel: #1d2127; --line: #333a44; --link: #6cb2ff;
  --bad: #ff7b72; --good: #4cc26b; --mark: #3d3413; --edge: #b08d1e; --target: #6b5710 } }
* { box-sizing: border-box }
html { scroll-padding-top: 4rem }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, sans-serif }
main { max-width: 50rem; margin: 0 auto; padding: 2.2rem 1.25rem 4rem; overflow-wrap: anywhere }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem }
h2 { font-size: 1.12rem; margin: 2.4rem 0 .7rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem }
.facts, .where, footer, .dim { color: var(--dim); font-size: .86rem }
.answer { margin-top: 1.5rem; padding: .25rem 1.25rem; background: var(--panel); border-radius: 10px }
.answer p { white-space: pre-line } sup { white-space: nowrap }
sup { line-height: 0 } sup a { text-decoration: none; font-weight: 600; padding: 0 .12em }
.sources { list-style: none; padding: 0; margin: 0 }
.sources li { display: grid; grid-template-columns: 2.1rem 1fr; padding: .65rem .5rem; border-radius: 8px }
.sources .number { color: var(--dim); font-variant-numeric: tabular-nums; font-weight: 600 }
blockquote { margin: 0 0 .15rem; padding: 0 }
:target { background: var(--target); outline: 2px solid var(--edge); outline-offset: 2px; border-radius: 3px }
.round { margin: .9rem 0; padding: .7rem 1rem; border: 1px solid var(--line); border-radius: 8px }
.round ul { margin: .3rem 0; padding-left: 1.2rem } .round p { margin: .3rem 0 0 }
meter { width: 6rem; vertical-align: middle }
.areas span { display: inline-block; margin: .15rem .3rem .15rem 0; padding: 0 .55rem; border-radius: 99px;
  background: var(--panel); border: 1px solid var(--line); font-size: .84rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem .6rem .32rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--dim); font-weight: 500 } td.count { font-variant-numeric: tabular-nums; white-space: nowrap }
.text { margin: .3rem 0 1.6rem; padding: .9rem 1.1rem; border: 1px solid var(--line); border-radius: 8px;
  white-space: pre-line; font-size: .94rem }
.skip { display: block; margin: .7rem 0; color: var(--dim); font-size: .82rem }
mark { background: var(--mark); color: inherit; padding: .1em .1em; border-radius: 3px; scroll-margin: 6rem }
mark + sup { margin-left: .1em }
.bad { color: var(--bad) } .good { color: var(--good) }
footer { margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid var(--line) }
footer p { margin: .35rem 0 }
@media print { main { max-width: none } .round, .sources li { break-inside: avoid } }
"""


def to_html(result: SearchResult) -> str:
    """The result as an HTML page."""
    sources, cited = contents(result)
    question = _line(result.question, 1_000)
    parts = [f"<h1>{question}</h1>", _facts(result), _answer(result)]
    if result.notes or result.unsupported:
        parts.append(f"<h2>Notes</h2><ul>{''.join(_notes(result))}</ul>")
    if sources:
        parts.append(f'<h2>Sources</h2><ol class="sources">{"".join(_source(one) for one in sources)}</ol>')
    if result.rounds:
        parts += ["<h2>Rounds</h2>", *(_round(one) for one in result.rounds)]
    if result.documents:
        parts += ["<h2>Documents</h2>", _documents(result, cited)]
    if cited:
        parts += ["<h2>What they say</h2>", *(_text_of(one) for one in cited)]
    made = "".join(f"<p>{_line(one, 2_000)}</p>" for one in how_made(result))
    parts.append(f"<footer><h2>How this was made</h2>{made}</footer>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{question}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _facts(result: SearchResult) -> str:
    facts = [
        counted(len(result.citations), "source"),
        counted(len(result.documents), "document"),
        counted(len(result.rounds), "round"),
        f"ended because {stop_reason(result)}",
    ]
    return f'<div class="facts">{" · ".join(escape(one) for one in facts)}</div>'


def _answer(result: SearchResult) -> str:
    titles = sorted({title_of(one) for one in result.documents if one.title}, key=lambda one: (-len(one), one))
    count = len(result.citations)
    paragraphs: list[str] = []
    for paragraph in re.split(r"\n{2,}", printable(result.answer).strip()):
        # A paragraph of the built-in answer begins with the title of its document.
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
        places.append(_link(quote_url(document.url, citation), "on the web"))
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
            outcome = f'<span class="dim">{counted(len(found.documents), "document")}</span>'
        else:
            outcome = f'<span class="bad">failed: {_line(found.error)}</span>'
        searches.append(f"<li>{_line(found.query)} – {outcome}</li>")
    judged = ""
    if one.analysis is not None:
        score = min(max(one.completeness_score, 0.0), 1.0)
        signs = ", ".join(f"{_line(name, 60)} {value:.2f}" for name, value in one.analysis.components.items())
        judged = (
            f'<p class="where">completeness <meter min="0" max="1" value="{score:.3f}"></meter> {score:.2f}'
            f"{f' ({signs})' if signs else ''}</p>"
        )
        if one.unexplored_areas:
            areas = "".join(f"<span>{_line(area)}</span>" for area in one.unexplored_areas)
            judged += f'<p class="areas"><span class="dim">not yet looked into</span>{areas}</p>'
    return f'<section class="round"><b>Round {one.number}</b><ul>{"".join(searches)}</ul>{judged}</section>'


def _documents(result: SearchResult, cited: list[CitedDocument]) -> str:
    places = {one.document.id: one.number for one in cited}
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


def _text_of(cited: CitedDocument) -> str:
    parts: list[str] = []
    for excerpt in cited.excerpts:
        if excerpt.skipped:
            parts.append(f'<span class="skip">… {counted(excerpt.skipped, "character")} left out …</span>')
        for piece in excerpt.pieces:
            text = escape(printable(piece.text))
            if not piece.cited:
                parts.append(text)
                continue
            anchors = [f'<a id="doc-{cited.number}-{number}"></a>' for number in piece.begins[1:]]
            named = f' id="doc-{cited.number}-{piece.begins[0]}"' if piece.begins else ""
            parts.append(f"{''.join(anchors)}<mark{named}>{text}</mark>{_marks(piece.cited)}")
    if cited.rest:
        parts.append(f'<span class="skip">… {counted(cited.rest, "character")} left out</span>')
    return f'<h3 id="doc-{cited.number}">{_line(title_of(cited.document))}</h3><div class="text">{"".join(parts)}</div>'


def _link(url: str, words: str) -> str:
    return f'<a rel="noopener noreferrer nofollow" href="{escape(url)}">{escape(words)}</a>'


def _line(text: str, most: int = 200) -> str:
    return escape(one_line(text, most))
