"""`deep_search`: a question in, a cited answer out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Unpack

from clicket.search.run.messages import Message
from clicket.search.tool.options import SearchOptions, Setup
from clicket.search.tool.tool import DeepSearch

__all__ = ["DeepSearch", "deep_search", "deep_search_stream"]

deep_search: DeepSearch = DeepSearch(Setup())
"""Answers a question from documents, in several rounds. `await deep_search("…", engine=index)`, or as a tool of a runtime: then
it searches the index `.clicket/search.db`; `deep_search.tool(engine=…)` gives one that searches elsewhere."""


def deep_search_stream(question: str, **options: Unpack[SearchOptions]) -> AsyncGenerator[Message, None]:
    """The messages of a deep search; the same arguments as `deep_search`."""
    return deep_search.stream(question, **options)
