"""The limits of one search: rounds, queries, documents, tokens and seconds."""

from __future__ import annotations

import math

import msgspec

from clicket.errors import UsageError
from clicket.search.protocols import MAX_QUERIES

__all__ = ["Budget"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one search. A spent budget ends the rounds: the search answers from what it found, and a note says so.

    Times are seconds. A planner, analyzer or synthesizer that takes longer is replaced by the built-in one.
    """

    max_rounds: int = 10
    max_queries: int = MAX_QUERIES
    """New queries of one round."""
    max_documents: int = 1_000
    """Different documents in all."""
    max_tokens: int | None = None
    """Tokens of language models in all, prompts and answers."""
    max_seconds: float = 480.0
    """All rounds together. The synthesis has a limit of its own."""
    query: float = 20.0
    """One query."""
    searching: float = 60.0
    """All queries of one round."""
    decomposing: float = 60.0
    analyzing: float = 60.0
    synthesizing: float = 90.0

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The limits that are not times: they decide what a search finds."""
        return self.max_rounds, self.max_queries, self.max_documents, self.max_tokens

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.startswith("max_") and name != "max_seconds":
                least = 0 if name == "max_tokens" else 1
                optional = value is None and name == "max_tokens"
                if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                    raise UsageError(f"Budget: {name} is a whole number from {least} up, not {value!r}.")
            elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
                raise UsageError(f"Budget: {name} is a number of seconds above 0, not {value!r}.")
        if self.max_queries > MAX_QUERIES:
            raise UsageError(f"Budget: max_queries is at most {MAX_QUERIES}, not {self.max_queries}.")
