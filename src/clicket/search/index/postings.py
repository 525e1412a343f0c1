"""Posting lists with BM25 weights, computed once for each term and cached until the index changes.

FTS5 stores the postings, but its own ranking visits every passage with any of the terms. Here the terms with the largest
weights come first. When the remaining terms cannot lift a new passage into the best `k`, only the passages found so far are
scored further (MaxScore). The result is the same, to the last digit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from math import inf, log
from operator import itemgetter

import apsw
import msgspec

__all__ = ["K1", "MAX_COUNT", "B", "Postings", "count_token"]

K1, B = 1.2, 0.75
_MAX_CACHED = 64_000_000
"""Bytes of posting lists in memory, about."""
_MAX_FREQUENCIES = 200_000
_SHORT = 256
"""A posting list up to this length is scanned without further thought."""
_MAX_MAPPING = 4_096
"""Up to this length a list is a mapping, which is looked up several times faster than the arrays of a longer one."""
_MAPPING_BYTES, _ARRAY_BYTES = 100, 8
"""Of one entry."""
_LOOKUP_COST = 10
"""Looking up one passage in arrays costs about as much as scanning this many entries."""
_GROWTH = 1.6
"""The factor by which the threshold is expected to grow at most; it decides when to compute it again."""
_SLACK = 1e-4
"""More than the rounding error of the sums."""

_integers = msgspec.json.Decoder(list[int]).decode
_COUNT_BASE = 0xE000  # a character for private use, which no term has
MAX_COUNT = 15
_HOLDERS = "SELECT json_group_array(rowid) FROM postings WHERE postings MATCH ?"
_FREQUENCIES = "SELECT f.term, f.passages FROM json_each(?) j CROSS JOIN frequencies f ON f.term = j.value"
_SEVERAL = "SELECT term, json_group_array(doc) FROM instances WHERE term >= ? AND term <= ? GROUP BY term"


def count_token(term: str, count: int) -> str:
    """The token that is stored beside a term which occurs `count` times, when that is more than once."""
    return term + chr(_COUNT_BASE + min(count, MAX_COUNT))


class _PostingList(msgspec.Struct, frozen=True, gc=False):
    """The weight of each passage that has a term: `by_passage` of a short list, the other two of a long one."""

    size: int
    max_weight: float
    by_passage: dict[int, float] | None = None
    passages: array[int] = array("I")
    weights: array[float] = array("f")

    def items(self) -> Iterable[tuple[int, float]]:
        return self.by_passage.items() if self.by_passage is not None else zip(self.passages, self.weights, strict=True)


_NONE = _PostingList(0, 0.0, {})


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
        self._norms = [norms[one] for one in lengths]
        once = [1 / (1 + norm) for norm in norms]
        self._once = [once[one] for one in lengths]
        self._lists: dict[str, _PostingList] = {}
        self._cached = 0
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
            asked = msgspec.json.encode([term.encode(errors="replace").decode() for term in new]).decode()
            known.update(self._connection.execute(_FREQUENCIES, (asked,)).fetchall())
        return [known[term] for term in terms]

    def best(self, wanted: Mapping[str, int], k: int) -> tuple[dict[int, float], bool]:
        """The best `k` passages and those equal to the last, with scores; and whether passages with these terms are left out."""
        lists = [(self._list(term), count) for term, count in sorted(wanted.items())]
        ordered = sorted(
            ((one.max_weight * count, one, count) for one, count in lists if one.max_weight), key=lambda each: -each[0]
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
                _add_to_known(scores, one, count)
            elif scores:
                _add(scores, one, count)
            else:
                scores = _scores(one, count)
        if len(scores) <= k:
            return {key: round(score, 6) for key, score in scores.items()}, threshold > 0
        scores = _above(scores, threshold)
        threshold = round(nlargest(k, scores.values())[-1], 6)
        near = _above(scores, threshold - _SLACK)
        return {key: rounded for key, score in near.items() if (rounded := round(score, 6)) >= threshold}, True

    def _list(self, term: str) -> _PostingList:
        known = self._lists.get(term)
        if known is None:
            if self._cached > _MAX_CACHED:
                self._lists.clear()
                self._cached = 0
            known = self._lists[term] = self._read(term)
            self._cached += known.size * (_ARRAY_BYTES if known.by_passage is None else _MAPPING_BYTES)
        return known

    def _read(self, term: str) -> _PostingList:
        execute, norms = self._connection.execute, self._norms
        keys = _integers(execute(_HOLDERS, (f'"{term}"',)).get)
        if not keys:
            return _NONE
        rarity = log(1 + (self.size - len(keys) + 0.5) / (len(keys) + 0.5)) * (K1 + 1)
        # The first key is given twice: for a single key `itemgetter` would return no tuple.
        weights = [rarity * once for once in itemgetter(keys[0], *keys)(self._once)[1:]]
        for token, several in execute(_SEVERAL, (count_token(term, 2), count_token(term, MAX_COUNT))):
            count = ord(token[-1]) - _COUNT_BASE
            for key in _integers(several):
                weights[bisect_left(keys, key)] = rarity * count / (count + norms[key])
        single = array("f", weights)  # as a long list stores them: the length of a list must not change a score
        if len(keys) <= _MAX_MAPPING:
            return _PostingList(len(keys), max(weights), dict(zip(keys, single, strict=True)))
        return _PostingList(len(keys), max(weights), None, array("I", keys), single)


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
        _add_to_known(best, one, count)
    return nlargest(k, best.values())[-1]


def _above(scores: dict[int, float], floor: float) -> dict[int, float]:
    return {key: score for key, score in scores.items() if score >= floor}


def _scores(one: _PostingList, count: int) -> dict[int, float]:
    """The scores of a term alone."""
    if count == 1:
        return dict(one.items())
    return {key: weight * count for key, weight in one.items()}


def _add(scores: dict[int, float], one: _PostingList, count: int) -> None:
    """Add the weights of a term. Most passages have one of two terms only, and those that have both are few."""
    new = one.by_passage if count == 1 and one.by_passage is not None else _scores(one, count)
    both = {key: scores[key] + new[key] for key in scores.keys() & new.keys()}
    scores.update(new)
    scores.update(both)


def _add_to_known(scores: dict[int, float], one: _PostingList, count: int) -> None:
    """Add the weights of a term to the passages that have a score already."""
    if one.by_passage is not None:
        weight_of = one.by_passage
        for key in scores.keys() & weight_of.keys():
            scores[key] += weight_of[key] * count
        return
    passages, weights, size = one.passages, one.weights, one.size
    if len(scores) * _LOOKUP_COST < size:
        for key in scores:
            at = bisect_left(passages, key)
            if at < size and passages[at] == key:
                scores[key] += weights[at] * count
    else:
        for key, weight in zip(passages, weights, strict=True):
            if key in scores:
                scores[key] += weight * count
