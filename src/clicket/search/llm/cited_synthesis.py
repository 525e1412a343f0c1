"""An answer made of statements with their citations."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.model.document import Citation
from clicket.search.findings import Synthesis
from clicket.search.text.sentences import sentences

__all__ = ["add_marks", "cited_synthesis"]

_STOPS = ".!?…。！？；"
_CLOSERS = "\"'”’»)]」』）】》"


def cited_synthesis(
    claims: Sequence[tuple[str, tuple[Citation, ...]]], unsupported: tuple[str, ...], by: str
) -> Synthesis:
    """The statements, one a line, with the marks of their citations."""
    citations: dict[tuple[str, int, int], Citation] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    lines: list[str] = []
    for statement, cited in claims:
        marks: dict[int, None] = {}
        for one in cited:
            key = (one.doc, one.start, one.end)
            citations.setdefault(key, one)
            marks.setdefault(numbers.setdefault(key, len(numbers) + 1))
        lines.append(add_marks(statement, "".join(f"[{number}]" for number in marks)))
    return Synthesis(answer="\n".join(lines), citations=tuple(citations.values()), by=by, unsupported=unsupported)


def add_marks(statement: str, marks: str) -> str:
    """Put the marks before the full stop of every sentence: a sentence without marks would count as unsupported."""
    marked: list[str] = []
    for start, end in sentences(statement) or [(0, len(statement))]:
        sentence = statement[start:end]
        body = sentence.rstrip(_CLOSERS)
        at = len(body.rstrip(_STOPS)) if body.endswith(tuple(_STOPS)) else len(sentence)
        marked.append(f"{sentence[:at]} {marks}{sentence[at:]}")
    return " ".join(marked)
