"""How the time of a function grows with its input. CPU time of this thread, so that a busy machine changes little."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

__all__ = ["Growth", "cpu", "growth"]

_REPEATS = 10
"""A busy machine disturbs some measurements and not all of them; one that fits ends them, so that only a failure takes all."""
FREE = 0.004
"""Seconds. Work that takes no longer at the largest size is not checked: an attack would gain nothing."""
WORST = 9.0
"""From a size to four times that size: 4 is linear, 16 quadratic. n log n stays below 5."""


class Growth(NamedTuple):
    """Seconds at a size, at twice and at four times that size."""

    size: int
    seconds: tuple[float, float, float]

    @property
    def factor(self) -> float:
        return self.seconds[2] / max(self.seconds[0], 1e-7)

    @property
    def fits(self) -> bool:
        return self.seconds[2] <= FREE or self.factor <= WORST

    def __str__(self) -> str:
        times = " / ".join(f"{each * 1e3:.2f}" for each in self.seconds)
        return f"{self.size:>7} × 1, 2, 4: {times} ms, factor {self.factor:.1f}"


def cpu(work: Callable[[Any], object], given: Any) -> float:
    """Seconds of one run, without the garbage collector."""
    was = gc.isenabled()
    gc.disable()
    try:
        began = thread_time()
        work(given)
        return thread_time() - began
    finally:
        if was:
            gc.enable()


def growth(work: Callable[[Any], object], make: Callable[[int], Any], size: int) -> Growth:
    """Measure the work on inputs of three sizes. The best of several runs counts; a result that fits ends the measurement."""
    made = [make(size * times) for times in (1, 2, 4)]
    best = [float("inf")] * 3
    measured = Growth(size, (0.0, 0.0, 0.0))
    for _ in range(_REPEATS):
        best = [min(known, cpu(work, given)) for known, given in zip(best, made, strict=True)]
        measured = Growth(size, (best[0], best[1], best[2]))
        if measured.fits and measured.seconds[2] > 0:
            break
    return measured
