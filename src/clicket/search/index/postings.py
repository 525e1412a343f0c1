"""Posting lists with BM25 weights, computed once for each term and cached until the index changes.

The terms with the largest weights come first. When the remaining terms cannot lift a new passage into the best `k`, only the passages
found so far are scored further (MaxScore): of a common term only their weights are computed. The result is the same, to the last digit,
as long as no list is long; see `_LIKELY`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from math import inf, log
from typing import Any

import apsw
import msgspec

from clicket.search.index.list_writer import unpacked

__all__ = ["K1", "B", "Postings", "listed"]

K1, B = 1.2, 0.75
_MAX_CACHED = 64_000_000
"""Bytes of posting lists in memory, about."""
_MAX_FREQUENCIES = 200_000
_SHORT = 256
"""A posting list up to this length is scanned without further thought."""
_MAX_MAPPING = 4_096
"""The weights of a list up to this length are a mapping, made when it is read; those of a longer one are computed when they are needed,
and kept in arrays, which need an eighth of the memory."""
_LIKELY = 3 / (3 + K1)
"""The weight of a term that occurs three times in a passage of average length, without its rarity: the bound for a long list. Few
passages have more, and only one that has nothing but common words of the question, each of them that often, could be missed. In an
index of 200,000 passages 6 of 2,600 results were."""
_LIST_BYTES, _MAPPING_BYTES, _COLUMN_BYTES, _ENTRY_BYTES = 400, 100, 12, 4
"""Of a list, also an empty one, and of one entry in each of its forms."""
_LOOKUP_COST = 5
"""Looking up one passage in a long list costs about as much as scanning this many entries."""
_GROWTH = 1.6
"""The factor by which the threshold is expected to grow at most; it decides when to compute it again."""
_SLACK = 1e-4
"""More than the rounding error of the sums."""

_integers = msgspec.json.Decoder(list[int]).decode
_LISTS = """SELECT p.term, p.entries FROM json_each(?) j CROSS JOIN posting_lists p INDEXED BY posting_lists_term
    ON p.term = j.value"""
"""The blocks of each list come in order."""
_FREQUENCIES = """SELECT j.value, (SELECT sum(size) FROM posting_lists WHERE term = j.value) AS passages
    FROM json_each(?) j WHERE passages IS NOT NULL"""


class _PostingList:
    """The passages that have a term. The weights of a long list are computed when it is scanned the first time."""

    __slots__ = ("_columns", "_of", "entries", "max_weight", "rarity", "size", "weights")

    def __init__(self, entries: array[int], rarity: float, max_weight: float, of: Postings) -> None:
        self._of = of
        self.entries = entries
        self.size = len(entries)
        self.rarity = rarity
        self.weights: dict[int, float] | None = None
        self._columns: tuple[array[int], array[float]] | None = None
        self.max_weight = max_weight
        if self.size <= _MAX_MAPPING:
            self.max_weight = max(self.scanned().values(), default=0.0)

    def scanned(self) -> dict[int, float]:
        """The weight of each passage."""
        if self.weights is not None:
            return self.weights
        if self._columns is not None:
            return dict(zip(*self._columns, strict=True))
        once, norms, rarity = self._of.once, self._of.norms, self.rarity
        weights = {
            (key := entry >> 4): rarity * once[key]
            if (count := entry & 15) == 1
            else rarity * count / (count + norms[key])
            for entry in self.entries
        }
        if self.size <= _MAX_MAPPING:
            self.weights = weights
            self._of.cached += _MAPPING_BYTES * self.size
        else:
            self._columns = array("I", weights), array("d", weights.values())
            self._of.cached += _COLUMN_BYTES * self.size
        return weights

    @property
    def bytes(self) -> int:
        """In memory, about."""
        of_weights = _MAPPING_BYTES if self.weights is not None else _COLUMN_BYTES if self._columns is not None else 0
        return _LIST_BYTES + (_ENTRY_BYTES + of_weights) * self.size

    def add_to(self, scores: dict[int, float], times: int) -> None:
        """Add the weights to the passages that have a score already."""
        weights = self.weights
        if weights is None and len(scores) * _LOOKUP_COST > self.size:
            weights = self.scanned()
        if weights is not None:
            for key in scores.keys() & weights.keys():
                scores[key] += weights[key] * times
            return
        entries, size, once, norms, rarity = self.entries, self.size, self._of.once, self._of.norms, self.rarity
        for key in scores:
            at = bisect_left(entries, key << 4)
            if at < size and entries[at] >> 4 == key:
                count = entries[at] & 15
                weight = rarity * once[key] if count == 1 else rarity * count / (count + norms[key])
                scores[key] += weight * times


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
        self._lists: dict[str, _PostingList] = {}
        self.cached = 0
        """Bytes of lists in memory, about."""
        self._frequencies: dict[str, int] = {}

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

    def best(self, wanted: Mapping[str, int], k: int) -> tuple[dict[int, float], bool]:
        """The best `k` passages and those equal to the last, with scores; and whether passages with these terms are left out."""
        lists = self._read(sorted(wanted))
        ordered = sorted(
            ((one.max_weight * wanted[term], one, wanted[term]) for term, one in lists.items() if one.size),
            key=lambda each: -each[0],
        )
        left = [0.0, *accumulate([each[0] for each in reversed(ordered)])][::-1]
        rest = [*accumulate([each[1].size for each in reversed(ordered)])][::-1]
        scores: dict[int, float] = {}
        threshold, guess = 0.0, inf
        for at, (_, one, count) in enumerate(ordered):
            if threshold <= left[at] <= guess and len(scores) >= k and rest[at] > max(_SHORT, len(scores)):
                threshold = max(threshold, _threshold(scores, ordered[at:], k) - _SLACK)
                guess = threshold * _GROWTH  # not computed again before the remaining weights fall below it
            if threshold > left[at] and len(scores) > _SHORT:
                scores = _above(scores, threshold - left[at])
            if threshold > left[at]:
                one.add_to(scores, count)
            elif scores:
                _add(scores, one.scanned(), count)
            else:
                scores = _times(one.scanned(), count)
        if len(scores) <= k:
            return {key: round(score, 6) for key, score in scores.items()}, threshold > 0
        scores = _above(scores, threshold)
        threshold = round(nlargest(k, scores.values())[-1], 6)
        near = _above(scores, threshold - _SLACK)
        return {key: rounded for key, score in near.items() if (rounded := round(score, 6)) >= threshold}, True

    def _read(self, terms: Sequence[str]) -> dict[str, _PostingList]:
        """The lists of these terms, in this order."""
        while self.cached > _MAX_CACHED:
            self.cached -= self._lists.pop(next(iter(self._lists))).bytes
        missing = [term for term in terms if term not in self._lists]
        if missing:
            blocks: dict[str, list[bytes]] = {term: [] for term in missing}
            for term, entries in self._connection.execute(_LISTS, (listed(missing),)):
                blocks[term].append(entries)
            for term, data in blocks.items():
                entries = unpacked(data[0] if len(data) == 1 else b"".join(data))
                rarity = log(1 + (self.size - len(entries) + 0.5) / (len(entries) + 0.5)) * (K1 + 1)
                self._lists[term] = _PostingList(entries, rarity, rarity * _LIKELY, self)
                self._frequencies[term] = len(entries)
                self.cached += _LIST_BYTES + _ENTRY_BYTES * len(entries)
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


def _threshold(scores: dict[int, float], rest: list[tuple[float, _PostingList, int]], k: int) -> float:
    """A score that the best `k` reach at least: the k-th of the best so far, with all remaining terms added."""
    best = _above(scores, nlargest(2 * k, scores.values())[-1])
    for _, one, count in rest:
        one.add_to(best, count)
    return nlargest(k, best.values())[-1]


def _above(scores: dict[int, float], floor: float) -> dict[int, float]:
    return {key: score for key, score in scores.items() if score >= floor}


def _times(weights: dict[int, float], count: int) -> dict[int, float]:
    return weights.copy() if count == 1 else {key: weight * count for key, weight in weights.items()}


def _add(scores: dict[int, float], weights: dict[int, float], count: int) -> None:
    """Add the weights of a term. Most passages have one of two terms only, and those that have both are few."""
    new = weights if count == 1 else _times(weights, count)
    both = {key: scores[key] + new[key] for key in scores.keys() & new.keys()}
    scores.update(new)
    scores.update(both)
