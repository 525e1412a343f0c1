"""How much a search may use. What is spent ends the rounds, not the search: it answers from what it has, and says so."""

from __future__ import annotations

import math

import msgspec

from clicket.errors import UsageError

__all__ = ["MAX_QUERIES", "Budget"]

MAX_QUERIES = 5
"""New sub-queries a round, whatever a budget allows."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds. A planner, analyzer or synthesizer that takes longer is replaced by the deterministic one."""

    max_rounds: int = 10
    max_queries: int = MAX_QUERIES
    """New queries a round."""
    max_documents: int = 1_000
    """Different documents in all."""
    max_tokens: int | None = None
    """Tokens of language models in all, questions and answers."""
    max_seconds: float = 480.0
    """From the beginning until the answer is made; making it has a time of its own."""
    query: float = 20.0
    """One search."""
    searching: float = 60.0
    """All searches of a round."""
    decomposing: float = 60.0
    analyzing: float = 60.0
    synthesizing: float = 90.0

    def __post_init__(self) -> None:
        for name in ("max_rounds", "max_queries", "max_documents", "max_tokens"):
            value = getattr(self, name)
            if value is None and name == "max_tokens":
                continue
            least = 0 if name == "max_tokens" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"Budget: {name} is a whole number from {least} up, not {value!r}.")
        if self.max_queries > MAX_QUERIES:
            raise UsageError(f"Budget: max_queries is at most {MAX_QUERIES}, not {self.max_queries}.")
        for name in ("max_seconds", "query", "searching", "decomposing", "analyzing", "synthesizing"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
                raise UsageError(f"Budget: {name} is a number of seconds above 0, not {value!r}.")
