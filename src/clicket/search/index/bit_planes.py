"""Sums for all passages at once: a set of passages is one integer with a bit for each of them, and a number for every passage is a list
of such integers, a plane for each binary digit. Adding numbers to those of all passages takes some operations on long integers."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from itertools import compress

__all__ = ["BitPlanes", "members", "planes_of"]

_WORD = 64


def members(bits: int) -> list[int]:
    """The numbers of the bits that are set, in order."""
    words = array("Q", bits.to_bytes((bits.bit_length() // _WORD + 1) * _WORD // 8, "little"))
    if sys.byteorder == "big":
        words.byteswap()
    found = []
    for at in compress(range(len(words)), words):
        first = _WORD * at - 1
        rest = words[at]
        while rest:
            lowest = rest & -rest
            found.append(first + lowest.bit_length())
            rest ^= lowest
    return found


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
        mine = self._planes
        carry = 0
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
        above = 0
        equal = self._every
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
        value = 0
        some = self._every
        for plane in reversed(self._planes):
            value *= 2
            if both := some & plane:
                some, value = both, value + 1
        return value
