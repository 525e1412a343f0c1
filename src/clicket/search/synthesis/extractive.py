"""The built-in synthesizer: at most eight sentences of the documents, the best first, each with its citation, and what was not found.

It adds nothing but the source of each sentence, so the answer says nothing that no document says. If the documents do not answer the
question, it says so and cites nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from clicket.errors import UsageError
from clicket.model.document import Citation
from clicket.model.text.terms import is_unspaced, terms
from clicket.search.findings import Findings, Synthesis
from clicket.search.protocols import Collection
from clicket.search.ranking.term_weights import UNSEEN_PAIR
from clicket.search.synthesis.answerability import is_answered
from clicket.search.synthesis.citations import EXTRACTIVE, unmarked
from clicket.search.synthesis.sentence_selection import Candidate, Question, candidates_of, select_sentences
from clicket.search.synthesis.source_documents import SourceDocument, split_documents
from clicket.search.text.names import leading_name, names

__all__ = ["NOTHING_FOUND", "NOT_ANSWERED", "ExtractiveSynthesizer", "question_and_candidates"]

_MAX_DOCUMENTS = 7
"""Documents that are read, the best ones."""
_LINKING_WORDS = re.compile(r"(?<!\s)\s++(?>(?:(?:[a-z]++|&)\s++)+)")
"""Words between names, as in "Stan in Toledo": each name is looked for by itself."""
_MAX_TITLE = 120
_MAX_PLAIN = 1_000
_MAX_MISSING = 5
_MAX_NEAREST = 3
_MIN_SIZE = 100
"""Fewer documents say little about how rare a word is: they count as this many."""
NOT_ANSWERED = "The documents do not answer this question."
NOTHING_FOUND = "Nothing was found that answers this question."


class ExtractiveSynthesizer:
    """The built-in `Synthesizer`. Weights of terms come from the collection, or from the documents found if there is none.

    `judges`: it decides whether the documents answer the question. Without that, everything that is found is an answer.
    """

    def __init__(self, collection: Collection | None = None, *, max_sentences: int = 8, judges: bool = True) -> None:
        if not isinstance(max_sentences, int) or max_sentences < 1:
            raise UsageError(f"max_sentences is at least 1, not {max_sentences!r}")
        self._collection = collection
        self._max_sentences = max_sentences
        self._judges = judges

    async def synthesize(self, findings: Findings) -> Synthesis:
        return self.extract(findings)

    def extract(self, findings: Findings) -> Synthesis:
        asked, sources, candidates = question_and_candidates(findings, self._collection)
        chosen = select_sentences(asked, candidates, self._max_sentences)
        answered = (
            is_answered(findings.question, asked, chosen, candidates, sources) if self._judges else len(chosen) > 0
        )
        lines, citations = _paragraphs(chosen) if answered else ([NOT_ANSWERED if chosen else NOTHING_FOUND], [])
        missing = list(_missing(findings, sources))
        if missing:
            lines.append("\n".join(missing))
        if not answered and chosen:
            nearest = dict.fromkeys(_title(one.document) for one in chosen)
            lines.append(f"The nearest documents: {'; '.join([*nearest][:_MAX_NEAREST])}.")
        return Synthesis(answer="\n\n".join(lines), citations=tuple(citations), by=EXTRACTIVE, answered=answered)


def question_and_candidates(
    findings: Findings, collection: Collection | None
) -> tuple[Question, list[SourceDocument], list[Candidate]]:
    """The question with the weights of its terms, the documents that are read, and the statements in them that may answer."""
    sources = split_documents(findings.ranked[:_MAX_DOCUMENTS], findings.documents)
    asked = Question(findings.question, lambda terms: _term_weights(terms, sources, collection))
    return asked, sources, candidates_of(asked, sources)


def _term_weights(
    asked: Sequence[str], sources: Sequence[SourceDocument], collection: Collection | None
) -> list[float]:
    """The weight of each term: the rarer, the higher."""
    if collection is not None:
        size, counts = collection.size(), collection.frequencies(asked)
    else:
        size = len(sources)
        counts = [sum(term in source.terms for source in sources) for term in asked]
    size = max(size, _MIN_SIZE)
    weights = [math.log1p((max(size - count, 0) + 0.5) / (count + 0.5)) for count in counts]
    return [
        round(weight if count or not is_unspaced(term) else UNSEEN_PAIR * weight, 6)
        for term, weight, count in zip(asked, weights, counts, strict=True)
    ]


def _paragraphs(chosen: Sequence[Candidate]) -> tuple[list[str], list[Citation]]:
    """The sentences, the best first. Neighbours of the same document are one paragraph."""
    citations: list[Citation] = []
    lines: list[str] = []
    for source, group in groupby(chosen, key=lambda one: one.document):
        parts: list[str] = []
        for one in group:
            citation = source.document.cite(one.sentence.start, one.sentence.end)
            citations.append(citation)
            parts.append(f"{_lead(one)}{_plain(citation.text)} [{len(citations)}]")
        lines.append(f"{_title(source)}: {' '.join(parts)}")
    return lines, citations


def _lead(one: Candidate) -> str:
    """What a list item or a row of a table must be read with: the sentence that leads to the list, or the header."""
    statement = one.sentence.statement
    if statement.lead is None or statement.kind not in ("item", "row"):
        return ""
    start, end = statement.lead
    lead = _plain(one.sentence.part[start:end])
    return f"{lead} " if lead.endswith((":", "：")) else f"{lead}: " if len(lead) <= _MAX_TITLE else ""


def _plain(text: str) -> str:
    """One line, without citation marks: a footnote of the document would look like one of ours."""
    plain = unmarked(text[:_MAX_PLAIN])
    return plain.strip() if "  " not in plain and plain.isprintable() else " ".join(plain.split())


def _title(source: SourceDocument) -> str:
    document = source.document
    title = document.title or leading_name(document.text[:400]) or document.url or document.source or document.id
    return _plain(title)[:_MAX_TITLE] or "Untitled"


def _missing(findings: Findings, sources: Sequence[SourceDocument]) -> Iterator[str]:
    """Names in the question that no document has, and queries that found nothing or failed."""
    # A single capitalised word at the beginning is seldom a name.
    named = [name for name, start, _ in names(findings.question) if start > 0 or " " in name]
    parts = dict.fromkeys(part for name in named for part in _LINKING_WORDS.split(name))
    absent = [
        part
        for part in parts
        if any(word.isalpha() and not any(word in source.terms for source in sources) for word in terms(part))
    ]
    for part in absent[:_MAX_MISSING]:
        yield f"None of the best documents mentions “{_plain(part)}”."
    empty = [found for one in findings.rounds for found in one.found if not found.documents]
    for found in empty[:_MAX_MISSING]:
        if found.error is None:
            yield f"Nothing was found for “{_plain(found.query)}”."
        else:
            yield f"The search for “{_plain(found.query)}” failed."
