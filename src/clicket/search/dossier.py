"""What a search knows so far. A dossier is a value: every stage is given one and adds to it, nobody changes one.

Nothing in here tells when or how fast something happened, so a search that is resumed ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.model.chat import Usage
from clicket.model.document import Citation, Document

__all__ = ["Analysis", "Dossier", "Found", "Round", "SearchResult", "Synthesis"]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How one search ended. `error` is None, or why it failed: no documents and no error means that there are none."""

    query: str
    documents: tuple[str, ...] = ()
    """Keys of `Dossier.documents`, in the engine's order."""
    scores: tuple[float, ...] = ()
    """The engine's, for each of them."""
    error: str | None = None
    notes: tuple[str, ...] = ()
    """What was left out of its answer, and which of several engines failed."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is. The score is made of the components, which are told; what it is worth is measured in the docs."""

    completeness_score: float
    unexplored_areas: tuple[str, ...] = ()
    components: dict[str, float] = {}
    by: str = ""
    """Who said so: the deterministic analyzer, or a model."""
    reasons: tuple[str, ...] = ()
    """Why, in the words of a model."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: what was asked, what each search found, and what it came to."""

    number: int
    found: tuple[Found, ...] = ()
    analysis: Analysis | None = None

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(one.query for one in self.found)

    @property
    def documents(self) -> tuple[str, ...]:
        """Ids of all that was found, each once, in order."""
        return tuple(dict.fromkeys(key for one in self.found for key in one.documents))

    @property
    def completeness_score(self) -> float:
        return 0.0 if self.analysis is None else self.analysis.completeness_score

    @property
    def unexplored_areas(self) -> tuple[str, ...]:
        return () if self.analysis is None else self.analysis.unexplored_areas


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. It says [1], [2] …, the numbers of its citations, counted from 1."""

    answer: str
    citations: tuple[Citation, ...] = ()
    by: str = ""
    unsupported: tuple[str, ...] = ()
    """Statements of a model for which it named no text that is there; they are not in the answer."""


class Dossier(msgspec.Struct, frozen=True, kw_only=True):
    """Given to planner, analyzer and synthesizer. `ranked` are ids of `documents`, the best first, over all rounds."""

    question: str
    max_loop: int = 3
    rounds: tuple[Round, ...] = ()
    documents: dict[str, Document] = {}
    """All that was found, by id, duplicates merged, in the order of finding."""
    ranked: tuple[tuple[str, float], ...] = ()
    searched: tuple[str, ...] = ()
    """Every query so far, as it was asked."""
    gaps: tuple[str, ...] = ()
    """What the last analysis found missing."""
    notes: tuple[str, ...] = ()
    """What could not be done: budgets that ran out, searches that failed, models that fell back."""
    usage: Usage = Usage()

    @property
    def loop(self) -> int:
        """The number of the round that is under way, counted from 1."""
        return len(self.rounds)

    def best(self, count: int) -> list[Document]:
        """The best documents, with their score over all rounds."""
        return [msgspec.structs.replace(self.documents[key], score=score) for key, score in self.ranked[:count]]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `deep_search` returns. The same question over the same documents gives the same bytes."""

    question: str
    answer: str
    citations: tuple[Citation, ...]
    documents: tuple[Document, ...]
    rounds: tuple[Round, ...]
    stopped: str
    """Why it ended: `complete`, `max_loop`, `nothing_new`, `budget`, or `engines_failed` (in a later round: what was found
    before is what the answer is made of)."""
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    usage: Usage = Usage()

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the order and with the names of the contract."""
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
            {
                "id": one.id,
                "title": one.title,
                "score": one.score,
                "relevance_score": one.score,
                "url": one.url,
                "source": one.source,
                "content": one.text,
            }
            for one in self.documents
        ]
        plain: Mapping[str, Any] = {
            "question": self.question,
            "answer": self.answer,
            "citations": [msgspec.structs.asdict(one) for one in self.citations],
            "documents": documents,
            "rounds": rounds,
            "stopped": self.stopped,
            "notes": list(self.notes),
            "unsupported": list(self.unsupported),
            "usage": msgspec.structs.asdict(self.usage),
        }
        return dict(plain)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> SearchResult:
        """What `to_json` gave, read again: all of it but the engines' scores and the spans where documents were found."""
        rounds = tuple(
            Round(
                number=one["loop"],
                found=tuple(
                    Found(query=found["query"], documents=tuple(found["documents"]), error=found["error"])
                    for found in one["searches"]
                ),
                analysis=Analysis(
                    completeness_score=one["completeness_score"],
                    unexplored_areas=tuple(one["unexplored_areas"]),
                    components=one["components"],
                ),
            )
            for one in plain["rounds"]
        )
        documents = tuple(
            Document(
                id=one["id"],
                title=one["title"],
                text=one["content"],
                url=one["url"],
                source=one["source"],
                score=one["score"],
            )
            for one in plain["documents"]
        )
        return cls(
            question=plain["question"],
            answer=plain["answer"],
            citations=tuple(Citation(**one) for one in plain["citations"]),
            documents=documents,
            rounds=rounds,
            stopped=plain["stopped"],
            notes=tuple(plain["notes"]),
            unsupported=tuple(plain["unsupported"]),
            usage=Usage(**plain["usage"]),
        )
