"""How rare a word is: in the collection when there is one, else among the documents that were found so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from clicket.search.parts import Collection
from clicket.search.ranking.pages import Page
from clicket.search.text.terms import is_unspaced

__all__ = ["Statistics"]

_MAX_KNOWN = 100_000
_CHANCE = 0.3
"""A pair of characters that nobody has is mostly the end of one word and the start of the next: little is missing there."""


class Statistics:
    """Weights of words (inverse document frequency). Kept until the collection has another size."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._size = -1
        self._found: tuple[str, ...] | None = None
        self.known: dict[str, float] = {}
        """The weights of all that was learnt, for those who ask often; others are as rare as can be."""
        self.most = 1.0
        """The weight of a word that occurs once."""

    def learn(self, terms: Iterable[str], found: Sequence[Page] = ()) -> None:
        """Make the weights of these terms known. `found` is what there is for want of a collection."""
        if self._collection is None:
            these = tuple(page.id for page in found)
            if these != self._found:
                self._found = these
                self.known.clear()
                self._begin(len(found))
            for term in dict.fromkeys(terms):
                self.known[term] = self._worth(term, sum(term in one.known for one in found))
            return
        size = self._collection.size()
        if size != self._size or len(self.known) > _MAX_KNOWN:
            self.known.clear()
            self._begin(size)
        known = self.known
        new = [term for term in dict.fromkeys(terms) if term not in known]
        if new:
            for term, count in zip(new, self._collection.frequencies(new), strict=True):
                known[term] = self._worth(term, count)

    def _begin(self, size: int) -> None:
        self._size = size
        self.most = max(self._weight(1), 1e-6)

    def _worth(self, term: str, count: int) -> float:
        worth = self._weight(count)
        return worth if count or not is_unspaced(term) else _CHANCE * worth

    def _weight(self, count: int) -> float:
        return log(1 + max(self._size - count + 0.5, 0.5) / (count + 0.5))

    def __getitem__(self, term: str) -> float:
        return self.known.get(term, self.most)
