"""How similar a request is to each tool, by the vectors of their texts.

Each dimension of all tools is one large number with a field for each tool. The products of a request with a thousand tools are then as
many multiplications as there are dimensions, and exact.
"""

from __future__ import annotations

import sys
from array import array

from clicket.tool_search.word_vectors import DIMENSIONS, LENGTH

__all__ = ["Similarities"]

_FIELD = 2
"""Bytes of a field. Rounding makes a vector longer than `LENGTH` by at most 6 (half of the root of the dimensions), so a product, raised by
`LENGTH` times the sum of the request's numbers, is less than 32,000 on either side of zero."""
_BIAS = 1 << 15
"""No field is ever below zero, so none borrows from its neighbour."""


class Similarities:
    """Kept tool by tool, by their names."""

    def __init__(self) -> None:
        self._columns = [array("H") for _ in range(DIMENSIONS)]
        """For each dimension the numbers of all tools, raised by `LENGTH`: they are not below zero."""
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._packed: list[int] | None = None

    def put(self, name: str, vector: tuple[int, ...]) -> None:
        self._packed = None
        if self._free:
            slot = self._free.pop()
            for column, value in zip(self._columns, vector, strict=True):
                column[slot] = value + LENGTH
        else:
            slot = len(self._columns[0])
            for column, value in zip(self._columns, vector, strict=True):
                column.append(value + LENGTH)
        self._slots[name] = slot

    def remove(self, name: str) -> None:
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._free.append(slot)

    def to(self, vector: tuple[int, ...]) -> dict[str, float]:
        """For each tool how similar it is, from -1 to 1."""
        size = len(self._columns[0])
        if not self._slots:
            return {}
        if self._packed is None:
            self._packed = [int.from_bytes(column.tobytes(), sys.byteorder) for column in self._columns]
        total = int.from_bytes(array("H", [_BIAS]).tobytes() * size, sys.byteorder)
        for value, packed in zip(vector, self._packed, strict=True):
            total += value * packed
        found = array("H", total.to_bytes(_FIELD * size, sys.byteorder))
        zero = _BIAS + LENGTH * sum(vector)
        return {name: (found[slot] - zero) / (LENGTH * LENGTH) for name, slot in self._slots.items()}
