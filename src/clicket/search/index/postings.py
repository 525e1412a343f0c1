"""Posting lists with BM25 weights, computed once for each term and cached until the index changes.

The terms with the largest weights come first. When the remaining terms cannot lift a new passage into the best `k`, only the passages
found so far are scored further (MaxScore). The weights of a common term are computed only of passages that may be among the best: the
bits of its list give a bound for all passages at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, islice
from math import ceil, inf, log
from typing import Any

import apsw
import msgspec

from clicket.search.index.bit_planes import BitPlanes, members
from clicket.search.index.list_writer import COUNTS, MAX_COUNT, count_bits, unpacked

__all__ = ["K1", "B", "Postings", "listed"]

K1, B = 1.2, 0.75
_MAX_CACHED = 64_000_000
"""Bytes of posting lists in memory, about."""
_MAX_FREQUENCIES = 200_000
_SHORT = 256
"""A posting list up to this length is scanned without further thought."""
_SORTED = 1_000
"""Fewer numbers are sorted, which is faster than to pick the highest ones."""
_MAX_MAPPING = 4_096
"""The weights of a list up to this length are a mapping, made when it is read; a longer one is read as bits."""
_LIST_BYTES, _MAPPING_BYTES, _ENTRY_BYTES = 400, 104, 4
"""Of a list, also an empty one; of one entry of a short list, and of a long one."""
_TIERS = ((1, 1.0), (1, 0.5), (2, 0.5), (5, 0.5), (MAX_COUNT, 0.0))
"""The passages of a long list in five tiers: the number of occurrences and the length, as a share of the average, that give the highest
weight there."""
_UNITS = 125
"""The bound of all weights together, as it is counted in bits."""
_MAX_BOUNDS = 8
"""Bounds in memory, each of about `passages` bytes."""
_SEEDS = 4
"""Passages of the highest bounds that are scored to find the threshold, as a multiple of `k`."""
_SHARES = (1.0, 0.6)
"""The passages of a short list in two groups: those with more than the second share of the highest weight, and the others."""
_GROWTH = 1.6
"""The factor by which the threshold is expected to grow at most; it decides when to compute it again."""
_SLACK = 1e-4
"""More than the rounding error of the sums."""

_integers = msgspec.json.Decoder(list[int]).decode
_LISTS = """SELECT p.term, p.entries, p.bits FROM json_each(?) j CROSS JOIN posting_lists p INDEXED BY posting_lists_term
    ON p.term = j.value"""
"""The blocks of each list come in order."""
_FREQUENCIES = """SELECT j.value, (SELECT sum(size) FROM posting_lists WHERE term = j.value) AS passages
    FROM json_each(?) j WHERE passages IS NOT NULL"""


class _ShortList:
    """The weight of every passage that has a term."""

    __slots__ = ("_by_weight", "bytes", "max_weight", "size", "weights")

    def __init__(self, entries: array[int], rarity: float, of: Postings) -> None:
        once, norms = of.once, of.norms
        self.weights = {
            (key := entry >> 4): rarity * once[key]
            if (count := entry & 15) == 1
            else rarity * count / (count + norms[key])
            for entry in entries
        }
        self.size = len(entries)
        self.max_weight = max(self.weights.values(), default=0.0)
        self.bytes = _LIST_BYTES + _MAPPING_BYTES * self.size + (len(norms) // 4 if self.size > _SHORT else 0)
        self._by_weight: list[tuple[float, int]] = []

    def by_weight(self, keys: int) -> list[tuple[float, int]]:
        """The passages as bits, in groups: the share of the highest weight that the weights of a group do not exceed, and its passages."""
        if not self._by_weight:
            middle = _SHARES[1] * self.max_weight
            groups = [bytearray(keys // 8 + 1) for _ in _SHARES]
            for key, weight in self.weights.items():
                groups[weight <= middle][key >> 3] |= 1 << (key & 7)
            self._by_weight = [
                (share, int.from_bytes(one, "little")) for share, one in zip(_SHARES, groups, strict=True)
            ]
        return self._by_weight

    def add_to(self, scores: dict[int, float], times: int) -> None:
        """Add the weights to the passages that have a score already."""
        weights = self.weights
        for key in scores.keys() & weights.keys():
            scores[key] += weights[key] * times


class _LongList:
    """The passages that have a common term: as entries, for the weights of some, and as bits, for a bound of all weights."""

    __slots__ = (
        "_entries",
        "_of",
        "_present",
        "_rarity",
        "_repeated",
        "bounds",
        "bytes",
        "max_weight",
        "size",
        "tiers",
    )

    def __init__(
        self, blocks: Sequence[tuple[bytes, bytes | None]], entries: array[int], rarity: float, of: Postings
    ) -> None:
        once, twice, thrice, often = _counted(blocks)
        half, average, longer = of.shorter
        high = thrice | once & half
        self.tiers = (once, twice | once & average, high | twice & longer, high, often | thrice & half)
        """Each has the passages of the next ones too."""
        self.bounds = [rarity * count / (count + of.norm(share)) for count, share in _TIERS]
        self.max_weight = self.bounds[-1]
        self.size = len(entries)
        self.bytes = _LIST_BYTES + _ENTRY_BYTES * self.size + (len(self.tiers) + 2) * len(of.norms) // 7
        self._entries, self._rarity, self._of = entries, rarity, of
        self._present, self._repeated = (bits.to_bytes(len(of.norms) // 8 + 1, "little") for bits in (once, twice))

    def add_to(self, scores: dict[int, float], times: int) -> None:
        """Add the weights to the passages that have a score already."""
        entries, present, repeated = self._entries, self._present, self._repeated
        once, norms, factor = self._of.once, self._of.norms, self._rarity * times
        for key in scores:
            byte, bit = key >> 3, key & 7
            if present[byte] >> bit & 1:
                if repeated[byte] >> bit & 1:
                    count = entries[bisect_left(entries, key << 4)] & 15
                    scores[key] += factor * count / (count + norms[key])
                else:
                    scores[key] += factor * once[key]


_Wanted = tuple[float, _ShortList | _LongList, int]
"""The highest weight of a term in the query, its list, and how often it is in the query."""


class _Bounds(BitPlanes):
    """The highest weight that the long lists of a query may give to each passage, in units."""

    unit = 1.0


class Postings:
    """The posting lists of one snapshot of the index."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.documents, self.size, length = connection.execute("SELECT documents, passages, length FROM totals").get
        document_of, lengths = _by_key(connection)
        average = length / self.size if self.size and length else 1.0
        norms = [K1 * (1 - B + B * one / average) for one in range(max(lengths) + 1)]
        self.document_of = document_of
        """The document of each passage, by the key of the passage."""
        self.norms = [norms[one] for one in lengths]
        """What the length of each passage adds to the number of occurrences, in the formula of BM25."""
        once = [1 / (1 + norm) for norm in norms]
        self.once = [once[one] for one in lengths]
        """The weight of a term that occurs once, without its rarity."""
        self._lists: dict[str, _ShortList | _LongList] = {}
        self._cached = 0
        """Bytes of lists in memory, about."""
        self._frequencies: dict[str, int] = {}
        self._last_bounds: dict[tuple[tuple[_ShortList | _LongList, int], ...], _Bounds] = {}

    def has_counted(self, terms: Sequence[str]) -> bool:
        """Are the frequencies of these terms in memory?"""
        return all(map(self._frequencies.__contains__, terms))

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """For each term the number of passages with it."""
        known = self._frequencies
        new = [term for term in dict.fromkeys(terms) if term not in known]
        if new:
            if len(known) + len(new) > _MAX_FREQUENCIES:
                known.clear()
                new = list(dict.fromkeys(terms))
            known.update(dict.fromkeys(new, 0))
            asked = listed([term.encode(errors="replace").decode() for term in new])
            rows: list[Any] = self._connection.execute(_FREQUENCIES, (asked,)).fetchall()
            known.update(rows)
        return [known[term] for term in terms]

    def norm(self, share: float) -> float:
        """What a length adds to the number of occurrences, in the formula of BM25; as a share of the average."""
        return K1 * (1 - B + B * share)

    @cached_property
    def shorter(self) -> tuple[int, ...]:
        """Bits of the passages that are shorter than half of the average, than the average, and than one and a half of it."""
        found = []
        for share in (0.5, 1.0, 1.5):
            norm = self.norm(share)
            found.append(int("".join(["1" if one < norm else "0" for one in reversed(self.norms)]), 2))
        return tuple(found)

    def best(self, wanted: Mapping[str, int], k: int) -> tuple[dict[int, float], bool]:
        """The best `k` passages and those equal to the last, with scores; and whether passages with these terms are left out."""
        lists = self._read(sorted(wanted))
        short: list[_Wanted] = []
        long: list[_Wanted] = []
        for term, one in lists.items():
            if one.size:
                (long if isinstance(one, _LongList) else short).append(
                    (one.max_weight * wanted[term], one, wanted[term])
                )
        ordered = sorted(short, key=lambda each: -each[0]) + long
        bounds = self._bounds(long) if long else None
        most = bounds.highest_sum * bounds.unit if bounds else 0.0
        left = [*accumulate([each[0] for each in reversed(ordered[: len(short)])], initial=most)][::-1]
        rest = [*accumulate([each[1].size for each in reversed(ordered)])][::-1]
        once: dict[int, float] = {}  # what the passages have of the first list that they are in
        scores: dict[int, float] = {}  # of those in several lists: few, and nearly always the best ones
        weights: dict[int, float] = {}
        threshold, guess = 0.0, inf
        for at, (_, one, count) in enumerate(ordered[: len(short)]):
            assert isinstance(one, _ShortList)
            if threshold <= left[at] <= guess and len(scores) >= k and rest[at] > max(_SHORT, len(once)):
                threshold = max(threshold, _threshold(scores, ordered[at:], k) - _SLACK)
                guess = threshold * _GROWTH  # not computed again before the remaining weights fall below it
            if threshold > left[at] and len(once) > _SHORT:
                scores = _above(scores, threshold - left[at])
                once = {**_above(once, threshold - left[at]), **scores}
            weights = _times(one.weights, count)
            for key in weights.keys() & once.keys():
                scores[key] = scores.get(key, once[key]) + weights[key]
            if threshold <= left[at] and at < len(short) - 1:
                once.update(weights)  # not the last list, mostly the longest: none follows to be compared with it
        likely = scores if len(scores) >= k or not long else {**once, **weights, **scores}
        if len(likely) >= k:
            threshold = max(threshold, _threshold(likely, long, k) - _SLACK)
        if bounds is not None and threshold <= most:
            seeds = dict.fromkeys(islice(bounds.highest(k), _SEEDS * k), 0.0)
            if len(seeds) >= k:
                threshold = max(threshold, _threshold(seeds, ordered, k) - _SLACK)
        scores = self._with_single(scores, ordered[: len(short)], bounds, most, threshold)
        if bounds is not None and threshold <= most:
            new = bounds.at_least(max(ceil(threshold / bounds.unit), 1))
            scores = {**dict.fromkeys(members(new), 0.0), **scores}
        remaining = sum([each[0] for each in long])
        for highest, one, count in sorted(long, key=lambda each: -each[0]):
            if len(scores) > _SHORT:
                scores = _above(scores, threshold - min(remaining, most))
            one.add_to(scores, count)
            remaining -= highest
        if len(scores) <= k:
            return {key: round(score, 6) for key, score in scores.items()}, threshold > 0
        threshold = round(_kth(scores, k), 6)
        near = _above(scores, threshold - _SLACK)
        return {key: rounded for key, score in near.items() if (rounded := round(score, 6)) >= threshold}, True

    def _with_single(
        self, scores: dict[int, float], short: Sequence[_Wanted], bounds: _Bounds | None, most: float, threshold: float
    ) -> dict[int, float]:
        """The scores, and those of passages in one short list only, as far as they may reach the threshold. `most` is what the long
        lists give at most."""
        single: dict[int, float] = {}
        for highest, one, count in short:
            if highest + most < threshold:
                break
            assert isinstance(one, _ShortList)
            weights = _times(one.weights, count)
            if bounds is None or one.size <= _SHORT or threshold <= highest:
                single.update(_above(weights, threshold - most))
                continue
            for share, passages in one.by_weight(len(self.norms)):
                near = passages & bounds.at_least(ceil((threshold - share * highest) / bounds.unit))
                single.update({key: weights[key] for key in members(near)})
        return {**single, **scores}

    def _bounds(self, long: Sequence[_Wanted]) -> _Bounds:
        """The highest weight that the long lists may give to each passage. The queries of one question often have the same ones."""
        lists = tuple([(one, count) for _, one, count in long])
        if lists in self._last_bounds:
            return self._last_bounds[lists]
        bounds = _Bounds((1 << len(self.norms)) - 1)
        bounds.unit = sum([each[0] for each in long]) / _UNITS
        for _, one, count in long:
            assert isinstance(one, _LongList)
            before = 0
            for tier, bound in zip(one.tiers, one.bounds, strict=True):
                units = ceil(bound * count / bounds.unit)
                bounds.add(tier, units - before)
                before = units
        if len(self._last_bounds) >= _MAX_BOUNDS:
            self._last_bounds.clear()
        self._last_bounds[lists] = bounds
        return bounds

    def _read(self, terms: Sequence[str]) -> dict[str, _ShortList | _LongList]:
        """The lists of these terms, in this order."""
        while self._cached > _MAX_CACHED:
            self._cached -= self._lists.pop(next(iter(self._lists))).bytes
        missing = [term for term in terms if term not in self._lists]
        if missing:
            blocks: dict[str, list[tuple[bytes, bytes | None]]] = {term: [] for term in missing}
            for term, data, bits in self._connection.execute(_LISTS, (listed(missing),)):
                blocks[term].append((data, bits))
            for term, parts in blocks.items():
                entries = unpacked(parts[0][0] if len(parts) == 1 else b"".join([data for data, _ in parts]))
                size = len(entries)
                rarity = log(1 + (self.size - size + 0.5) / (size + 0.5)) * (K1 + 1)
                is_short = size <= max(_MAX_MAPPING, self.size // 64)
                one = _ShortList(entries, rarity, self) if is_short else _LongList(parts, entries, rarity, self)
                self._lists[term] = one
                self._frequencies[term] = size
                self._cached += one.bytes
        found = {term: self._lists.pop(term) for term in terms}
        self._lists.update(found)  # the first ones were not used for the longest time
        return found


def listed(values: Sequence[int] | Sequence[str]) -> str:
    """For `json_each`: one statement with a list is several times faster than one statement for each value."""
    return msgspec.json.encode(values).decode()


def _by_key(connection: apsw.Connection) -> tuple[list[int], list[int]]:
    """Document and length of every passage, by key; 0 for unused keys. Read as JSON, which is faster than row by row."""
    rows = "FROM (SELECT key, document, length FROM passages ORDER BY key)"
    last, documents, lengths = connection.execute(
        f"SELECT max(key), json_group_array(document), json_group_array(length) {rows}"
    ).get
    columns = [0, *_integers(documents)], [0, *_integers(lengths)]
    if last is None or last + 1 == len(columns[0]):
        return columns
    keys = [0, *_integers(connection.execute(f"SELECT json_group_array(key) {rows}").get)]
    spread = [0] * (last + 1), [0] * (last + 1)
    for column, whole in zip(columns, spread, strict=True):
        for key, value in zip(keys, column, strict=True):
            whole[key] = value
    return spread


def _counted(blocks: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
    """For each of `COUNTS` the passages that have the term as often or more often, as bits."""
    stored = [count_bits(unpacked(data)) if bits is None else bits for data, bits in blocks]
    firsts, sizes = [unpacked(data[:4])[0] >> 4 for data, _ in blocks], [len(bits) // len(COUNTS) for bits in stored]
    counted = []
    for at in range(len(COUNTS)):
        sets = [
            int.from_bytes(bits[at * size : (at + 1) * size], "little")
            for bits, size in zip(stored, sizes, strict=True)
        ]
        first, joined = _joined(list(zip(firsts, sets, strict=True)))
        counted.append(joined << first)
    return counted


def _joined(sets: list[tuple[int, int]]) -> tuple[int, int]:
    """Sets of bits, each with the number of its first bit, as one. Halves are joined: to move each set to its place takes far longer."""
    if len(sets) == 1:
        return sets[0]
    (first, one), (second, other) = _joined(sets[: len(sets) // 2]), _joined(sets[len(sets) // 2 :])
    return first, one | other << second - first


def _threshold(scores: dict[int, float], rest: Sequence[_Wanted], k: int) -> float:
    """A score that the best `k` reach at least: the k-th of the best so far, with all remaining terms added."""
    best = _above(scores, _kth(scores, 2 * k))
    for _, one, count in rest:
        one.add_to(best, count)
    return _kth(best, k)


def _times(weights: dict[int, float], count: int) -> dict[int, float]:
    return weights if count == 1 else {key: weight * count for key, weight in weights.items()}


def _kth(scores: dict[int, float], k: int) -> float:
    """The k-th of the scores from the highest, or the lowest if there are fewer."""
    values = scores.values()
    return sorted(values)[-k:][0] if len(values) < _SORTED else nlargest(k, values)[-1]


def _above(scores: dict[int, float], floor: float) -> dict[int, float]:
    return {key: score for key, score in scores.items() if score >= floor}
