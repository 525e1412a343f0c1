"""One search, before it begins: what is to be done, and who does it."""

from __future__ import annotations

import msgspec

from clicket.search.dossier import Analysis, Synthesis
from clicket.search.engines.adapter import AskableEngine
from clicket.search.run.budget import Budget
from clicket.search.run.calling import Part

__all__ = ["Crew", "Order"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done."""

    question: str
    max_loop: int
    k: int
    budget: Budget
    request_id: str
    max_page_size: int
    near: bool = True
    """Are documents that are nearly the same one document?"""


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """Who does it."""

    engine: AskableEngine
    planner: Part[tuple[str, ...]]
    ranker: Part[tuple[tuple[str, float], ...]]
    analyzer: Part[Analysis]
    synthesizer: Part[Synthesis]
