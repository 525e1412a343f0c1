"""The figures of a store equal its journal, call by call, after every step.

Repeats the simulation of the journal's property test (crashes, takeovers, lost answers, failing disks, several
processes over one store); after every step the store's sums are compared with those of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant
from tests.scenarios.test_journal_property import LONG, JournalMachine

from clicket.model.figures import Figure
from clicket.telemetry.journal_figures import of_journal

_Key = tuple[str, str, str, str, int | None]


def sums(figures: Iterable[Figure]) -> dict[_Key, tuple[int, float, float, float]]:
    """Figures without the rounding errors of the order of addition."""
    found: dict[_Key, tuple[int, float, float, float]] = {}
    for f in figures:
        key = (f.caller, f.tool, f.outcome, f.error, f.bucket)
        assert key not in found, f"{key} is listed twice"
        found[key] = (f.count, round(f.seconds, 6), round(f.least, 6), round(f.most, 6))
    return found


class FiguresMachine(JournalMachine):
    @invariant()
    def figures_are_the_journals(self) -> None:
        self.do(self._compare())

    async def _compare(self) -> None:
        store = self.cluster.observer.faulty_store.inner
        assert sums(await store.figures(None)) == sums(await of_journal(store))


class SqliteFiguresMachine(FiguresMachine):
    kind = "sqlite"


TestMemory = FiguresMachine.TestCase
TestMemory.settings = settings(max_examples=settings().max_examples * 2 if LONG else settings().max_examples // 2)
TestSqlite = SqliteFiguresMachine.TestCase
TestSqlite.settings = settings(max_examples=settings().max_examples if LONG else settings().max_examples // 4)
TestMemory.pytestmark = TestSqlite.pytestmark = [pytest.mark.timeout(3600)]  # type: ignore[attr-defined]
