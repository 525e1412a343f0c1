"""Sums for all passages at once: a set of passages is one integer with a bit for each of them, and a number for every passage is a list
of such integers, a plane for each binary digit. Adding numbers to those of all passages takes some operations on long integers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

__all__ = ["BitPlanes", "members", "planes_of"]

_BITS = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]
_NOT_EMPTY = re.compile(rb"[^\0]")


def members(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, in order."""
    data = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
    return chain.from_iterable(
        [8 * at + bit for bit in _BITS[data[at]]] for at in (found.start() for found in _NOT_EMPTY.finditer(data))
    )


def planes_of(sets: Mapping[int, int]) -> list[int]:
    """The planes of numbers that are given as sets: for each number the members that have it."""
    planes = [0] * max(sets, default=0).bit_length()
    for value, some in sets.items():
        for at in range(value.bit_length()):
            if value >> at & 1:
                planes[at] |= some
    return planes


class BitPlanes:
    """A sum for each of the members of `every`."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._planes: list[int] = []

    def add(self, planes: Sequence[int]) -> None:
        mine, carry = self._planes, 0
        if not mine:
            mine += planes
            return
        mine += [0] * (len(planes) - len(mine))
        for at, plane in enumerate(mine):
            other = planes[at] if at < len(planes) else 0
            if carry:
                half = plane ^ other
                mine[at], carry = half ^ carry, plane & other | half & carry
            elif other:
                mine[at], carry = plane ^ other, plane & other
        if carry:
            mine.append(carry)

    def at_least(self, value: int) -> int:
        """Those with this sum or a higher one."""
        if value >> len(self._planes):
            return 0
        above, equal = 0, self._every
        for at in range(len(self._planes) - 1, -1, -1):
            both = equal & self._planes[at]
            if value >> at & 1:
                equal = both
            else:
                above |= both
                equal ^= both
        return above | equal

    @property
    def highest_sum(self) -> int:
        value, some = 0, self._every
        for plane in reversed(self._planes):
            value *= 2
            if both := some & plane:
                some, value = both, value + 1
        return value
