"""A pinned artifact stays although no call names it; after the pin ends, the sweep removes it like any other."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket.errors import NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.ports import Keep, Store
from clicket.stores.memory import MemoryStore
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore
from clicket.stores.sqlite import SqliteStore
from clicket.testing.store_kit import ALIVE, append, created, ended, news, opened

Make = Callable[[], Store]
NAME = "sha256-" + "ab" * 32
BODY = b"x" * 5000


@pytest.fixture
def makers(tmp_path: Path, place: str, redis_here: RedisServer, postgres_here: PostgresServer) -> dict[str, Make]:
    """Stores by kind; all but the memory store open one new place."""
    return {
        "memory": MemoryStore,
        "sqlite": partial(SqliteStore, tmp_path / "calls.db"),
        "redis": partial(RedisStore, redis_here.url, prefix=place, timeout=30.0),
        "postgresql": partial(PostgresStore, f"{postgres_here.url()}?schema={place}", timeout=30.0),
    }


@pytest.fixture(params=["memory", "sqlite", "redis", "postgresql"])
def make(request: pytest.FixtureRequest, makers: dict[str, Make]) -> Make:
    return makers[request.param]


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def shared(request: pytest.FixtureRequest, makers: dict[str, Make]) -> Make:
    return makers[request.param]


@pytest.fixture
def age(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, redis_here: RedisServer, postgres_here: PostgresServer
) -> Callable[[], None]:
    """Sweeps spare artifacts younger than an hour, as their call may not be stored yet: make them two hours older."""

    def sqlite() -> None:
        for path in tmp_path.glob("*.artifacts/??/*"):
            os.utime(path, (time.time() - 7200,) * 2)

    def redis_recent() -> None:
        with redis.Redis(port=redis_here.port, protocol=2) as raw:
            for name in raw.zrange(f"{{{place}}}:recent", 0, -1):
                raw.zincrby(f"{{{place}}}:recent", -7200, name)

    def postgresql() -> None:
        with psycopg.connect(postgres_here.url(), autocommit=True, options=f"-c search_path={place}") as other:
            other.execute("UPDATE puts SET at = at - interval '2 hours'")

    kinds = {"sqlite": sqlite, "redis": redis_recent, "postgresql": postgresql}
    given = request.node.callspec.params
    return kinds.get(given.get("make", given.get("shared")), lambda: None)


@pytest.fixture
async def store(make: Make) -> AsyncIterator[Store]:
    async with opened(make) as store:
        yield store


async def there(store: Store, name: str = NAME) -> bool:
    try:
        assert await store.read_artifact(name, 0, None) == BODY
    except NotFound:
        return False
    return True


async def removed(store: Store, keep: Keep, limit: int = 10, *, dry: bool = False) -> tuple[int, int, int]:
    step = await store.sweep(keep, limit, dry=dry)
    return step.calls, step.artifacts, step.bytes


async def test_a_pin_keeps_what_no_call_names_until_its_end(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=1000.0)
    age()
    for _ in range(2):
        assert await removed(store, Keep(since=999.0, calls=0, bytes=0, now=999.0)) == (0, 0, 0)
        assert await removed(store, Keep(calls=0, now=999.0), dry=True) == (0, 0, 0)
    assert await there(store)
    for _ in range(2):
        assert await removed(store, Keep(calls=0, now=1000.0), dry=True) == (0, 1, len(BODY)), "counted and not removed"
    assert await removed(store, Keep(calls=0, now=1000.0)) == (0, 1, len(BODY))
    assert not await there(store)
    for dry in (True, False):
        assert await removed(store, Keep(calls=0, now=5000.0), dry=dry) == (0, 0, 0)


async def test_the_clock_of_the_machine_is_the_default(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=time.time() + 3600)
    age()
    assert await removed(store, Keep(since=time.time())) == (0, 0, 0)
    assert await there(store)
    other = "sha256-" + "12" * 32
    await store.put_artifact(other, [BODY], keep_until=time.time() - 1)
    age()
    assert await removed(store, Keep(since=time.time())) == (0, 1, len(BODY))
    assert (await there(store), await there(store, other)) == (True, False)


@pytest.mark.parametrize("pins", [(500.0, 1000.0), (1000.0, 500.0), (1000.0, 1000.0)])
async def test_of_two_pins_the_longer_one_counts(pins: tuple[float, float], store: Store, age: Any) -> None:
    for until in pins:
        await store.put_artifact(NAME, [BODY], keep_until=until)
    age()
    assert await removed(store, Keep(now=999.9)) == (0, 0, 0)
    assert await there(store)
    assert await removed(store, Keep(now=1000.0)) == (0, 1, len(BODY)), "pinned twice, removed once"
    await store.put_artifact(NAME, [BODY], keep_until=2000.0)
    age()
    assert await removed(store, Keep(now=1999.0)) == (0, 0, 0)
    assert await there(store), "it can be pinned again"


async def test_what_a_swept_call_named_stays_until_its_pin_ends(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=1000.0)
    await ended(store, "a", at=200.0, artifacts=((NAME, len(BODY)),))
    age()
    calls, artifacts, weight = await removed(store, Keep(since=300.0, now=999.0))
    assert (calls, artifacts) == (1, 0)
    assert weight > len(BODY)
    assert await there(store)
    assert (await removed(store, Keep(since=300.0, now=1000.0)))[:2] == (0, 1)
    assert not await there(store)


async def test_what_a_call_names_outlives_its_pin(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=1000.0)
    await ended(store, "a", at=2000.0, artifacts=((NAME, len(BODY)),))
    age()
    for dry in (True, False):
        assert await removed(store, Keep(since=1500.0, now=1500.0), dry=dry) == (0, 0, 0)
    assert await there(store)
    calls, artifacts, weight = await removed(store, Keep(since=2500.0, now=2500.0))
    assert (calls, artifacts) == (1, 1)
    assert len(BODY) < weight < 2 * len(BODY) + 1000, "the call's size includes the artifact"
    assert not await there(store)


async def test_pin_and_call_may_end_in_one_sweep(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=1000.0)
    await ended(store, "a", at=200.0, artifacts=((NAME, len(BODY)),))
    age()
    would = await removed(store, Keep(since=2000.0, now=2000.0), dry=True)
    done = await removed(store, Keep(since=2000.0, now=2000.0))
    assert done[:2] == (1, 1)
    assert would[2] == done[2] < 2 * len(BODY), "the artifact counts once"
    assert not await there(store)


async def test_a_call_that_is_to_come_keeps_what_was_pinned(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY], keep_until=500.0)
    age()
    await store.put_artifact(NAME, [BODY])
    assert (await removed(store, Keep(calls=0, now=600.0)))[1] == 0
    await ended(store, "a", artifacts=((NAME, len(BODY)),))
    assert (await removed(store, Keep(now=600.0)))[1] == 0
    assert await there(store)


async def test_a_pin_keeps_what_was_put_for_a_call_that_never_came(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY])
    await store.put_artifact(NAME, [BODY], keep_until=1000.0)
    await store.put_artifact(NAME, [BODY])
    for _ in range(2):
        age()
        assert await removed(store, Keep(calls=0, now=999.0)) == (0, 0, 0)
    assert await there(store)


async def test_many_pins_end_at_once(store: Store, age: Any) -> None:
    names = [f"sha256-{n:064x}" for n in range(120)]
    for n, name in enumerate(names):
        await store.put_artifact(name, [BODY], keep_until=100.0 + n)
    age()
    assert await removed(store, Keep(now=218.0), 5, dry=True) == (0, 119, 119 * len(BODY))
    for n in range(7):
        await ended(store, f"c{n}", at=10.0)
    first = await store.sweep(Keep(since=50.0, now=218.0), 5)
    rest = await store.sweep(Keep(since=50.0, now=218.0), 5)
    assert (first.calls, first.more, rest.calls, rest.more) == (5, True, 2, False), "calls go in steps of 5"
    assert first.artifacts + rest.artifacts == 119
    assert [name for name in names if await there(store, name)] == names[-1:]


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "sha256-" + "AB" * 32, NAME + "\n", "sha256-\0"])
async def test_what_is_no_name_is_not_pinned(name: str, shared: Make) -> None:
    async with opened(shared) as store:
        with pytest.raises(NotFound):
            await store.put_artifact(name, [BODY], keep_until=1000.0)
        assert await removed(store, Keep(now=2000.0), dry=True) == (0, 0, 0)


async def test_a_pin_holds_for_all_processes_of_the_store(shared: Make, age: Any) -> None:
    async with opened(shared) as one, opened(shared) as two:
        await one.put_artifact(NAME, [BODY], keep_until=1000.0)
        await two.put_artifact(NAME, [BODY], keep_until=800.0)
        age()
        assert await removed(two, Keep(since=999.0, calls=0, now=999.0)) == (0, 0, 0)
    async with opened(shared) as later:  # the process that pinned it has closed
        assert await removed(later, Keep(since=999.0, calls=0, now=999.0)) == (0, 0, 0)
        assert await there(later)
        assert await removed(later, Keep(now=1000.0)) == (0, 1, len(BODY))


async def test_a_pin_that_is_renewed_during_a_sweep_holds(shared: Make, age: Any) -> None:
    async with opened(shared) as store:
        for n in range(20):
            now = 100.0 * n
            await store.put_artifact(NAME, [BODY], keep_until=now + 10)
            age()
            sweeps = [store.sweep(Keep(calls=0, now=now + 20), 10) for _ in range(3)]
            put = store.put_artifact(NAME, [BODY], keep_until=now + 50)
            await asyncio.gather(*sweeps[:1], put, *sweeps[1:])
            await store.sweep(Keep(calls=0, now=now + 49), 10)
            assert await there(store)


async def test_a_closed_store_pins_nothing(make: Make) -> None:
    store = make()
    await store.open(ALIVE)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.put_artifact(NAME, [BODY], keep_until=1000.0)


# What is left in the servers.


async def test_nothing_is_left_of_a_pin_in_redis(redis_here: RedisServer, place: str) -> None:
    async with opened(partial(RedisStore, redis_here.url, prefix=place, timeout=30.0)) as store:
        await store.put_artifact(NAME, [BODY], keep_until=1000.25)
        with redis.Redis(port=redis_here.port, protocol=2) as raw:
            assert raw.zscore(f"{{{place}}}:pins", NAME) == 1000.25
            assert raw.ttl(f"{{{place}}}:artifact:{NAME}") == -1
            await store.sweep(Keep(now=1000.25), 10)
            left = {key.decode().partition(":")[2] for key in raw.keys(f"{{{place}}}:*")}
        assert {key for key in left if not key.startswith("ticket:") and "bus" not in key} == {"meta", "owners"}
        assert await store.size() == 0


async def test_a_running_call_names_what_it_keeps_and_its_bytes_count_once(store: Store, age: Any) -> None:
    await store.put_artifact(NAME, [BODY])
    begun = await created(store, "a")
    named = news(begun, number=0, artifacts=((NAME, len(BODY)),))  # without an event
    assert await append(store, named) == [None]
    age()
    assert await removed(store, Keep(calls=0, bytes=0)) == (0, 0, 0)
    assert await there(store)
    assert await append(store, news(named, state=State.COMPLETED, ended_at=200.0)) == [None]
    calls, artifacts, weight = await removed(store, Keep(since=300.0))
    assert (calls, artifacts) == (1, 1)
    assert len(BODY) < weight < 2 * len(BODY)
    assert not await there(store)
