"""One rule for tool health: any sequence of outcomes, in any batches, gives the result of `health_after` in every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.kit.lone_store import LoneStore

from clicket.kernel import State
from clicket.model.ports.health import HEALTH_LAW, HealthRule, assignments, runs_of_outcomes
from clicket.ports import SHARED_PLACE, HealthEffect, OutcomeStats, Store, ToolHealth, health_after
from clicket.stores.memory import MemoryStore
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore
from clicket.stores.sqlite import SqliteStore
from clicket.testing.store_kit import ALIVE, append, creation, opened

STORES = ["memory", "sqlite", "sqlite alone", "redis", "postgresql"]
_numbers = count()

effects: st.SearchStrategy[HealthEffect] = st.sampled_from(["completed", "served", "failed", "none"])
outcomes = st.builds(
    lambda effect, tool, at, seconds, cause, version: OutcomeStats(
        tool, "failed" if effect == "failed" else "completed", "", 1, seconds, effect, at, cause, version
    ),
    effects,
    st.sampled_from(["one", "two", ""]),
    st.floats(1.0, 2e9),
    st.floats(0.0, 1e3),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    st.sampled_from(["", "1", "2"]),
)
batches = st.lists(st.lists(outcomes, min_size=1, max_size=12), max_size=6)
put = st.none() | st.builds(
    lambda streak, first, version: ToolHealth(
        tool="one", consecutive_failures=streak, first_success_at=first, tool_version=version
    ),
    st.integers(0, 9),
    st.none() | st.floats(1.0, 2e9),
    st.sampled_from(["", "1"]),
)


@pytest.fixture(scope="module", params=STORES)
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Store]:
    kind, folder = request.param, tmp_path_factory.mktemp("health")
    if kind == "memory":
        return MemoryStore
    if kind == "redis":
        server = request.getfixturevalue("redis_here")
        return lambda: RedisStore(server.url, prefix="health", timeout=30.0)
    if kind == "postgresql":
        database = request.getfixturevalue("postgres_here")
        return lambda: PostgresStore(f"{database.url()}?schema=health", timeout=30.0)
    return lambda: (SqliteStore if kind == "sqlite" else LoneStore)(folder / "calls.db")


@pytest.fixture
def loop_and_store(make: Callable[[], Store]) -> Iterator[tuple[asyncio.Runner, Store]]:
    """A store that stays open for all examples of a test."""
    with asyncio.Runner() as loop:
        store = make()
        loop.run(store.open(ALIVE))
        yield loop, store
        loop.run(store.close())


@given(batches, put)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_store_keeps_the_law(
    loop_and_store: tuple[asyncio.Runner, Store], batches: list[list[OutcomeStats]], put: ToolHealth | None
) -> None:
    loop, store = loop_and_store
    loop.run(_compare(store, batches, put))


async def _compare(store: Store, batches: list[list[OutcomeStats]], put: ToolHealth | None) -> None:
    thread = f"t{next(_numbers)}"
    wanted: dict[str, ToolHealth] = {}
    if put is not None:
        assert await store.put_tool_health("", thread, put, 0)
        (wanted["one"],) = await store.tool_health("", thread)
    for number, batch in enumerate(batches):
        changes = []
        for n, stats in enumerate(batch):
            change = creation(f"c{number}-{n}", thread=thread)
            change.state, change.ended_at, change.stats = State.COMPLETED, stats.at, stats
            changes.append(change)
            if stats.tool and stats.effect != "none":
                wanted[stats.tool] = health_after(wanted.get(stats.tool), stats)
        assert await append(store, *changes) == [None] * len(batch)
        found = {health.tool: health for health in await store.tool_health("", thread)}
        assert found == wanted


async def test_an_outcome_of_a_tool_with_a_shared_breaker_counts_in_both_places(make: Callable[[], Store]) -> None:
    tool = f"shared{next(_numbers)}"
    async with opened(make) as store:
        for thread in ("s1", "s2"):
            change = creation(f"{tool}-{thread}", thread=f"{tool}-{thread}", caller=thread)
            stats = OutcomeStats(tool, "failed", "tool_error", 1, 0.1, "failed", 5.0, "down", "1", shared=True)
            change.state, change.ended_at, change.stats = State.FAILED, 5.0, stats
            assert await append(store, change) == [None]
        shared = {health.tool: health for health in await store.tool_health(*SHARED_PLACE)}
        assert (shared[tool].consecutive_failures, shared[tool].last_error) == (2, "down")
        (own,) = await store.tool_health("s1", f"{tool}-s1")
        assert own.consecutive_failures == 1


# The table itself.


def test_every_rule_names_a_column_of_health() -> None:
    for rules in HEALTH_LAW.values():
        assert set(rules) <= set(ToolHealth.__struct_fields__)
    assert dict(assignments("served", dict.fromkeys(get_args(HealthRule), "<{column}>"))) == {
        column: f"<{column}>" for column in HEALTH_LAW["served"]
    }


def test_what_each_effect_does() -> None:
    before = ToolHealth(
        tool="x", completions=1, failures=2, consecutive_failures=2, first_success_at=5.0, last_error="e", version=3,
        tool_version="1",
    )  # fmt: skip

    def after(effect: HealthEffect, version: str = "1") -> dict[str, object]:
        new = health_after(before, OutcomeStats("x", "o", "", None, 0.1, effect, 9.0, "cause", version))
        names = ToolHealth.__struct_fields__
        return {name: getattr(new, name) for name in names if getattr(new, name) != getattr(before, name)}

    every = {"updated_at": 9.0, "version": 4}
    assert after("completed") == {"completions": 2, "consecutive_failures": 0, "last_success_at": 9.0, **every}
    assert after("served") == {"completions": 2, "last_success_at": 9.0, **every}
    changed = {"failures": 3, "consecutive_failures": 3, "last_failure_at": 9.0, "last_error": "cause"}
    assert after("failed") == {**changed, **every}
    anew = {**changed, "consecutive_failures": 1, "tool_version": "2"}
    assert after("failed", "2") == {**anew, **every}
    assert after("none") == {}


@given(st.lists(outcomes))
def test_runs_keep_the_order_and_count_all(given: list[OutcomeStats]) -> None:
    runs = runs_of_outcomes(given)
    assert [run.effect for run in runs for _ in range(run.count)] == [stats.effect for stats in given]
    assert all((one.effect, one.tool_version) != (two.effect, two.tool_version) for one, two in pairwise(runs))
