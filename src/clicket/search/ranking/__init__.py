"""Which of the documents found matter most.

- `ranker`: the built-in ranker, its weights, and similarity by embedding
- `features`: the features that it weighs, links between documents among them
- `term_match`: which terms of the question a document has, where, and how close together
- `term_weights`: inverse document frequencies
- `profiles`: terms and names of a document, cached, and packed for the index
"""

from __future__ import annotations

from clicket.search.ranking.ranker import EmbeddingSimilarity, LinkRanker

__all__ = ["EmbeddingSimilarity", "LinkRanker"]
