"""How long and how much is cached, what is counted, and that a hostile row does no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cache_kit import Counted, stepped
from tests.scenarios.kit import assert_sound, make

from clicket import Settings, State, StoreUnavailable, tool
from clicket.errors import PermissionDenied, UsageError
from clicket.testing import StepClock

# How long -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cache", "ttl", "seconds"),
    [
        ("code_interpreter", True, {}, 1800),
        ("deep_search", True, {}, 7200),
        ("file_operation", True, {}, 600),
        ("web_scraping", True, {}, 900),
        ("look", True, {}, 300),
        ("look", 7, {}, 7),
        ("look", 0.5, {"look": 60.0}, 0.5),
        ("look", True, {"look": 60.0, "default": 10.0}, 60),
        ("look", True, {"default": 10.0}, 10),
        ("deep_search", True, {"default": 10.0}, 7200),
        ("deep_search", True, {"deep_search": 5.0}, 5),
    ],
)
async def test_a_result_is_served_until_its_time_is_over(
    name: str, cache: Any, ttl: dict[str, float], seconds: float
) -> None:
    clock, look = StepClock(), Counted(name=name, cache=cache)
    async with stepped([look.tool], "memory://", clock, cache_ttl=ttl) as rt:
        await rt.call(name)
        clock.advance(seconds - 0.25)
        assert (await rt.call(name)).cached
        clock.advance(0.25)
        assert not (await rt.call(name)).cached
        clock.advance(seconds / 2)
        assert (await rt.call(name)).cached  # a new entry has a new lifetime; a hit does not prolong it
        clock.advance(seconds / 2)
        assert not (await rt.call(name)).cached
    assert len(look.runs) == 3


async def test_what_expired_is_neither_served_nor_kept(store: str) -> None:
    clock, look = StepClock(), Counted(cache=60)
    async with stepped([look.tool], store, clock) as rt:
        for x in range(5):
            await rt.call("look", {"x": x})
        clock.advance(59)
        await rt.call("look", {"x": 9})
        clock.advance(1)
        await rt.engine.caching.sweep()
        stats = await rt.cache.stats()
        assert (stats.items, stats.evictions) == (1, 0)  # an expired entry does not count as evicted
        assert not (await rt.call("look", {"x": 0})).cached
        assert (await rt.call("look", {"x": 9})).cached


async def test_the_sweep_comes_by_itself() -> None:
    clock, look = StepClock(), Counted(cache=60)
    async with stepped([look.tool], "memory://", clock) as rt:
        for x in range(500):  # more than one sweep step removes
            await rt.call("look", {"x": x})
        await clock.run(301)
        assert (await rt.cache.stats()).items == 0


async def test_a_clock_that_was_set_back_serves_nothing_from_the_future(store: str) -> None:
    clock, look = StepClock(), Counted(cache=600)
    async with stepped([look.tool], store, clock) as rt:
        await rt.call("look")
        clock.set_date(clock.now() - 30)  # as much as two hosts' clocks may differ
        assert (await rt.call("look")).cached
        clock.set_date(clock.now() - 7200)
        assert not (await rt.call("look")).cached
        assert (await rt.call("look")).cached
        clock.set_date(clock.now() + 7230)
        assert not (await rt.call("look")).cached


# How much -------------------------------------------------------------------------------------------------------------


def page(size: int) -> Any:
    @tool(cache=3600)
    async def page(x: int) -> str:
        return "p" * size

    return page


async def test_over_the_bytes_the_least_recently_used_go_and_are_counted(store: str) -> None:
    clock = StepClock()
    async with stepped([page(998)], store, clock, cache_max_bytes=10_000) as rt:  # a thousand with the quotes

        async def is_cached(x: int) -> bool:
            clock.advance(1)
            return (await rt.call("page", {"x": x})).cached

        for x in range(10):
            assert not await is_cached(x)
        assert await is_cached(0)  # old, but recently used
        assert await is_cached(1)
        for x in range(10, 13):
            assert not await is_cached(x)
        await rt.engine.caching.sweep()
        stats = await rt.cache.stats()
        assert (stats.items, stats.bytes, stats.evictions) == (10, 10_000, 3)
        assert [await is_cached(x) for x in (0, 1, 5, 12)] == [True] * 4
        assert [await is_cached(x) for x in (2, 3, 4)] == [False] * 3


async def test_it_stays_near_its_bound_without_waiting_for_the_sweep(store: str) -> None:
    clock, bound = StepClock(), 20_000
    async with stepped([page(998)], store, clock, cache_max_bytes=bound) as rt:
        for x in range(200):
            clock.advance(1)
            await rt.call("page", {"x": x})
            assert (await rt.cache.stats()).bytes <= 2 * bound
        await rt.engine.caching.sweep()
        stats = await rt.cache.stats()
    assert stats.bytes <= bound
    assert stats.items * 1000 == stats.bytes
    assert stats.items + stats.evictions == 200


async def test_a_result_that_would_fill_it_all_is_not_kept(store: str) -> None:
    async with make([page(5000)], store, cache_max_bytes=4000) as rt:
        assert (await rt.call("page", {"x": 1})).success
        assert not (await rt.call("page", {"x": 1})).cached
        stats = await rt.cache.stats()
    assert (stats.items, stats.bytes, stats.misses) == (0, 0, 2)


# Tags and counts ------------------------------------------------------------------------------------------------------


async def test_tags_say_what_to_forget(store: str) -> None:
    news, weather = Counted(name="news", tags=["web", "daily"]), Counted(name="weather", tags="web")
    plain = Counted(name="plain")
    names = ("news", "weather", "plain")
    async with make([news.tool, weather.tool, plain.tool], store) as rt:

        async def served() -> list[str]:
            return [name for name in names if (await rt.call(name)).cached]

        await served()
        assert await served() == list(names)
        assert await rt.cache.clear(tag="tool:news") == 1
        assert await served() == ["weather", "plain"]
        assert await rt.cache.clear(tag="web") == 2
        assert await served() == ["plain"]
        assert await rt.cache.clear(tag="daily") == 1
        assert await rt.cache.clear(tag="no such tag") == 0
        assert await rt.cache.clear(tag="tool:new") == 0  # no prefixes
        assert await rt.cache.clear(tag="tool:news' OR 1=1 --") == 0
        assert await rt.cache.clear() == 2
        assert (await rt.cache.stats()).items == 0
        assert await served() == []
        stats = await rt.cache.stats()
    assert stats.items == 3
    assert stats.bytes > 0


async def test_what_is_cached_is_listed_with_its_times_and_uses(store: str) -> None:
    clock, look, other = StepClock(), Counted(tags=["mine"]), Counted(name="other", cache=50)
    async with stepped([look.tool, other.tool], store, clock) as rt:
        made = clock.now()
        await rt.call("look", {"x": 1})
        await rt.call("other")
        clock.advance(10)
        for _ in range(2):
            await rt.call("look", {"x": 1})
        first, second = (await rt.cache.list()).items
        assert (first.tool, first.tags) == ("other", ("tool:other",))
        assert (first.access_count, first.expires_at - first.created_at) == (0, 50)
        assert (second.tool, second.tags, second.access_count) == ("look", ("tool:look", "mine"), 2)
        assert (second.created_at, second.accessed_at, second.expires_at) == (made, made + 10, made + 300)
        assert second.size == len(b'{"x":1,"run":1}')
        page = await rt.cache.list(limit=1)
        assert page.items == [first]
        assert (await rt.cache.list(limit=1, cursor=page.cursor)).items == [second]
        assert [item.tool for item in (await rt.cache.list(tag="mine")).items] == ["look"]
        clock.advance(45)
        assert [item.tool for item in (await rt.cache.list()).items] == ["look"]  # the other one expired
        with pytest.raises(UsageError, match="cursor"):
            await rt.cache.list(cursor="nonsense")
        with pytest.raises(UsageError, match="limit"):
            await rt.cache.list(limit=0)
        with pytest.raises(PermissionDenied, match="operator"):
            await rt.acting_for("ann").cache.list()


async def test_old_results_are_removed_by_their_age(store: str) -> None:
    clock, look = StepClock(), Counted(tags=["mine"])
    async with stepped([look.tool], store, clock) as rt:
        for x in range(3):
            await rt.call("look", {"x": x})
            clock.advance(10)
        await rt.call("look", {"x": 0})  # a hit does not make it younger
        assert await rt.cache.clear(max_age=30) == 0
        assert await rt.cache.clear("other", max_age=15) == 0
        assert await rt.cache.clear("mine", max_age=15) == 2
        assert [(await rt.call("look", {"x": x})).cached for x in range(3)] == [False, False, True]
        for wrong in (-1, float("nan"), True, "1h"):
            with pytest.raises(UsageError, match="max_age"):
                await rt.cache.clear(max_age=wrong)  # type: ignore[arg-type]


async def test_every_call_of_a_cached_tool_is_a_hit_or_a_miss(store: str) -> None:
    @tool(cache=60, max_retries=0)
    async def sometimes(x: int) -> int:
        if x < 0:
            raise ValueError(x)
        return x

    async with make([sometimes], store) as rt:
        results = [await rt.call("sometimes", {"x": x}) for x in (1, 2, 1, -1, -1, 2, 1)]
        await rt.call("sometimes", {"x": "refused"})
        stats = await rt.cache.stats()
    assert stats.hits == sum(result.cached for result in results) == 3
    assert stats.misses == 4
    assert stats.items == 2


async def test_counts_are_those_of_all_runtimes_over_the_store(sqlite: str) -> None:
    look = Counted()
    async with make([look.tool], sqlite) as one, make([look.tool], sqlite) as two:
        work = [rt.call("look", {"x": x % 7}) for x in range(40) for rt in (one, two)]
        results = await asyncio.gather(*work)
        stats, same = await one.cache.stats(), await two.cache.stats()
    assert stats == same
    assert stats.hits == sum(result.cached for result in results)
    assert stats.hits + stats.misses == 80
    assert stats.items == 7
    assert len(look.runs) == stats.misses == 7


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def poison(sqlite: str) -> Iterator[Any]:
    """Writes directly into the file."""
    opened: list[apsw.Connection] = []

    def execute(sql: str, values: Any = ()) -> None:
        if not opened:
            opened.append(apsw.Connection(sqlite.removeprefix("sqlite:///")))
            opened[0].set_busy_timeout(5000)
        opened[0].execute(sql, values)

    yield execute
    for connection in opened:
        connection.close()


BODIES = {
    "not JSON": b"os.system('true')",
    "empty": b"",
    "bad UTF-8": b'"\xff\xfe"',
    "pickle": b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x8c\x04eval\x93.",
    "two values": b"1 2",
    "NaN": b"NaN",
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "lone surrogate": b'"\\ud800"',
    "huge number": b"1" * 10_000,
    "out of range": b"1e999",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_row_that_is_no_result_is_not_served_and_blocks_no_call(sqlite: str, poison: Any, body: bytes) -> None:
    look = Counted()
    async with make([look.tool], sqlite) as rt:
        await rt.call("look")
        poison("UPDATE cache SET body = ?", (body,))
        result = await asyncio.wait_for(rt.call("look", id="after"), PATIENCE)
        record = await rt.get("after")
    assert result.success
    assert result.output == {"x": None, "run": 2}
    assert not result.cached
    assert_sound(record)


async def test_class_paths_in_a_row_are_text(sqlite: str, poison: Any) -> None:
    look = Counted()
    payload = {
        "__class__": "os.system",
        "py/object": "subprocess.Popen",
        "$type": "x",
        "__reduce__": ["touch", "/tmp/x"],
    }
    async with make([look.tool], sqlite) as rt:
        await rt.call("look")
        poison("UPDATE cache SET body = ?", (json.dumps(payload).encode(),))
        result = await rt.call("look")
    assert result.output == payload  # a writer to the store can forge results, but only in JSON
    assert result.state is State.COMPLETED


@pytest.mark.parametrize(
    "change",
    [
        "tags = 'not JSON'",
        "tags = '[1, 2]'",
        "tags = '{\"a\": 1}'",
        "access_count = 9223372036854775807",
        "access_count = -5",
        "created_at = 9e999",
        "expires_at = -1.0",
        "accessed_at = 9e999",
    ],
)
async def test_a_row_with_hostile_columns_blocks_no_call(sqlite: str, poison: Any, change: str) -> None:
    look = Counted()
    async with make([look.tool], sqlite) as rt:
        await rt.call("look")
        poison(f"UPDATE cache SET {change}")
        result = await asyncio.wait_for(rt.call("look"), PATIENCE)
        assert result.success
        again = await asyncio.wait_for(rt.call("look"), PATIENCE)
        assert again.output in ({"x": None, "run": 1}, {"x": None, "run": 2})
        await rt.engine.caching.sweep()
        await rt.cache.clear(tag="tool:look")
        await rt.cache.clear()
        assert (await rt.cache.stats()).items == 0


@pytest.mark.parametrize(
    "hostile",
    [
        "DELETE FROM cache_totals",
        "INSERT INTO cache_totals SELECT * FROM cache_totals",
        "UPDATE cache_totals SET hits = 9223372036854775807, misses = 9223372036854775807",
        "UPDATE cache_totals SET items = 9223372036854775807, bytes = 9223372036854775807",
        "UPDATE cache_totals SET items = -9223372036854775808, bytes = -9223372036854775808",
        "UPDATE cache_totals SET evictions = 9223372036854775807, bytes = 999999",
    ],
)
async def test_forged_totals_block_no_call(sqlite: str, poison: Any, hostile: str) -> None:
    look = Counted()
    async with make([look.tool], sqlite, cache_max_bytes=1000) as rt:
        await rt.call("look")
        poison(hostile)
        assert (await asyncio.wait_for(rt.call("look"), PATIENCE)).cached
        assert (await asyncio.wait_for(rt.call("look", {"x": 2}), PATIENCE)).success
        await rt.cache.stats()
        await rt.engine.caching.sweep()
        await rt.cache.clear(tag="tool:look")
        await rt.cache.clear()
        assert not (await asyncio.wait_for(rt.call("look"), PATIENCE)).cached


async def test_a_cache_that_cannot_be_read_means_running(sqlite: str, poison: Any) -> None:
    look = Counted()
    async with make([look.tool], sqlite) as rt:
        await rt.call("look")
        get = rt.store.cache_get
        rt.store.cache_get = lambda key, now, found: found(None, StoreUnavailable("just now it cannot be read"))
        result = await asyncio.wait_for(rt.call("look"), PATIENCE)
        assert result.success
        assert not result.cached
        rt.store.cache_get = get
        assert (await rt.call("look")).cached


def test_the_settings_say_how_long_by_default() -> None:
    environ = {"CLICKET_CACHE_TTL": "look=60, default=5", "CLICKET_CACHE": "false", "CLICKET_CACHE_MAX_BYTES": "1000"}
    settings = Settings.load(environ=environ)
    assert settings.cache.ttl == {"look": 60.0, "default": 5.0}
    assert (settings.cache.enabled, settings.cache.max_bytes) == (False, 1000)
