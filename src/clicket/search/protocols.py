"""The parts of a search as Protocols. Each has a built-in implementation; planner, analyzer and synthesizer also have one that asks
a model (`llm`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from clicket.model.document import Document
from clicket.search.findings import Analysis, Findings, Synthesis

__all__ = [
    "Analyzer",
    "Collection",
    "Planner",
    "Ranker",
    "Synthesizer",
    "has_terms_alone",
    "is_collection",
]


class Planner(Protocol):
    """Returns the next queries. The search uses the first five that were not asked before; if there are none, the rounds end."""

    async def plan(self, findings: Findings, /) -> Sequence[str]: ...


class Ranker(Protocol):
    """Returns the id and the score of every document, the best first; equal scores by id. The same findings give the same
    ranking."""

    def rank(self, findings: Findings, /) -> Sequence[tuple[str, float]]: ...


class Analyzer(Protocol):
    """Judges how completely the question is covered, after each round."""

    async def analyze(self, findings: Findings, /) -> Analysis: ...


class Synthesizer(Protocol):
    """Writes the answer. The search checks its citations afterwards."""

    async def synthesize(self, findings: Findings, /) -> Synthesis: ...


@runtime_checkable
class Collection(Protocol):
    """An engine that also has statistics about all its documents: the local index has them, the web has not.

    Ranker and planner use them if they are there. Terms are those of `clicket.model.text.terms`, names those of `search.text.names`.
    """

    def size(self) -> int:
        """The number of passages."""
        ...

    def frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        """For each term, the number of passages that contain it."""
        ...

    def named(self, names: Sequence[str]) -> Sequence[Sequence[str]]:
        """For each normalised name, the ids of the documents that have it as title or begin with it."""
        ...

    def fetch(self, ids: Sequence[str]) -> Sequence[Document]:
        """The documents with these ids; unknown ids are left out."""
        ...

    def similarities(self, text: str, ids: Sequence[str]) -> Sequence[float] | None:
        """The similarity of each document to the text, from -1 to 1; None if the collection has no vectors."""
        ...


_METHODS = ("size", "frequencies", "named", "fetch", "similarities")


def is_collection(thing: Any) -> TypeGuard[Collection]:
    """`isinstance(thing, Collection)`, ten times faster: every search asks."""
    return all(callable(getattr(thing, name, None)) for name in _METHODS)


def has_terms_alone(collection: Collection | None) -> bool:
    """Is it a collection without vectors? With vectors each query is embedded, which costs more than to read more documents of it."""
    return collection is not None and getattr(collection, "embedder", None) is None
