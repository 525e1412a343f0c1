"""Who holds a term, and how much it counts there: BM25, worked out once for each term and kept until the index changes.

FTS5 keeps the postings, and its own ranking would visit every passage with any of the words. Here the rarest words come
first, and when the words that are left cannot lift a new passage among the best, only those that were met are looked at.
The best passages are the same, to the last digit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from heapq import nlargest
from itertools import accumulate
from math import inf, log
from operator import itemgetter

import apsw
import msgspec

__all__ = ["MOST", "Postings", "often"]

_K1, _B = 1.2, 0.75
_MAX_KEPT = 4_000_000
"""Postings in memory, 8 bytes each."""
_MAX_COUNTED = 200_000
_SHORT = 256
"""A list that is not worth thinking about."""
_STEP = 10
"""Looking one passage up in a list costs about as much as walking over this many."""
_GROWTH = 1.6
"""How much more the bar may come to than it is, when one guesses whether it is worth looking again."""
_SLACK = 1e-4
"""More than sums of floats can be off by."""

_integers = msgspec.json.Decoder(list[int]).decode
_OFTEN = 0xE000  # a character for private use, which no term has
MOST = 15
_HOLDERS = "SELECT json_group_array(rowid) FROM postings WHERE postings MATCH ?"
_SEVERAL = "SELECT term, json_group_array(doc) FROM instances WHERE term >= ? AND term <= ? GROUP BY term"


def often(term: str, count: int) -> str:
    """The token that says, beside the term's own, how often the term occurs when that is more than once."""
    return term + chr(_OFTEN + min(count, MOST))


class _List(msgspec.Struct, frozen=True, gc=False):
    passages: array[int]
    weights: array[float]
    most: float


_NONE = _List(array("I"), array("f"), 0.0)


class Postings:
    """The state of an index at one moment."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.documents, self.size, length = connection.execute("SELECT documents, passages, length FROM totals").get
        holders, lengths = _by_key(connection)
        average = length / self.size if self.size and length else 1.0
        norms = [_K1 * (1 - _B + _B * one / average) for one in range(max(lengths) + 1)]
        self.holders = holders
        """The document of each passage, by the key of the passage."""
        self._norms = [norms[one] for one in lengths]
        once = [1 / (1 + norm) for norm in norms]
        self._once = [once[one] for one in lengths]
        self._lists: dict[str, _List] = {}
        self._kept = 0
        self._frequencies: dict[str, int] = {}

    def frequency(self, term: str) -> int:
        """In how many passages it occurs."""
        known = self._frequencies.get(term)
        if known is None:
            if len(self._frequencies) > _MAX_COUNTED:
                self._frequencies.clear()
            try:
                known = self._connection.execute("SELECT passages FROM frequencies WHERE term = ?", (term,)).get or 0
            except UnicodeEncodeError:
                known = 0
            self._frequencies[term] = known
        return known

    def best(self, wanted: Mapping[str, int], k: int) -> tuple[dict[int, float], bool]:
        """The best `k` passages with their scores, and those equal to the last; are others with these terms left out?"""
        lists = [(self._list(term), count) for term, count in sorted(wanted.items())]
        ordered = sorted(
            ((one.most * count, one, count) for one, count in lists if one.most), key=lambda each: -each[0]
        )
        left = [0.0, *accumulate([each[0] for each in reversed(ordered)])][::-1]
        rest = [*accumulate([len(each[1].passages) for each in reversed(ordered)])][::-1]
        scores: dict[int, float] = {}
        bar, guess = 0.0, inf
        for at, (_, one, count) in enumerate(ordered):
            if bar <= left[at] <= guess and len(scores) >= k and rest[at] > max(_SHORT, len(scores)):
                bar = max(bar, _bar(scores, ordered[at:], k) - _SLACK)
                guess = bar * _GROWTH  # not worth asking again before
            if bar > left[at] and len(scores) > _SHORT:
                scores = _above(scores, bar - left[at])
            if bar > left[at]:
                _lift(scores, one, count)
            elif scores or count > 1:
                get = scores.get
                for key, weight in zip(one.passages, one.weights, strict=True):
                    scores[key] = get(key, 0.0) + weight * count
            else:
                scores = dict(zip(one.passages, one.weights, strict=True))
        if len(scores) <= k:
            return {key: round(score, 6) for key, score in scores.items()}, bar > 0
        scores = _above(scores, bar)
        bar = round(nlargest(k, scores.values())[-1], 6)
        near = _above(scores, bar - _SLACK)
        return {key: rounded for key, score in near.items() if (rounded := round(score, 6)) >= bar}, True

    def _list(self, term: str) -> _List:
        known = self._lists.get(term)
        if known is None:
            if self._kept > _MAX_KEPT:
                self._lists.clear()
                self._kept = 0
            known = self._lists[term] = self._read(term)
            self._kept += len(known.passages)
        return known

    def _read(self, term: str) -> _List:
        execute, norms = self._connection.execute, self._norms
        keys = _integers(execute(_HOLDERS, (f'"{term}"',)).get)
        if not keys:
            return _NONE
        rarity = log(1 + (self.size - len(keys) + 0.5) / (len(keys) + 0.5)) * (_K1 + 1)
        # The first one twice: of a single key `itemgetter` would give no tuple.
        weights = [rarity * once for once in itemgetter(keys[0], *keys)(self._once)[1:]]
        for token, several in execute(_SEVERAL, (often(term, 2), often(term, MOST))):
            count = ord(token[-1]) - _OFTEN
            for key in _integers(several):
                weights[bisect_left(keys, key)] = rarity * count / (count + norms[key])
        return _List(array("I", keys), array("f", weights), max(weights))


def _by_key(connection: apsw.Connection) -> tuple[list[int], list[int]]:
    """Document and length of every passage, by key; keys that are free have 0. As JSON, for rows are dear one by one."""
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


def _bar(scores: dict[int, float], rest: list[tuple[float, _List, int]], k: int) -> float:
    """What a passage must reach at least: the k-th of those that are the best so far, with all that they will be given."""
    best = _above(scores, nlargest(2 * k, scores.values())[-1])
    for _, one, count in rest:
        _lift(best, one, count)
    return nlargest(k, best.values())[-1]


def _above(scores: dict[int, float], floor: float) -> dict[int, float]:
    return {key: score for key, score in scores.items() if score >= floor}


def _lift(scores: dict[int, float], one: _List, count: int) -> None:
    """Add what a term gives to the passages that are there."""
    passages, weights = one.passages, one.weights
    if len(scores) * _STEP < len(passages):
        size = len(passages)
        for key in scores:
            at = bisect_left(passages, key)
            if at < size and passages[at] == key:
                scores[key] += weights[at] * count
    else:
        for key, weight in zip(passages, weights, strict=True):
            if key in scores:
                scores[key] += weight * count
