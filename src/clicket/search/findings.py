"""The values that a search passes from part to part, and the two ways in which it ends: `SearchResult` or `SearchFailed`.

All values are immutable. They hold no times, so a search that is resumed ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.model.chat import Usage
from clicket.model.document import Citation, Document

__all__ = ["STOP_REASONS", "Analysis", "Findings", "QueryResult", "Round", "SearchFailed", "SearchResult", "Synthesis"]


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one query. `error` is None, or why it failed: without documents and without error, there are none."""

    query: str
    documents: tuple[str, ...] = ()
    """Keys of `Findings.documents`, in the engine's order."""
    scores: tuple[float, ...] = ()
    """The engine's score of each of them."""
    error: str | None = None
    notes: tuple[str, ...] = ()
    """What was left out of the engine's answer, and which of several engines failed."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """How completely the documents cover the question. The score is computed from `components`; its accuracy is in the docs."""

    completeness_score: float
    unexplored_areas: tuple[str, ...] = ()
    components: dict[str, float] = {}
    by: str = ""
    """`coverage` for the built-in analyzer, or `model` and the model's name."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: its queries with their outcomes, and the analysis after it."""

    number: int
    found: tuple[QueryResult, ...] = ()
    analysis: Analysis | None = None

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(one.query for one in self.found)

    @property
    def documents(self) -> tuple[str, ...]:
        """Ids of the documents of all queries, each once, in order."""
        return tuple(dict.fromkeys(key for one in self.found for key in one.documents))

    @property
    def completeness_score(self) -> float:
        return 0.0 if self.analysis is None else self.analysis.completeness_score

    @property
    def unexplored_areas(self) -> tuple[str, ...]:
        return () if self.analysis is None else self.analysis.unexplored_areas


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. [1], [2] … in it are the numbers of its citations, from 1."""

    answer: str
    citations: tuple[Citation, ...] = ()
    by: str = ""
    unsupported: tuple[str, ...] = ()
    """Statements of a model that no document supports; they are not in the answer."""
    answered: bool = True
    """Do the documents answer the question?"""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a search knows so far: the input of planner, ranker, analyzer and synthesizer."""

    question: str
    max_loop: int = 3
    rounds: tuple[Round, ...] = ()
    documents: dict[str, Document] = {}
    """All documents by id, duplicates merged, in the order in which they were found."""
    ranked: tuple[tuple[str, float], ...] = ()
    """Ids of `documents` with their scores over all rounds, the best first."""
    searched: tuple[str, ...] = ()
    """Every query so far."""
    gaps: tuple[str, ...] = ()
    """The unexplored areas of the last analysis."""
    notes: tuple[str, ...] = ()
    """What could not be done: spent budgets, failed queries, parts that were replaced."""
    usage: Usage = Usage()

    @property
    def loop(self) -> int:
        """The number of the last round, from 1."""
        return len(self.rounds)

    def best(self, count: int) -> list[Document]:
        """The first `count` ranked documents, with their score over all rounds."""
        return [msgspec.structs.replace(self.documents[key], score=score) for key, score in self.ranked[:count]]


class SearchFailed(ClicketError):
    """There is nothing to answer from. `details["failures"]` has the error of each query; `details["spent"]` is true if the time
    for them ran out."""

    code = "tool_error"


STOP_REASONS = {
    "complete": "the analysis found enough",
    "max_loop": "all rounds that were allowed had been made",
    "nothing_new": "there was nothing new to ask",
    "budget": "the budget was spent",
    "engines_failed": "all searches of a later round failed",
}
"""Why the rounds of a search ended; the answer is made of what was found until then."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `deep_search` returns. The same question over the same documents gives the same bytes."""

    question: str
    answer: str
    citations: tuple[Citation, ...]
    documents: tuple[Document, ...]
    rounds: tuple[Round, ...]
    stopped: str
    """Why the rounds ended: a key of `STOP_REASONS`."""
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    usage: Usage = Usage()
    answered: bool = True
    """False if the documents do not answer the question: then the answer says so, and nothing is cited."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        rounds = [
            {
                "loop": one.number,
                "queries": list(one.queries),
                "documents": list(one.documents),
                "failed": {found.query: found.error for found in one.found if found.error is not None},
                "searches": [
                    {"query": found.query, "documents": list(found.documents), "error": found.error}
                    for found in one.found
                ],
                "completeness_score": one.completeness_score,
                "unexplored_areas": list(one.unexplored_areas),
                "components": {} if one.analysis is None else dict(one.analysis.components),
            }
            for one in self.rounds
        ]
        documents = [
            {"id": one.id, "title": one.title, "score": one.score, "relevance_score": one.score}
            | {"url": one.url, "source": one.source, "content": one.text}
            for one in self.documents
        ]
        return {
            "question": self.question,
            "answered": self.answered,
            "answer": self.answer,
            "citations": [msgspec.structs.asdict(one) for one in self.citations],
            "documents": documents,
            "rounds": rounds,
            "stopped": self.stopped,
            "notes": list(self.notes),
            "unsupported": list(self.unsupported),
            "usage": msgspec.structs.asdict(self.usage),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> SearchResult:
        """The result from what `to_json` returned. Engines' scores and the spans of documents are lost."""
        rounds = [{"number": one["loop"], "found": one["searches"], "analysis": one} for one in plain["rounds"]]
        documents = [{**one, "text": one["content"]} for one in plain["documents"]]
        return msgspec.convert({**plain, "rounds": rounds, "documents": documents}, cls)
