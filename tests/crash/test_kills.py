"""Killed at every stage and at any instant: no acknowledged call is lost, none is silently repeated, none ends twice.

The short form; `scripts/crash.py` is the long one, and repeats a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.crash.driver import OutcomeStats, run_all
from tests.crash.failpoints import points_of, resolve
from tests.crash.nest import Nest
from tests.crash.stores import STORES, Fresh, Row

from clicket.ports import Store

RUNS = 3


@pytest.mark.parametrize("served", STORES, indirect=True)
async def test_seeded_kills(
    served: tuple[Row, Fresh], nests: list[Nest], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    row, fresh = served
    outcomes = await run_all(row, fresh, tmp_path, range(RUNS), nests)
    stats = OutcomeStats(store=row.name)
    for outcome in outcomes:
        stats.add(outcome)
    record_property("crash", msgspec.to_builtins(stats))
    found = [str(outcome) for outcome in outcomes if outcome.verdict.findings]
    assert not found, "\n".join(found)
    assert stats.kills >= 3 * RUNS
    assert stats.acked > 0


@pytest.mark.parametrize("row", STORES.values(), ids=STORES)
def test_every_point_is_there(row: Row) -> None:
    """If a function is renamed, its failpoint must be renamed too, or kills would silently stop happening there."""
    for point in points_of(row.scheme, apart=True):
        if ":" in point.target:
            resolve(point.target)
        else:
            assert callable(getattr(Store, point.target))
