"""Posting lists with BM25 weights, computed once for each term and cached until the index changes.

The terms with the largest weights come first. When the remaining terms cannot lift a new passage into the best `k`, only the passages
found so far are scored further (MaxScore). Of a common term, the numbers of occurrences and the lengths of passages give a bound for the
weight in each of them, as bits. A query adds the bounds of its common terms for all passages at once; passages are scored exactly from
the highest bound down, until no other one can be among the best.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, compress, pairwise
from math import ceil, inf, log

import apsw
import msgspec

from clicket.search.index.bit_planes import BitPlanes, members, planes_of
from clicket.search.index.list_writer import COUNTS, MAX_COUNT, unpacked

__all__ = ["K1", "B", "Postings", "listed"]

K1, B = 1.2, 0.75
_MAX_CACHED = 64_000_000
"""Bytes of posting lists in memory, about."""
_MAX_FREQUENCIES = 200_000
_SHORT, _MAX_MAPPING, _LARGE = 512, 4_096, 50_000
"""The weights of a list up to the first length, or up to the second one in an index of fewer passages than the third, are a mapping, made
when it is read; a longer one is read as bits."""
_SORTED = 1_000
"""Fewer numbers are sorted, which is faster than to pick the highest ones."""
_LIST_BYTES, _MAPPING_BYTES, _ENTRY_BYTES = 400, 104, 4
"""Of a list, also an empty one; of one entry of a short list, and of a long one."""
_MOST = (*(count - 1 for count in COUNTS[1:]), MAX_COUNT)
"""The highest number of occurrences of the passages that have a term as often as one of `COUNTS`, and not as often as the next."""
_LENGTHS, _JOINED = 6, (1, 2, 2, 2)
"""Classes of passages by length, of about the same size; and how many of them are one class for each of `COUNTS`."""
_UNITS = 31
"""The highest weight of a long list: it has five binary digits."""
_STEPS = 6
"""Steps from the highest bound down."""
_BIT = bytes([1 << (one >> 4 & 7) for one in range(256)])
_AS_OFTEN = [bytes([one & 15 >= count for one in range(256)]) for count in COUNTS]
"""For the lowest byte of an entry: the bit of its passage in a byte of bits, and whether the term is there as often as one of `COUNTS`."""
_FEW = 256
"""So many passages are scanned without further thought."""
_GROWTH = 1.6
"""The factor by which the threshold is expected to grow at most; it decides when to compute it again."""
_SLACK = 1e-4
"""More than the rounding error of the sums."""

_integers = msgspec.json.Decoder(list[int]).decode
_LISTS = """SELECT p.term, p.entries, p.bits FROM json_each(?) j CROSS JOIN posting_lists p INDEXED BY posting_lists_term
    ON p.term = j.value"""
"""The blocks of each list come in order."""
_FREQUENCIES = """SELECT json_group_array(passages) FROM (SELECT
    (SELECT coalesce(sum(size), 0) FROM posting_lists WHERE term = j.value) AS passages FROM json_each(?) j)"""


class _ShortList:
    """The weight of every passage that has a term."""

    __slots__ = ("bytes", "max_weight", "size", "weights")

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
        self.bytes = _LIST_BYTES + _MAPPING_BYTES * self.size

    def add_to(self, scores: dict[int, float], times: int) -> None:
        """Add the weights to the passages that have a score already."""
        weights = self.weights
        for key in scores.keys() & weights.keys():
            scores[key] += weights[key] * times


class _LongList:
    """The passages that have a common term: as entries, for the weights of some, and as bits, for a bound of all weights."""

    __slots__ = ("_entries", "_of", "_present", "_rarity", "_repeated", "bytes", "max_weight", "planes", "size")

    def __init__(
        self, blocks: Sequence[tuple[bytes, bytes | None]], entries: array[int], rarity: float, of: Postings
    ) -> None:
        width = len(of.norms) // 8 + 1
        if all(bits is not None for _, bits in blocks):
            counted = _stored(blocks)
            self._present, self._repeated = (bits.to_bytes(width, "little") for bits in counted[:2])
        else:
            self._present, self._repeated, *more_often = _counted(b"".join([data for data, _ in blocks]), width)
            counted = [int.from_bytes(bits, "little") for bits in (self._present, self._repeated, *more_often)]
        by_units: defaultdict[int, int] = defaultdict(int)
        for most, (some, more), lengths in zip(_MOST, pairwise([*counted, 0]), of.by_length, strict=True):
            rest = some ^ more
            for norm, passages in lengths if rest else ():
                if both := rest & passages:
                    by_units[ceil(rarity * most / (most + norm) / of.unit)] |= both
        self.planes = planes_of(by_units)
        """A bound for the weight of each passage, in units."""
        self.size = len(entries)
        self.bytes = _LIST_BYTES + _ENTRY_BYTES * self.size + (len(self.planes) + 2) * len(of.norms) // 7
        self.max_weight = max(by_units) * of.unit
        self._entries, self._rarity, self._of = entries, rarity, of

    def add_to(self, scores: dict[int, float], times: int) -> None:
        """Add the weights to the passages that have a score already."""
        entries, present, repeated = self._entries, self._present, self._repeated
        once = self._of.once
        norms = self._of.norms
        factor = self._rarity * times
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
        self._longest = _SHORT if self.size >= _LARGE else _MAX_MAPPING
        self.unit = self._rarity(min(self._longest, self.size)) / _UNITS
        """Of the bounds of weights."""
        self._every = (1 << len(lengths)) - 1
        self._lists: dict[str, _ShortList | _LongList] = {}
        self._cached = 0
        """Bytes of lists in memory, about."""
        self._frequencies: dict[str, int] = {}
        self._last_bounds: tuple[list[_Wanted], BitPlanes] = ([], BitPlanes(0))

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
            asked = listed([term.encode(errors="replace").decode() for term in new])
            known.update(zip(new, _integers(self._connection.execute(_FREQUENCIES, (asked,)).get), strict=True))
        return [known[term] for term in terms]

    def _rarity(self, size: int) -> float:
        """What a term in this many passages weighs at most."""
        return log(1 + (self.size - size + 0.5) / (size + 0.5)) * (K1 + 1)

    @cached_property
    def by_length(self) -> list[list[tuple[float, int]]]:
        """For each of `COUNTS`, passages of about the same length, as bits, with the lowest of their norms."""
        class_of: dict[float, int] = {}
        lowest: dict[int, float] = {}
        seen = 0
        for norm, count in sorted(Counter(self.norms[1:]).items()):  # no passage has the key 0
            class_of[norm] = number = _LENGTHS * seen // len(self.norms)
            lowest.setdefault(number, norm)
            seen += count
        classes = bytes([class_of.get(norm, 0) for norm in reversed(self.norms)])
        digits = [(norm, bytes([48 + (one == number) for one in range(256)])) for number, norm in lowest.items()]
        each = [(norm, int(classes.translate(table), 2)) for norm, table in digits]
        return [
            [(each[at][0], sum([bits for _, bits in each[at : at + size]])) for at in range(0, len(each), size)]
            for size in _JOINED
        ]

    def best(self, wanted: Mapping[str, int], k: int) -> tuple[dict[int, float], bool]:
        """The best `k` passages and those equal to the last, with scores; and whether passages with these terms are left out."""
        long: list[_Wanted] = []
        short: list[_Wanted] = []
        for term, one in self._read(sorted(wanted)).items():
            if one.size:
                (long if isinstance(one, _LongList) else short).append(
                    (one.max_weight * wanted[term], one, wanted[term])
                )
        short.sort(key=lambda each: -each[0])
        bounds = self._bounds(long)
        highest = bounds.highest_sum
        most = highest * self.unit  # what long lists give at most
        left = [*accumulate([each[0] for each in reversed(short)], initial=most)][::-1]
        rest = [*accumulate([each[1].size for each in reversed(short)])][::-1]
        once: dict[int, float] = {}  # what the passages have of the first list that they are in
        scores: dict[int, float] = {}  # of those in several lists: few, and nearly always the best ones
        weights: dict[int, float] = {}
        first: dict[int, float] = {}
        threshold = 0.0
        guess = inf
        for at, (_, one, count) in enumerate(short):
            assert isinstance(one, _ShortList)
            if threshold <= left[at] <= guess and len(scores) >= k and (long or rest[at] > max(_FEW, len(once))):
                threshold = max(threshold, _threshold(scores, [*short[at:], *long], k) - _SLACK)
                guess = threshold * _GROWTH  # not computed again before the remaining weights fall below it
            if threshold > left[at] and len(once) > _FEW:
                scores = _above(scores, threshold - left[at])
                once = {**_above(once, threshold - left[at]), **scores}
            weights = _times(one.weights, count)
            first = first or weights
            for key in weights.keys() & once.keys():
                scores[key] = scores.get(key, once[key]) + weights[key]
            if threshold <= left[at] and at < len(short) - 1:
                once.update(weights)  # not the last list, mostly the longest: none follows to be compared with it
        likely = scores
        if len(scores) < k:
            likely = {**once, **weights, **scores} if long else {**first, **scores}
        if len(likely) >= k:
            threshold = max(threshold, _threshold(likely, long, k) - _SLACK)
        exact: dict[int, float] = {}
        level = highest
        done = 0
        while level >= (lowest := max(ceil(threshold / self.unit), 1)):  # those below cannot be among the best
            level = max(level - highest // _STEPS, lowest)
            found = bounds.at_least(level)
            exact.update(_added(dict.fromkeys(members(found ^ done), 0.0), [*short, *long]))
            done, level = found, level - 1
            if len(exact) >= k:
                threshold = max(threshold, _kth(exact, k) - _SLACK)
        near = _above(scores, threshold - most)
        for highest_weight, one, count in short:
            if highest_weight + most < threshold:
                break
            assert isinstance(one, _ShortList)
            near = {**_above(_times(one.weights, count), threshold - most), **near}
        if long and len(near) > _FEW:
            units = max(ceil((threshold - max(near.values())) / self.unit), 0)
            bits = bounds.at_least(units).to_bytes(len(self.norms) // 8 + 1, "little")
            near = {key: weight for key, weight in near.items() if bits[key >> 3] >> (key & 7) & 1}
        return _best_of({**_added(near, long), **exact}, k, threshold > 0)

    def _bounds(self, long: list[_Wanted]) -> BitPlanes:
        """The highest weight that the long lists may give to each passage, in units."""
        if long != self._last_bounds[0]:
            bounds = BitPlanes(self._every)
            for _, one, times in long:
                assert isinstance(one, _LongList)
                for at in range(times.bit_length()):
                    if times >> at & 1:
                        bounds.add([0] * at + one.planes)
            self._last_bounds = (long, bounds)
        return self._last_bounds[1]

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
                rarity = self._rarity(size)
                is_short = size <= self._longest
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


def _counted(data: bytes, width: int) -> list[bytes]:
    """For each of `COUNTS` the passages that have the term as often or more often, as bits; nothing if there are none."""
    entries: Sequence[int] = unpacked(data)
    low = data[::4]
    counted = []
    for count, as_often in zip(COUNTS, _AS_OFTEN, strict=True):
        if count > 1:
            chosen = low.translate(as_often)
            entries, low = list(compress(entries, chosen)), bytes(compress(low, chosen))
        bits = bytearray(width if entries or count < COUNTS[2] else 0)
        for entry, bit in zip(entries, low.translate(_BIT), strict=True):
            bits[entry >> 7] |= bit
        counted.append(bytes(bits))
    return counted


def _stored(blocks: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
    """The same, from the bits that are stored with each block."""
    stored = [bits or b"" for _, bits in blocks]
    firsts = [unpacked(data[:4])[0] >> 4 for data, _ in blocks]
    sizes = [len(bits) // len(COUNTS) for bits in stored]
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
    best = sorted(scores, key=scores.__getitem__)[-2 * k :]
    return _kth(_added({key: scores[key] for key in best}, rest), k)


def _added(scores: dict[int, float], rest: Sequence[_Wanted]) -> dict[int, float]:
    """The scores, with the weights of these lists added."""
    for _, one, count in rest:
        one.add_to(scores, count)
    return scores


def _times(weights: dict[int, float], count: int) -> dict[int, float]:
    return weights if count == 1 else {key: weight * count for key, weight in weights.items()}


def _kth(scores: dict[int, float], k: int) -> float:
    """The k-th of the scores from the highest, or the lowest if there are fewer."""
    values = scores.values()
    return sorted(values)[-k:][0] if len(values) < _SORTED else nlargest(k, values)[-1]


def _above(scores: dict[int, float], floor: float) -> dict[int, float]:
    return {key: score for key, score in scores.items() if score >= floor}


def _best_of(scores: dict[int, float], k: int, has_left_out: bool) -> tuple[dict[int, float], bool]:
    """The highest `k` of the scores and those equal to the last, rounded; and whether passages are left out, now or before."""
    if len(scores) <= k:
        return {key: round(score, 6) for key, score in scores.items()}, has_left_out
    threshold = round(_kth(scores, k), 6)
    near = _above(scores, threshold - _SLACK)
    return {key: rounded for key, score in near.items() if (rounded := round(score, 6)) >= threshold}, True
