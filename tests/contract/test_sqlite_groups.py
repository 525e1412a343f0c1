"""Many calls at a time in a SQLite file: what one commit writes with one statement, and how it handles a refused append."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.test_sqlite_alone import plain

from clicket.kernel import State
from clicket.ports import Append, Duplicate, Query, Stale, Store
from clicket.stores.sqlite import SqliteStore
from clicket.testing.store_kit import append, creation, news, opened
from clicket.testing.store_stats import health


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], Store]:
    return lambda: SqliteStore(tmp_path / "calls.db")


def started(count: int) -> tuple[list[Append], list[Append]]:
    """That many plain calls: their starts, and their ends."""
    calls = [plain(n) for n in range(count)]
    return [first for first, _ in calls], [last for _, last in calls]


async def end(store: Store, starts: list[Append], ends: list[Append]) -> list[object]:
    for first, last in zip(starts, ends, strict=True):
        last.key = first.key
    return [error if error is None else type(error) for error in await append(store, *ends)]


async def test_each_call_of_a_group_gets_its_own_key_and_its_own_end(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        starts, ends = started(23)
        assert await append(store, *starts) == [None] * 23
        assert await end(store, starts, ends) == [None] * 23
        found = await store.history(Query(ascending=True))
        assert [call.id for call in found] == [f"plain{n}" for n in range(23)], "in the order of their appends"
        assert [call.key for call in found] == [first.key for first in starts]
        assert [call.events[-1].data["output"] for call in found] == list(range(23))
        assert [len(call.events) for call in found] == [11] * 23
        assert (await health(store)).completions == 23


@pytest.mark.parametrize("count", [5, 27])
async def test_an_id_that_is_taken_is_refused_alone(make: Callable[[], Store], count: int) -> None:
    async with opened(make) as store:
        starts, ends = started(count)
        twice = plain(2)[0]
        answers = await append(store, *starts[:4], twice, *starts[4:])
        assert [type(answer) for answer in answers] == [*[type(None)] * 4, Duplicate, *[type(None)] * (count - 4)]
        assert twice.key == 0
        assert await end(store, starts, ends) == [None] * count
        found = await store.history(Query(ascending=True))
        assert [call.key for call in found] == [first.key for first in starts]
        assert (await health(store)).completions == count


async def test_an_end_that_comes_too_late_is_refused_alone_and_not_counted(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        starts, ends = started(5)
        await append(store, *starts)
        request = news(starts[3], state=State.RUNNING, fence=-1)
        assert await append(store, request) == [None], "another process wrote an event of the call"
        assert await end(store, starts, ends) == [None, None, None, Stale, None]
        assert [call.events[-1].state for call in await store.history(Query(ascending=True))] == [
            State.COMPLETED, State.COMPLETED, State.COMPLETED, State.RUNNING, State.COMPLETED,
        ]  # fmt: skip
        assert (await health(store)).completions == 4


async def test_other_appends_in_a_group_are_written_in_their_order(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        starts, _ = started(4)
        assert await append(store, *starts[:2], creation("other"), *starts[2:]) == [None] * 5
        found = await store.history(Query(ascending=True))
        assert [call.id for call in found] == ["plain0", "plain1", "other", "plain2", "plain3"]
