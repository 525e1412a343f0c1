"""The figures of a store are what its journal says, to the call, after every step of whatever happens.

The world of the journal's property test (crashes, take-overs, lost answers, failing disks, several processes over one store) is
played once more; after every step the store's sums are compared with those that its calls add up to.
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
    """Figures without the noise of the order in which seconds were added."""
    found: dict[_Key, tuple[int, float, float, float]] = {}
    for f in figures:
        key = (f.caller, f.tool, f.outcome, f.error, f.bucket)
        assert key not in found, f"{key} is told twice"
        found[key] = (f.count, round(f.seconds, 6), round(f.least, 6), round(f.most, 6))
    return found


class FiguresMachine(JournalMachine):
    @invariant()
    def figures_are_the_journals(self) -> None:
        self.do(self._compare())

    async def _compare(self) -> None:
        store = self.world.observer.door.inner
        assert sums(await store.figures(None)) == sums(await of_journal(store))


class SqliteFiguresMachine(FiguresMachine):
    kind = "sqlite"


TestMemory = FiguresMachine.TestCase
TestMemory.settings = settings(max_examples=settings().max_examples * (2 if LONG else 1))
TestSqlite = SqliteFiguresMachine.TestCase
TestSqlite.settings = settings(max_examples=settings().max_examples if LONG else settings().max_examples // 2)
TestMemory.pytestmark = TestSqlite.pytestmark = [pytest.mark.timeout(3600)]  # type: ignore[attr-defined]
