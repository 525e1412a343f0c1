"""Which of the documents found matter most.

- `ranker`: the built-in ranker, and its weights
- `features`: the features that it weighs, links between documents among them
- `term_match`: which terms of the question a document has, where, and how close together
- `term_weights`: inverse document frequencies
- `profiles`: terms and names of a document, cached, and packed for the index
"""

from __future__ import annotations

from clicket.search.ranking.ranker import LinkRanker

__all__ = ["LinkRanker"]
