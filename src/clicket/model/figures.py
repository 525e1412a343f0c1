"""Statistics of ended calls: counts, and run times in buckets, which any number of processes can add up.

Sixteen buckets for each doubling, and 0.01 s · 2ⁿ is always a bound: a quantile is off by at most 2.2 %, and Prometheus' buckets
are exact sums of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import ceil, log2

import msgspec

__all__ = ["BASE", "OTHER_TYPE", "PER_DOUBLING", "Figure", "bucket_of", "bucket_top", "error_label", "quantile"]

BASE = 0.01
PER_DOUBLING = 16
_LEAST = 1e-9
_SLACK = 1e-9
"""A bound itself must not fall into the next bucket because a logarithm was rounded up."""
OTHER_TYPE = "(other)"
"""Exceptions whose type has no usable name, or whose types are too many to count apart."""
_TYPE = re.compile(r"[^\W\d][\w.]{0,79}")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one caller and one tool with the same outcome and about the same run time."""

    caller: str
    tool: str
    """Empty for tools that were not registered: callers may invent any number of names."""
    outcome: str
    """The terminal state."""
    error: str
    """The error's code, or empty. An exception of a tool has its type behind it: `tool_error:ValueError`."""
    bucket: int | None
    """None: the tool's code never ran, or the result came from the cache; such calls have no run time."""
    count: int
    seconds: float
    least: float
    most: float

    @property
    def code(self) -> str:
        """The error's code, or empty."""
        return self.error.partition(":")[0]

    @property
    def error_type(self) -> str:
        """The type of the exception that the tool raised, or empty."""
        return self.error.partition(":")[2]


def error_label(code: str, type: str) -> str:
    """`Figure.error` of an error. Codes other than `tool_error` say what happened; their types add nothing."""
    if code != "tool_error":
        return code
    return f"{code}:{type if _TYPE.fullmatch(type) else OTHER_TYPE}"


def bucket_of(seconds: float) -> int:
    """The number of the bucket whose upper bound is the first that is not below."""
    least = seconds if seconds > _LEAST else _LEAST  # noqa: FURB136  # every ending call runs this
    return ceil(log2(least / BASE) * PER_DOUBLING - _SLACK)


def bucket_top(bucket: int) -> float:
    """The upper bound of a bucket; it belongs to the bucket."""
    return float(BASE * 2.0 ** (bucket / PER_DOUBLING))


def quantile(figures: Iterable[Figure], share: float) -> float | None:
    """The run time that `share` of the timed calls do not exceed; None without any."""
    timed = sorted((f for f in figures if f.bucket is not None), key=lambda f: f.bucket or 0)
    total = sum(f.count for f in timed)
    if not total:
        return None
    rank = max(ceil(share * total - 1e-9), 1)
    seen = 0
    least, most = min(f.least for f in timed), max(f.most for f in timed)
    for figure in timed:
        seen += figure.count
        if seen >= rank:
            middle = bucket_top(figure.bucket or 0) * float(2.0 ** (-0.5 / PER_DOUBLING))
            return min(max(middle, least), most)
    return most
