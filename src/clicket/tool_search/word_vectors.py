"""The meaning of a text as a vector: the sum of the vectors of its words, from `word_vectors.bin`: see `scripts/word_vectors.py`.

The file has a line of terms, and for each term a byte for its weight and four bits for each dimension. All arithmetic is on whole
numbers, so vectors are the same on every machine. A vector is kept as one large number with a field of 32 bits for each dimension: a
weighted sum of vectors is then a few multiplications, and no loop over dimensions.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from math import isqrt
from typing import NamedTuple

__all__ = ["DIMENSIONS", "LENGTH", "text_vector"]

DIMENSIONS = 128
LENGTH = 48
"""Length of the vector of a text, but for rounding; its numbers are from minus this to this."""
_FIELD = 4
"""Bytes of a field in which a dimension is kept."""
_STEPS = 8
"""Weights of words are counted in parts of one."""
_MIDDLE = 15
"""Four bits stand for the odd numbers from -15 to 15: twice what they say, less this."""
_NIBBLES = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))


class _Table(NamedTuple):
    rows: dict[str, int]
    """Term -> where its row begins."""
    data: bytes


def text_vector(terms: Iterable[tuple[str, float]]) -> tuple[int, ...] | None:
    """The vector of a text by its terms and what each counts. None: no word of it is known."""
    total = weights = 0
    for term, weight in terms:
        word = _word(term)
        if word is not None:
            factor = word[0] * round(weight * _STEPS)
            total += factor * word[1]
            weights += factor
    if not weights:
        return None
    middle = _MIDDLE * weights
    fields = array("I", total.to_bytes(_FIELD * DIMENSIONS, sys.byteorder))
    numbers = [2 * field - middle for field in fields]
    length = isqrt(sum(number * number for number in numbers)) or 1
    return tuple((2 * number * LENGTH + length) // (2 * length) for number in numbers)


@lru_cache(maxsize=20_000)
def _word(term: str) -> tuple[int, int] | None:
    """The weight of a word, and its vector."""
    table = _table()
    row = table.rows.get(term)
    if row is None:
        return None
    half = table.data[row + 1 : row + 1 + DIMENSIONS // 2]
    fields = array("I", list(half.hex().encode().translate(_NIBBLES)))
    return table.data[row], int.from_bytes(fields.tobytes(), sys.byteorder)


@lru_cache(maxsize=1)
def _table() -> _Table:
    data = (files("clicket.tool_search") / "word_vectors.bin").read_bytes()
    line, _, _ = data.partition(b"\n")
    start, size = len(line) + 1, 1 + DIMENSIONS // 2
    return _Table({term: start + size * number for number, term in enumerate(line.decode().split())}, data)
