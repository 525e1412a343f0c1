"""Sums for all passages at once: a set of passages is one integer with a bit for each of them, and a number for every passage is a list
of such integers, one for each binary digit. Adding a weight to 20,000 passages takes a few operations on long integers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

__all__ = ["BitPlanes", "members"]

_BITS = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]
_NOT_EMPTY = re.compile(rb"[^\0]")


def members(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, in order."""
    data = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
    return chain.from_iterable(
        [8 * at + bit for bit in _BITS[data[at]]] for at in (found.start() for found in _NOT_EMPTY.finditer(data))
    )


class BitPlanes:
    """A sum for each of the members of `every`."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._planes: list[int] = []

    def add(self, some: int, weight: int) -> None:
        """Add the weight, which is not negative, to the sum of some of them."""
        if weight < 0:  # its binary digits have no end
            raise ValueError(f"a weight of {weight} cannot be added")
        planes, carry, at = self._planes, 0, 0
        while weight or carry:
            if at == len(planes):
                planes.append(0)
            plane = planes[at]
            if not weight & 1:
                planes[at], carry = plane ^ carry, plane & carry
            elif carry:
                half = plane ^ some
                planes[at], carry = half ^ carry, plane & some | half & carry
            else:
                planes[at], carry = plane ^ some, plane & some
            weight >>= 1
            at += 1

    @property
    def highest_sum(self) -> int:
        value, some = 0, self._every
        for plane in reversed(self._planes):
            value *= 2
            if both := some & plane:
                some, value = both, value + 1
        return value

    def at_least(self, value: int) -> int:
        """Those with this sum or a higher one."""
        if value <= 0:
            return self._every
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

    def highest(self, count: int) -> Iterator[int]:
        """At least so many, if there are, with the highest sums; those of the lowest sum among them last."""
        above, equal = 0, self._every
        for plane in reversed(self._planes):
            both = equal & plane
            if both.bit_count() < count:
                above |= both
                count -= both.bit_count()
                equal ^= both
            else:
                equal = both
        return chain(members(above), members(equal))
