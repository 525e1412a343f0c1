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
    """Measure the work on inputs of three sizes. The best of several runs counts; a result that fits ends the measurement.

    Sizes are compared within a run, and the smallest is measured before and after the others: what else the processor does makes one
    moment several times as slow as another, also in CPU time.
    """
    small, middle, large = (make(size * times) for times in (1, 2, 4))
    best: Growth | None = None
    for _ in range(_REPEATS):
        before, *others, after = (cpu(work, given) for given in (small, middle, large, small))
        measured = Growth(size, (min(before, after), others[0], others[1]))
        if best is None or measured.factor < best.factor:
            best = measured
        if measured.fits and measured.seconds[2] > 0:
            return measured
    assert best is not None
    return best
