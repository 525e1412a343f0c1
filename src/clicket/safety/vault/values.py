"""Finds known values in a text. The time grows with the text, not with the number of the values or with how they repeat themselves.

A few values are searched for one after the other. Many are found in one pass, by their first characters. A text for which that pass
would take too long is reported as one place: it is masked as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

__all__ = ["MIN_VALUE", "NO_VALUES", "Values"]

MIN_VALUE = 4
"""Shorter declared values are masked in their fields, and not searched for anywhere else."""

_FEW = 16
_TRIES = 32
"""Places of a text that are compared one by one, before the comparison is made in one pass."""
_WORK = 64
"""Characters that may be compared for each character of a text."""


class Values:
    """Immutable. All values have at least `MIN_VALUE` characters."""

    __slots__ = ("_heads", "_known", "_longest", "_sorted", "texts")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self._known = frozenset(texts)
        self._heads: dict[str, tuple[int, ...]] | None = None
        if len(texts) > _FEW:
            self._heads, self._sorted = _by_head(self._known), sorted(self._known)
            self._longest = max(map(len, texts))

    def __bool__(self) -> bool:
        return bool(self.texts)

    def __contains__(self, text: str) -> bool:
        return text in self._known

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """From where to where each value is found, in no order."""
        if self._heads is None:
            for value in self.texts:
                yield from places(text, value)
        elif len(text) >= MIN_VALUE:
            yield from self._in_one_pass(text, self._heads)

    def _in_one_pass(self, text: str, heads: dict[str, tuple[int, ...]]) -> Iterator[tuple[int, int]]:
        known = self._known
        length = len(text)
        work = _WORK * length
        for at in range(length - MIN_VALUE + 1):
            for size in heads.get(text[at : at + MIN_VALUE], ()):
                if at + size > length:  # a longer value is not in the rest
                    break
                work -= size
                if text[at : at + size] in known:
                    yield at, at + size
            if work < 0:
                yield 0, length
                return

    def open_from(self, text: str, first: int) -> int:
        """Where a value begins that the text's end cuts; `first` if that is before it, or if there is none."""
        if self._heads is None:
            for value in self.texts:
                first = open_value(text, value, first)
            return first
        heads = self._heads
        work = _WORK * len(text)
        for at in range(max(len(text) - self._longest + 1, 0), first):
            if text[at : at + MIN_VALUE] in heads or at > len(text) - MIN_VALUE:
                tail = text[at:]
                work -= len(tail)
                if work < 0 or self._begins(tail):
                    return at
        return first

    def _begins(self, text: str) -> bool:
        """Does a value begin with this text, and go on?"""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)


NO_VALUES = Values(())


def _by_head(values: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """The lengths of the values that begin with the same characters."""
    sizes: dict[str, set[int]] = {}
    for value in values:
        sizes.setdefault(value[:MIN_VALUE], set()).add(len(value))
    return {head: tuple(sorted(each)) for head, each in sizes.items()}


def places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Each occurrence of one value, also where two overlap."""
    at = text.find(value)
    tried = 0
    step = 1
    while at >= 0:
        yield at, at + len(value)
        if step == 1 and (tried := tried + 1) > _TRIES and len(value) > _TRIES:
            step = len(value) - _borders(value)[-1]  # two occurrences are never closer
        at = text.find(value, at + step)


def open_value(text: str, value: str, first: int) -> int:
    """Where this value begins that the text's end cuts, if that is before `first`; else `first`."""
    at = text.find(value[0], max(len(text) - len(value) + 1, 0))
    tried = 0
    while 0 <= at < first:
        if (tried := tried + 1) > _TRIES:
            return min(first, len(text) - _overlap(text, value[: len(text) + 1]))
        if value.startswith(text[at:]):
            return at
        at = text.find(value[0], at + 1)
    return first


def _overlap(text: str, value: str) -> int:
    """The longest beginning of the value, short of the whole, that the text ends with."""
    borders = _borders(value)
    length = 0
    for one in text[max(len(text) - len(value) + 1, 0) :]:
        while length and value[length] != one:
            length = borders[length - 1]
        if value[length] == one:
            length += 1
    return length


def _borders(value: str) -> list[int]:
    """For each beginning of the value: the longest shorter text that it both begins and ends with."""
    borders = [0]
    length = 0
    for one in value[1:]:
        while length and value[length] != one:
            length = borders[length - 1]
        if value[length] == one:
            length += 1
        borders.append(length)
    return borders
