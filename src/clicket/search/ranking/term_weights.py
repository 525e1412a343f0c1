"""Inverse document frequencies: of the collection if there is one, else of the documents found so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import log

from clicket.model.text.terms import is_unspaced
from clicket.search.protocols import Collection
from clicket.search.ranking.profiles import DocumentProfile

__all__ = ["UNSEEN_PAIR", "TermWeights"]

_MAX_KNOWN = 100_000
UNSEEN_PAIR = 0.3
"""Factor for a pair of characters of unspaced text that no document has: mostly it spans two words, and its absence says little."""


class TermWeights:
    """Weights of terms: the rarer, the higher. They are cached until the size of the collection changes."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._size = -1
        self._found: tuple[str, ...] | None = None
        self.known: dict[str, float] = {}
        """The weights of all terms that were learnt, for hot loops; other terms weigh `max_weight`."""
        self.max_weight = 1.0
        """The weight of a term that occurs once."""

    def learn(self, terms: Iterable[str], found: Sequence[DocumentProfile] = ()) -> None:
        """Look up the weights of these terms. `found` are the documents to count in if there is no collection."""
        if self._collection is None:
            these = tuple(page.id for page in found)
            if these != self._found:
                self._found = these
                self.known.clear()
                self._reset(len(found))
            for term in dict.fromkeys(terms):
                self.known[term] = self._weight_of(term, sum(term in one.all_terms for one in found))
            return
        known = self.known
        wanted = dict.fromkeys(terms)
        new = [term for term in wanted if term not in known]
        if not new:
            return
        size = self._collection.size()
        if size != self._size or len(known) > _MAX_KNOWN:
            known.clear()
            self._reset(size)
            new = list(wanted)
        for term, count in zip(new, self._collection.frequencies(new), strict=True):
            known[term] = _idf(size, count) if count else self._weight_of(term, count)

    def _reset(self, size: int) -> None:
        self._size = size
        self.max_weight = max(_idf(size, 1), 1e-6)

    def _weight_of(self, term: str, count: int) -> float:
        weight = _idf(self._size, count)
        return weight if count or not is_unspaced(term) else UNSEEN_PAIR * weight

    def __getitem__(self, term: str) -> float:
        return self.known.get(term, self.max_weight)


@lru_cache(maxsize=4096)
def _idf(size: int, count: int) -> float:
    return log(1 + max(size - count + 0.5, 0.5) / (count + 0.5))
