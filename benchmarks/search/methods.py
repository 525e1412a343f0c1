"""The rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the table."""

    name: str
    title: str
    rounds: int
    """0 is a single query to the index, without deep search."""
    titles: bool = True
    vectors: bool = False


METHODS = (
    Method(name="text", title="One search, BM25, text only", rounds=0, titles=False),
    Method(name="single", title="One search, BM25, title and text", rounds=0),
    Method(name="round1", title="Deep search, 1 round", rounds=1),
    Method(name="round2", title="Deep search, 2 rounds", rounds=2),
    Method(name="round3", title="Deep search, 3 rounds", rounds=3),
    Method(name="untitled", title="Deep search, 3 rounds, titles removed", rounds=3, titles=False),
    Method(name="hybrid", title="One search, BM25 and MiniLM", rounds=0, vectors=True),
    Method(name="minilm1", title="Deep search with MiniLM, 1 round", rounds=1, vectors=True),
    Method(name="minilm2", title="Deep search with MiniLM, 2 rounds", rounds=2, vectors=True),
    Method(name="minilm3", title="Deep search with MiniLM, 3 rounds", rounds=3, vectors=True),
    Method(
        name="minilm-untitled",
        title="Deep search with MiniLM, 3 rounds, titles removed",
        rounds=3,
        titles=False,
        vectors=True,
    ),
)
