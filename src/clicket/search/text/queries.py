"""Which queries are new. Two that have the same words, in any order and form, are the same query."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from clicket.search.text.terms import terms

__all__ = ["fresh", "key_of"]

_MAX_LENGTH = 2_000


@lru_cache(maxsize=256)
def key_of(query: str) -> frozenset[str] | str:
    """What makes a query the same as another; one that is nothing but stopwords is compared as it stands."""
    return frozenset(terms(query)) or " ".join(query.casefold().split())


def fresh(planned: Iterable[str], searched: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first queries that say something and were not asked before, at most `limit`."""
    seen = {key_of(one) for one in searched}
    new: list[str] = []
    for one in planned:
        if len(new) >= limit:
            break
        query = " ".join(one.split())[:_MAX_LENGTH].strip()
        if query and (key := key_of(query)) not in seen:
            seen.add(key)
            new.append(query)
    return tuple(new)
