"""The keys in the server: hostile names and values, keys that expire, lists that are read in steps."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.contract.redis.kit import Make

from clicket.errors import StoreUnavailable
from clicket.ports import CacheItem, CacheUse, Duplicate, Keep, Query, Stale, Store, Stored, Unstorable
from clicket.stores.redis import artifacts
from clicket.testing.store_kit import ANY_TOOL, append, created, creation, ended, news, opened, seqs

# Hostile names and values.


async def test_no_two_identities_are_one(make: Make) -> None:
    names = ["", "a", "1:a", "a1:", "\0", "a\0001:t0:\0001", "{x}", "*", "ü", "0:", "\n"]
    identities = [(id, thread, caller) for id in names for thread in names[:6] for caller in names[:4]]
    async with opened(make) as store:
        changes = [creation(id, thread=thread, caller=caller) for id, thread, caller in identities]
        assert set(await append(store, *changes)) == {None}
        again = await append(store, *[creation(id, thread=thread, caller=caller) for id, thread, caller in identities])
        assert all(isinstance(error, Duplicate) for error in again)
        for change in changes:
            found = await store.load(change.id, change.call.thread, change.call.caller)
            assert [stored.key for stored in found] == [change.key]
        for id in names:
            assert len(await store.load(id)) == 24
            assert {s.id for s in await store.history(Query(id_prefix=id, limit=1000))} == {
                name for name in names if name.startswith(id)
            }


async def test_text_that_cannot_be_written_is_refused_alone(make: Make) -> None:
    async with opened(make) as store:
        before, bad, after = await append(store, creation("a"), creation("\ud800"), creation("b"))
        assert (before, after) == (None, None)
        assert bad is not None
        assert await store.load("\ud800") == []
        assert await store.history(Query(thread="\ud800")) == []


async def test_foreign_rows_are_shown_as_damaged_and_block_no_other_call(make: Make, raw: Any, prefix: str) -> None:
    base = f"{{{prefix}}}:"
    async with opened(make) as store:
        names = ["fine", "json", "type", "text", "number", "gap", "class", "last"]
        keys = {name: (await created(store, name)).key for name in names}

        def spoil(name: str, body: bytes) -> None:
            raw.delete(f"{base}events:{keys[name]}")
            raw.xadd(f"{base}events:{keys[name]}", {"b": body}, id="1-0")

        spoil("json", b"\xff\xfe not JSON")
        raw.delete(f"{base}call:{keys['type']}")
        raw.set(f"{base}call:{keys['type']}", "a string")
        raw.hset(f"{base}call:{keys['text']}", "tool", b"\xff\xfe")
        raw.hset(f"{base}call:{keys['number']}", "fence", "one'; DROP")
        raw.delete(f"{base}events:{keys['gap']}")
        spoil("class", b'[[1,1.0,"created","pending",{"__class__":"os.system","tool":1,"thread":"t"}]]')
        listed = {stored.key: stored for stored in await store.history(Query())}
        damaged = {name for name in names if listed[keys[name]].damaged is not None}
        assert damaged == {"json", "type", "number", "gap", "class"}
        assert all(listed[keys[name]].events == [] for name in damaged)
        for name in names:
            assert len(await store.load(name)) <= 1
        with pytest.raises(StoreUnavailable, match="not what clicket wrote"):
            await store.events(keys["json"], "json", 0)
        (error,) = await append(store, news(await _known(store, keys["type"], "type")))
        assert isinstance(error, Stale)
        await store.hand_back(list(keys.values()))
        claimed = {stored.key: stored for stored in await store.claim_waiting(ANY_TOOL, 100)}
        assert claimed[keys["fine"]].damaged is None
        assert claimed[keys["last"]].damaged is None
        assert claimed[keys["json"]].damaged


async def _known(store: Store, key: int, id: str) -> Any:
    change = creation(id)
    change.key = key
    return change


async def test_a_call_is_never_written_into_another_one(make: Make, raw: Any, prefix: str) -> None:
    """A server that lost its last second assigns the same numbers again."""
    async with opened(make) as store:
        lost = await created(store, "lost")
        raw.delete(f"{{{prefix}}}:call:{lost.key}", f"{{{prefix}}}:events:{lost.key}")
        raw.hincrby(f"{{{prefix}}}:meta", "calls", -1)
        other = await created(store, "other")
        assert other.key == lost.key
        (error,) = await append(store, news(lost))
        assert isinstance(error, Stale)
        assert await store.events(lost.key, "lost", 0) == []
        assert await seqs(store, "other") == [1]


# Keys that expire.


BUS = ("document:3:bussecret", "documents:bus")
"""The secret that signs messages of the bus lives as long as the store."""


def _keys(raw: Any, prefix: str) -> set[str]:
    return {key.decode().partition("}:")[2] for key in raw.scan_iter(f"{{{prefix}}}:*", count=1000)}


async def test_ended_calls_expire_and_live_ones_do_not(make: Make, raw: Any, prefix: str) -> None:
    async with opened(partial(make, retention=100.0)) as store:
        live, done = await created(store, "live"), await ended(store, "done")
        for name in ("call", "events"):
            assert raw.ttl(f"{{{prefix}}}:{name}:{live.key}") == -1
            assert 7 * 24 * 3600 < raw.ttl(f"{{{prefix}}}:{name}:{done.key}") <= 7 * 24 * 3600 + 100


async def test_a_kept_call_does_not_expire_whatever_comes_late(make: Make, raw: Any, prefix: str) -> None:
    async with opened(partial(make, retention=100.0)) as store:
        done = await ended(store, "a")

        async def keep(calls: list[Stored]) -> set[int]:
            return {stored.key for stored in calls}

        await store.sweep(Keep(calls=0), 10, on_remove=keep)
        assert await append(store, news(done, fence=-1)) == [None], "a late result, or what a person says of the call"
        for name in ("call", "events"):
            assert raw.ttl(f"{{{prefix}}}:{name}:{done.key}") == -1
        await store.release("", "t")
        assert raw.ttl(f"{{{prefix}}}:call:{done.key}") > 0
        assert (await store.sweep(Keep(calls=0), 10)).calls == 1
        assert raw.hget(f"{{{prefix}}}:meta", "ended_bytes") == b"0"


async def test_what_expired_is_gone_from_every_list(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        gone = [await ended(store, f"c{n}", at=200.0 + n) for n in range(3)]
        kept = await ended(store, "kept", at=300.0)
        for change in gone:
            raw.delete(f"{{{prefix}}}:call:{change.key}", f"{{{prefix}}}:events:{change.key}")
        assert await store.load("c0") == []
        assert [stored.key for stored in await store.history(Query(thread="t"))] == [kept.key]
        assert raw.zcard(f"{{{prefix}}}:thread:t") == 1
        assert raw.zcard(f"{{{prefix}}}:ended") == 1
        again = await created(store, "c0")
        assert [stored.key for stored in await store.load("c0")] == [again.key]
    async with opened(make) as store:
        raw.delete(f"{{{prefix}}}:call:{kept.key}", f"{{{prefix}}}:events:{kept.key}")
        assert (await store.sweep(Keep(), 10)).calls == 1, "the sweep cleans up, too"
        assert raw.zcard(f"{{{prefix}}}:all") == 1


async def test_nothing_is_left_of_what_was_swept(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        name = "sha256-" + "cd" * 32
        await store.put_artifact(name, [b"x" * 3_000_000])
        for n in range(120):
            await ended(store, f"c{n}", at=200.0 + n, artifacts=((name, 3_000_000),))
        await store.hold("slot", 1, 1)
        raw.zadd(f"{{{prefix}}}:recent", {name: 1})  # an hour has passed
        assert (await store.sweep(Keep(), 10)).artifacts == 0
        assert await store.size() > 3_000_000
        would = await store.sweep(Keep(calls=3, thread_bytes=3_500_000), 10, dry=True)
        assert would.calls == 119
        total = 0
        while (step := await store.sweep(Keep(calls=0), 50)).more:
            total += step.calls
        assert total + step.calls == 120
        assert step.artifacts == 1
        assert await store.size() == 0
    left = {key for key in _keys(raw, prefix) if not key.startswith(("ticket:", "left:"))}  # these expire
    assert left == {"meta", "hours", *BUS}
    assert raw.hget(f"{{{prefix}}}:meta", "ended_bytes") == b"0"


async def test_long_histories_are_walked_in_steps(make: Make) -> None:
    async with opened(make) as store:
        changes = [creation(f"c{n:04}", thread=f"t{n % 7}", caller="c" if n % 500 == 0 else "d") for n in range(2500)]
        assert set(await append(store, *changes)) == {None}
        assert len(await store.history(Query(limit=1000, thread="t3"))) == 357
        assert [s.id for s in await store.history(Query(caller="c", thread="t0"))] == ["c0000"]
        assert [s.id for s in await store.history(Query(id_prefix="c249", limit=3))] == ["c2499", "c2498", "c2497"]
        assert len(await store.history(Query(id_prefix="c", since=50.0, limit=1000))) == 1000
        assert await store.history(Query(since=5000.0, active=True)) == []


async def test_artifacts_that_are_put_again_outlive_the_sweep_of_their_call(
    make: Make, raw: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        data = bytes(range(251)) * 10_000
        name = "sha256-" + "ef" * 32
        await store.put_artifact(name, (data[:5], data[5:]))
        assert await store.read_artifact(name, 1_000_000, 2_500_000) == data[1_000_000:2_500_000]
        await ended(store, "a", artifacts=((name, len(data)),))
        raw.zadd(f"{{{prefix}}}:recent", {name: 1})  # an hour has passed
        await store.sweep(Keep(), 10)
        await store.put_artifact(name, [data])
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 0
        await ended(store, "b", artifacts=((name, len(data)),))
        assert await store.read_artifact(name, 0, 3) == data[:3]
        monkeypatch.setattr(artifacts, "_MOST", 1_500_000)
        with pytest.raises(Unstorable, match="takes no more"):
            await store.put_artifact("sha256-" + "12" * 32, [data])


async def test_results_that_expired_by_themselves_are_cleaned_up(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        item = CacheItem(key="k", body=b"12", tags=("x",), created_at=100.0, expires_at=400.0, accessed_at=100.0)
        await ended(store, "a", cache=CacheUse("k", False, item))
        assert 300 < raw.ttl(f"{{{prefix}}}:cache:k") <= 360
        raw.delete(f"{{{prefix}}}:cache:k")
        assert await store.cache_clear("x") == 0
        assert (await store.cache_stats()).bytes == 0
        assert not raw.exists(f"{{{prefix}}}:tag:x")
        await ended(store, "b", cache=CacheUse("k", False, item))
        raw.hset(f"{{{prefix}}}:cache:k", "tags", b"\xff")
        found: asyncio.Future[CacheItem | None] = asyncio.get_running_loop().create_future()
        store.cache_get("k", 150.0, lambda item, error: found.set_result(item))
        assert await found is None, "a value that clicket did not write counts as absent"
