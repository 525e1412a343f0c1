"""The definitions of the figures: recall, its interval, whether an answer is found, and how well a score separates good
from bad."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence

__all__ = ["auc", "bins", "has", "interval", "mean", "percentile", "recall"]


def recall(found: Sequence[str], gold: Sequence[str], k: int) -> float:
    """The share of the gold documents among the first `k`."""
    return len(set(gold) & set(found[:k])) / len(set(gold))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)] if ordered else 0.0


def interval(values: Sequence[float], *, times: int = 2_000) -> tuple[float, float]:
    """95 % of the means of samples of the same size, drawn with replacement from the questions; the seed is fixed."""
    if not values:
        return 0.0, 0.0
    chance = random.Random(7)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(times))
    return means[int(times * 0.025)], means[int(times * 0.975) - 1]


def has(texts: Sequence[str], answer: str) -> bool:
    """Is the answer, word for word, in one of the texts? Case, accents, punctuation and spaces do not count."""
    wanted = f" {_plain(answer)} "
    return wanted.strip() != "" and any(wanted in f" {_plain(text)} " for text in texts)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text).casefold()
    return " ".join(re.findall(r"\w+", "".join(one for one in folded if not unicodedata.combining(one))))


def auc(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """How often a good one scores higher than a bad one, equals as half; None if there are only good or only bad ones."""
    above = [score for score, ok in zip(scores, good, strict=True) if ok]
    below = [score for score, ok in zip(scores, good, strict=True) if not ok]
    if not above or not below:
        return None
    wins = sum((one > other) + 0.5 * (one == other) for one in above for other in below)
    return wins / (len(above) * len(below))


def bins(scores: Sequence[float], good: Sequence[bool], *, count: int = 5) -> list[tuple[float, float, int, float]]:
    """The questions in groups of about the same size, from the lowest scores up: from, to, how many, the share of good ones.

    Equal scores stay together, so that there may be fewer groups than asked for.
    """
    pairs = sorted(zip(scores, good, strict=True))
    groups: dict[int, list[tuple[float, bool]]] = {}
    first: dict[float, int] = {}
    for at, (score, ok) in enumerate(pairs):
        groups.setdefault(first.setdefault(score, at * count // len(pairs)), []).append((score, ok))
    return [(group[0][0], group[-1][0], len(group), mean([float(ok) for _, ok in group])) for group in groups.values()]
