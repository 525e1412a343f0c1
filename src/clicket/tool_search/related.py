"""Words that are related to a word, from a table made of WordNet and sentence embeddings: see `scripts/related_words.py`.

The table is read with the first search. It knows general English, and nothing about the tools that are searched.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Collocation", "collocations", "is_ordinary", "related"]


def related(term: str) -> tuple[tuple[str, float], ...]:
    """Related terms, and how closely, from 0 to 1, the closest first."""
    line = _table().terms.get(term)
    return () if line is None else _read(line)


def is_ordinary(term: str) -> bool:
    """Is it the term of a word of general English? Others are names, or slips."""
    return term in _table().terms


class Collocation(NamedTuple):
    """Two words that stand for others: `call off` for `cancel`."""

    second: str
    is_verb: bool
    """Other words may stand between the two: `call the meeting off`."""
    terms: tuple[tuple[str, float], ...]


def collocations(first: str) -> list[Collocation]:
    """Those that begin with a term."""
    return [Collocation(second, is_verb, _read(line)) for second, is_verb, line in _table().collocations.get(first, ())]


class _Table(NamedTuple):
    terms: dict[str, str]
    """Term -> the rest of its line, which is read when it is asked for."""
    collocations: dict[str, list[tuple[str, bool, str]]]


@lru_cache(maxsize=1)
def _table() -> _Table:
    text = (files("clicket.tool_search") / "related_words.txt").read_text(encoding="utf-8")
    table = _Table({}, {})
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        first, joint, second = head.partition("_")
        if head == "#":
            continue
        if joint:
            table.collocations.setdefault(first.lstrip("+"), []).append((second, first.startswith("+"), rest))
        else:
            table.terms[head] = rest
    return table


@lru_cache(maxsize=10_000)
def _read(line: str) -> tuple[tuple[str, float], ...]:
    return tuple((word[:-1], int(word[-1]) / 10) for word in line.split())
