"""Which of the documents found are the ones that matter."""

from __future__ import annotations

from clicket.search.ranking.ranker import LinkRanker

__all__ = ["LinkRanker"]
