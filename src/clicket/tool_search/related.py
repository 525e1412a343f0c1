"""Words that are related to a word, from a table made of WordNet and sentence embeddings: see `scripts/related_words.py`.

The table is read with the first search. It knows general English, and nothing about the tools that are searched.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

__all__ = ["is_ordinary", "related"]


def related(term: str) -> tuple[tuple[str, float], ...]:
    """Related terms, and how closely, from 0 to 1, the closest first."""
    line = _lines().get(term)
    return () if line is None else _read(line)


def is_ordinary(term: str) -> bool:
    """Is it the term of a word of general English? Others are names, or slips."""
    return term in _lines()


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    """Term -> the rest of its line, which is read when it is asked for."""
    text = (files("clicket.tool_search") / "related_words.txt").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            term, _, rest = line.partition(" ")
            found[term] = rest
    return found


@lru_cache(maxsize=10_000)
def _read(line: str) -> tuple[tuple[str, float], ...]:
    return tuple((word[:-1], int(word[-1]) / 10) for word in line.split())
