"""Which queries are new. Two queries with the same terms, in any order, are equal."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from clicket.model.text.terms import terms

__all__ = ["fresh", "key_of"]

_MAX_LENGTH = 2_000


@lru_cache(maxsize=256)
def key_of(query: str) -> frozenset[str] | str:
    """Equal for equal queries. A query of stopwords only is compared as written."""
    return frozenset(terms(query)) or " ".join(query.casefold().split())


def fresh(planned: Iterable[str], searched: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first `limit` of the planned queries that are not empty and were not searched before."""
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
