"""The deep search's machine. Iterating is entered only when another round is allowed; a spent budget goes straight to synthesis."""

from __future__ import annotations

from clicket.kernel.table import StrEnum, Table

__all__ = ["SEARCH", "SearchState"]


class SearchState(StrEnum):
    INITIALIZING = "initializing"
    DECOMPOSING = "decomposing"
    SEARCHING = "searching"
    ANALYZING = "analyzing"
    ITERATING = "iterating"
    SYNTHESIZING = "synthesizing"
    COMPLETED = "completed"
    ERROR = "error"


SEARCH = Table(
    "search",
    SearchState,
    SearchState.INITIALIZING,
    {
        SearchState.INITIALIZING: {SearchState.DECOMPOSING, SearchState.ERROR},
        SearchState.DECOMPOSING: {SearchState.SEARCHING, SearchState.SYNTHESIZING, SearchState.ERROR},
        SearchState.SEARCHING: {SearchState.ANALYZING, SearchState.SYNTHESIZING, SearchState.ERROR},
        SearchState.ANALYZING: {SearchState.ITERATING, SearchState.SYNTHESIZING, SearchState.ERROR},
        SearchState.ITERATING: {SearchState.DECOMPOSING, SearchState.ERROR},
        SearchState.SYNTHESIZING: {SearchState.COMPLETED, SearchState.ERROR},
    },
)
