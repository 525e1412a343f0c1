"""A search result as Markdown. Text of documents and models is escaped: no markup, HTML or link of theirs takes effect.

Everything is bounded, however long the documents are and however many there are. The anchors and marks are HTML, which Markdown allows.
A web source links to the quote on its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from urllib.parse import quote, urlsplit

from clicket.model.document import Citation, Document
from clicket.search.findings import STOP_REASONS, Round, SearchResult
from clicket.search.synthesis.citations import MARK

__all__ = ["one_line", "sections", "to_markdown"]

_MAX_SOURCES = _MAX_LISTED = 200
_MAX_TITLE = 200
_MAX_ANSWER = 60_000
_MAX_QUOTE = 2_000
_AROUND = 280
"""Characters shown before and after what is cited."""
_MAX_URL = 2_000
_MAX_QUOTE_END, _MAX_QUOTE_WORDS = 24, 6
# Control characters, lone surrogates, and characters that change the direction of text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SPECIAL = re.compile(r"([\\`*_\[\]#|~>!$])")
_LIST = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])")


def to_markdown(result: SearchResult) -> str:
    """The result as Markdown: question, answer, sources with the text around them, notes, rounds, documents, and how it was made."""
    return "\n\n".join(text for _, text in sections(result)) + "\n"


def sections(result: SearchResult) -> Iterator[tuple[str, str]]:
    """The sections of the report: the name and the Markdown of each."""
    documents = {one.id: one for one in result.documents}
    counts = ((result.citations, "source"), (result.documents, "document"), (result.rounds, "round"))
    facts = [*(_counted(len(some), one) for some, one in counts), f"ended because {_text(_stop_reason(result))}"]
    yield "question", f"# {_text(one_line(result.question, 1_000))}\n\n{' · '.join(facts)}"
    yield "answer", "\n\n".join(_answer(result))
    if result.citations:
        cited = enumerate(result.citations[:_MAX_SOURCES], 1)
        yield "sources", "\n\n".join(["## Sources", *(_source(number, one, documents) for number, one in cited)])
    if result.notes or result.unsupported:
        yield "notes", "\n".join(["## Notes", "", *_notes(result)])
    if result.rounds:
        yield "rounds", "\n\n".join(["## Rounds", *(_round(one) for one in result.rounds)])
    if result.documents:
        yield "documents", f"## Documents\n\n{_documents(result)}"
    yield "made", "\n\n".join(["## How this was made", *_how_made(result)])


def _answer(result: SearchResult) -> Iterator[str]:
    count = len(result.citations)
    for paragraph in re.split(r"\n{2,}", _printable(result.answer).strip()):
        yield "  \n".join(_line(line, count) for line in paragraph.split("\n"))


def _line(line: str, count: int) -> str:
    """A line of the answer, with links instead of its marks. Marks with unknown numbers stay text."""
    parts: list[str] = []
    at = 0
    for found in MARK.finditer(line):
        numbers = [one for one in re.findall(r"\d+", found["numbers"]) if len(one) < 6 and 0 < int(one) <= count]
        if numbers:
            parts.append(_text(line[at : found.start()].rstrip(" \t")))
            parts += [f" [\\[{int(one)}\\]](#cite-{int(one)})" for one in numbers]
            at = found.end()
    return "".join([*parts, _text(line[at:])])


def _source(number: int, citation: Citation, documents: Mapping[str, Document]) -> str:
    """A citation in the text around it; alone, if its document has another text now, or only a part of it."""
    document = documents.get(citation.doc)
    title = one_line(citation.doc)
    quoted = f"<mark>{_text(one_line(citation.text, _MAX_QUOTE))}</mark>"
    places = [
        f'<span title="SHA-256 {escape(one_line(citation.sha256))}">characters {citation.start:,}–{citation.end:,}</span>'
    ]
    if document is not None and citation.holds(document):
        title = _title_of(document)
        text = document.text
        start = max(citation.start - _AROUND, 0)
        end = citation.end + _AROUND
        before, after = text[start : citation.start], text[citation.end : end]
        quoted = f"{_text(one_line(before, _AROUND))} {quoted} {_text(one_line(after, _AROUND))}".strip()
        quoted = f"{'… ' if start else ''}{quoted}{' …' if end < len(text) else ''}"
        if _is_web(document.url):
            places.insert(0, f"[on the web](<{_address(_quote_url(document.url, citation))}>)")
        elif document.source:
            places.insert(0, _text(one_line(document.source)))
    return f'<a id="cite-{number}"></a>**[{number}]** {" · ".join([_text(title), *places])}\n\n> {quoted}'


def _notes(result: SearchResult) -> Iterator[str]:
    for note in result.notes[:_MAX_LISTED]:
        yield f"- {_text(one_line(note, 1_000))}"
    for statement in result.unsupported[:_MAX_LISTED]:
        yield f"- Left out, because no source says so: {_text(one_line(statement, 1_000))}"


def _round(one: Round) -> str:
    lines = [f"**Round {one.number}**", ""]
    for found in one.found:
        count = _counted(len(found.documents), "document")
        outcome = count if found.error is None else f"**failed**: {_text(one_line(found.error))}"
        lines.append(f"- {_text(one_line(found.query))} – {outcome}")
    if one.analysis is not None:
        signs = ", ".join(f"{_text(one_line(name, 60))} {value:.2f}" for name, value in one.analysis.components.items())
        lines += ["", f"Completeness {one.completeness_score:.2f}{f' ({signs})' if signs else ''}"]
        if one.unexplored_areas:
            lines[-1] += "; not yet looked into: " + ", ".join(_text(one_line(area)) for area in one.unexplored_areas)
    return "\n".join(lines)


def _documents(result: SearchResult) -> str:
    lines = ["| | document | score | from |", "|---|---|---|---|"]
    for number, document in enumerate(result.documents[:_MAX_LISTED], 1):
        lines.append(f"| {number} | {_text(_title_of(document))} | {document.score:.3f} | {_from(document)} |")
    if len(result.documents) > _MAX_LISTED:
        lines.append(f"| | and {len(result.documents) - _MAX_LISTED:,} more | | |")
    return "\n".join(lines)


def _from(document: Document) -> str:
    if _is_web(document.url):
        return f"[{_text(one_line(document.url, 80))}](<{_address(document.url)}>)"
    return _text(one_line(document.url or document.source, 80))


def _how_made(result: SearchResult) -> Iterator[str]:
    """How the answer came about, in sentences."""
    searches = [found for one in result.rounds for found in one.found]
    failed = sum(found.error is not None for found in searches)
    summary = f"{_counted(len(result.rounds), 'round')}, {_counted(len(searches), 'search', 'searches')}"
    if failed:
        summary += f", of which {failed:,} failed"
    documents = _counted(len(result.documents), "document")
    yield f"{summary}; {documents} found, duplicates merged. It ended because {_text(_stop_reason(result))}."
    yield (
        "Every citation is text of a document that was found, word for word: its position, text and SHA-256 were compared with the "
        "document before this report was written. Whether a document is right is for the reader to judge."
    )
    if any(one.analysis is not None for one in result.rounds):
        yield "The completeness score says how much of the question the documents cover, not whether the answer is right."
    if result.usage.total:
        tokens_in, tokens_out = result.usage.input_tokens, result.usage.output_tokens
        yield f"A language model was asked: {_counted(tokens_in, 'token')} in, {_counted(tokens_out, 'token')} out."


def _stop_reason(result: SearchResult) -> str:
    return STOP_REASONS.get(result.stopped, one_line(result.stopped))


def _counted(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _title_of(document: Document) -> str:
    return one_line(document.title or document.url or document.source or document.id) or "Untitled"


def one_line(text: str, most: int = _MAX_TITLE) -> str:
    return _printable(" ".join(text[: most * 4].split()), most)


def _printable(text: str, most: int = _MAX_ANSWER) -> str:
    """The text without unprintable characters, cut after `most` characters."""
    clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:most])
    return clean if len(text) <= most else f"{clean} …"


def _text(text: str) -> str:
    """The text, escaped."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    return _LIST.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", escaped)


def _is_web(url: str) -> bool:
    """Is it a plain http or https URL, which may be a link?"""
    if len(url) > _MAX_URL or not url.isprintable() or any(one.isspace() for one in url) or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _quote_url(url: str, citation: Citation) -> str:
    """The URL with a text fragment: browsers scroll to the quote and highlight it."""
    words = citation.text.split()
    ends = [citation.text]
    if len(words) > 2 * _MAX_QUOTE_WORDS:
        ends = [" ".join(words[:_MAX_QUOTE_WORDS]), " ".join(words[-_MAX_QUOTE_WORDS:])]
    elif len(citation.text) > 4 * _MAX_QUOTE_END:
        ends = [citation.text[:_MAX_QUOTE_END], citation.text[-_MAX_QUOTE_END:]]
    named = (quote(" ".join(one.split()).encode(errors="replace"), safe="").replace("-", "%2D") for one in ends)
    return f"{url}{':~:' if '#' in url else '#:~:'}text={','.join(named)}"


def _address(url: str) -> str:
    """The URL for use inside <…>."""
    return url.replace("<", "%3C").replace(">", "%3E")
