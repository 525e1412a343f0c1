"""One search, before it begins. `SearchSpec`: the question and its options; `budget.py` has its limits; `Parts`: what does the work.

`max_loop` is the number of rounds that the caller asks for; reaching it is a normal end (`stopped="max_loop"`). `Budget.max_rounds` is
an upper limit; if it is lower, the rounds end there with `stopped="budget"` and a note.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clicket.model.tool_tables import Budget
from clicket.search.engines.adapter import AskableEngine
from clicket.search.findings import Analysis, Synthesis
from clicket.search.planning.question_reading import ReadQuestion
from clicket.search.run.part import Part

__all__ = ["Parts", "SearchSpec"]


class SearchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one search, checked."""

    question: str
    max_loop: int
    k: int
    """Documents that the first query asks the engine for."""
    later_k: int
    """Documents that each other query asks for."""
    budget: Budget
    request_id: str
    max_page_size: int
    """Characters of a document in messages."""
    merge_similar: bool = True
    """Are documents with the same address, or the same text but for blanks, merged into one?"""


def _as_it_is(question: str) -> ReadQuestion:
    return ReadQuestion(text=question)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one search. `read` gives the question in the words of the documents."""

    engine: AskableEngine
    planner: Part[tuple[str, ...]]
    ranker: Part[tuple[tuple[str, float], ...]]
    analyzer: Part[Analysis]
    synthesizer: Part[Synthesis]
    read: Callable[[str], ReadQuestion] = _as_it_is
