"""Laws about what a store keeps: retention by age, number and size, and cached results."""

from __future__ import annotations

import asyncio

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.model.ports import CacheItem, CacheUse, Keep, Query, Store, Stored
from clicket.testing.store_kit import ALIVE, Laws, append, created, creation, ended, law, news, seqs

__all__ = ["laws"]

laws = Laws()


@laws.opened(ALIVE)
async def sweeping_goes_in_small_steps(store: Store) -> None:
    await created(store, "active")
    for n in range(5):
        await ended(store, f"c{n}", at=200.0 + n)
    step = await store.sweep(Keep(since=204.0), 3)
    law.equal((step.calls, step.more), (3, True), "at most `limit` calls, and there may be more")
    law.equal([await seqs(store, f"c{n}") for n in range(4)], [[], [], [], [1, 2]], "the oldest go first")
    step = await store.sweep(Keep(since=204.0), 3)
    law.equal((step.calls, step.more), (1, False), "the second step removes the rest")
    law.equal(await seqs(store, "c4"), [1, 2], "what ended later stays")
    law.equal(await seqs(store, "active"), [1], "what has not ended stays")
    await created(store, "c0")
    law.equal(await seqs(store, "c0"), [1], "a swept identity may be used again, with nothing left of the old")


@laws.opened(ALIVE)
async def what_goes_is_announced_before(store: Store) -> None:
    for n in range(5):
        await ended(store, f"c{n}", at=200.0 + n)
    await created(store, "active")
    announced: list[tuple[str, list[int]]] = []

    async def on_remove(calls: list[Stored]) -> None:
        for stored in calls:
            announced.append((stored.id, await seqs(store, stored.id)))
            law.equal([event.seq for event in stored.events], [1, 2], "`on_remove` gets all events of a call")

    step = await store.sweep(Keep(since=203.0), 2, on_remove=on_remove)
    law.equal((step.calls, step.more), (2, True), "a sweep with `on_remove` goes in steps, too")
    law.equal(sorted(announced), [("c0", [1, 2]), ("c1", [1, 2])], "what goes is announced while it is still there")
    await store.sweep(Keep(since=203.0, thread_calls=2), 100, on_remove=on_remove)
    law.equal(sorted(id for id, _ in announced), ["c0", "c1", "c2"], "each removed call is announced once")
    law.equal(await _left(store, 5), [3, 4], "announced calls are removed")

    async def refuse(calls: list[Stored]) -> None:
        raise StoreUnavailable("not now")

    try:
        await store.sweep(Keep(calls=0), 100, on_remove=refuse)
    except StoreUnavailable:
        law.equal(await _left(store, 5), [3, 4], "what could not be announced stays")
    else:
        law(False, "an error of the announcement is raised")
    law.equal((await store.sweep(Keep(calls=0), 100, dry=True, on_remove=refuse)).calls, 2, "a dry step announces none")


@laws.opened(ALIVE)
async def what_must_stay_is_kept_until_it_is_released(store: Store) -> None:
    for n in range(6):
        change = await created(store, f"c{n}", thread="tu"[n % 2], caller="ann")
        await append(store, news(change, state=State.COMPLETED, ended_at=200.0 + n))
    looked: list[str] = []

    async def keep(calls: list[Stored]) -> set[int]:
        looked.extend(stored.id for stored in calls)
        return {stored.key for stored in calls if stored.id in ("c0", "c1", "c2")}

    step = await store.sweep(Keep(since=300.0), 100, on_remove=keep)
    law.equal((step.calls, await _left(store, 6)), (3, [0, 1, 2]), "calls that must stay are not removed")
    looked.clear()
    for bounds in (Keep(since=300.0), Keep(calls=0), Keep(bytes=0), Keep(thread_calls=0)):
        step = await store.sweep(bounds, 100, on_remove=keep)
        law.equal((step.calls, step.bytes, step.more, looked), (0, 0, False, []), "no sweep looks at them again")
    law.equal(len(await store.history(Query(thread="t"))), 2, "they are listed as others")
    await store.release("ann", "u")
    await store.release("", "t")
    await store.release("ann", "\x00")
    await store.sweep(Keep(since=300.0), 100)
    law.equal(await _left(store, 6), [0, 2], "what was released goes")
    await store.release("ann", "t")
    step = await store.sweep(Keep(calls=1), 100)
    law.equal((step.calls, await _left(store, 6)), (1, [2]), "released ones count again, in the order of their ends")


@laws.opened(ALIVE)
async def a_kept_call_counts_nothing_whatever_comes_late(store: Store) -> None:
    end = await ended(store, "kept")
    for id, thread in (("a", "t"), ("b", "u"), ("c", "u")):
        first = await created(store, id, thread=thread)
        law.equal(await append(store, news(first, state=State.COMPLETED, ended_at=200.0)), [None], "a call ends")

    async def keep(calls: list[Stored]) -> set[int]:
        return {stored.key for stored in calls if stored.id == "kept"}

    step = await store.sweep(Keep(thread_bytes=0), 2, on_remove=keep)
    while step.more:
        step = await store.sweep(Keep(thread_bytes=0), 2, on_remove=keep)
    law.equal([call.id for call in await store.history(Query())], ["kept"], "the others are removed")
    law.equal(await append(store, news(end, fence=-1, state=State.COMPLETED)), [None], "a late result of it")
    other = news(await created(store, "d", thread="u"), state=State.COMPLETED, ended_at=200.0)
    law.equal(await append(store, other), [None], "another call ends")
    law.equal((await store.sweep(Keep(thread_bytes=0), 10)).calls, 1, "a call that is over is removed")
    law.equal([call.id for call in await store.history(Query())], ["kept"], "the other one stays kept")


@laws.opened(ALIVE)
async def a_busy_thread_does_not_push_out_others(store: Store) -> None:
    """What a bound of threads removes does not count against the bounds of all; and each call is counted once, in steps of any size."""

    async def swept(threads: str, keep: Keep, limit: int) -> tuple[int, list[int]]:
        for n, thread in enumerate(threads):
            change = await created(store, f"c{n}", thread=thread)
            end = news(change, state=State.COMPLETED, ended_at=200.0 + n)
            law.equal(await append(store, end), [None], "a call ends")
        would = await store.sweep(keep, 100, dry=True)
        calls = 0
        more = True
        while more:
            step = await store.sweep(keep, limit)
            calls, more = calls + step.calls, step.more
        law.equal(would.calls, calls, "a dry step counts what would go")
        left = await _left(store, len(threads))
        await store.sweep(Keep(calls=0), 100)
        return calls, left

    for limit in (1, 2, 100):
        busy = await swept("tuuu", Keep(calls=3, thread_calls=2), limit)
        law.equal(busy, (1, [0, 2, 3]), "the oldest of the busy thread goes, and no other")
        both = await swept("utttuu", Keep(calls=1, thread_calls=1), limit)
        law.equal(both, (5, [5]), "what is left of the threads counts")
        aged = await swept("utttu", Keep(since=201.5, calls=2, thread_calls=2), limit)
        law.equal(aged, (3, [3, 4]), "what is too old does not count, either")


async def _left(store: Store, number: int) -> list[int]:
    return [n for n in range(number) if await seqs(store, f"c{n}")]


@laws.opened(ALIVE)
async def the_oldest_ends_go_when_a_bound_is_broken(store: Store) -> None:
    for n in range(10):  # even ones in thread t, odd ones in u; the later it began, the earlier it ended
        change = await created(store, f"c{n}", thread="tu"[n % 2])
        await append(store, news(change, state=State.COMPLETED, ended_at=300.0 - n))
    await created(store, "active")
    nothing = await store.sweep(Keep(calls=10, thread_calls=5, since=291.0), 100)
    law.equal((nothing.calls, nothing.more), (0, False), "a sweep within the bounds removes nothing")
    would = await store.sweep(Keep(calls=8), 1, dry=True)
    law.equal((would.calls, await _left(store, 10)), (2, list(range(10))), "a dry step counts all and removes nothing")
    law(would.bytes > 0, "a dry step says how many bytes would go")
    step = await store.sweep(Keep(calls=8), 100)
    law.equal((step.calls, await _left(store, 10)), (2, list(range(8))), "by number: what ended first goes first")
    step = await store.sweep(Keep(thread_calls=3), 100)
    law.equal((step.calls, await _left(store, 10)), (2, list(range(6))), "bounded by the calls of each thread")
    step = await store.sweep(Keep(bytes=0), 2)
    law.equal((step.calls, step.more, await _left(store, 10)), (2, True, [0, 1, 2, 3]), "bounded by size, in steps")
    await store.sweep(Keep(thread_bytes=0), 100)
    law.equal(await _left(store, 10), [], "bounded by size in each thread")
    law.equal(await seqs(store, "active"), [1], "what has not ended stays, whatever the bounds")


@laws.opened(ALIVE)
async def artifacts_count_and_go_with_their_last_call(store: Store) -> None:
    name = "sha256-" + "ab" * 32
    await store.put_artifact(name, [b"x" * 5000])
    await ended(store, "a", at=200.0, artifacts=((name, 5000),))
    await ended(store, "b", at=201.0, artifacts=((name, 5000),))
    step = await store.sweep(Keep(since=200.5), 10)
    law(step.calls == 1 and step.bytes >= 5000, "a call weighs as much as its events and artifacts")
    law.equal(await store.read_artifact(name, 0, 3), b"xxx", "an artifact stays as long as a call names it")


@laws.opened(ALIVE)
async def pinned_artifacts_stay_until_their_pin_ends(store: Store) -> None:
    name = "sha256-" + "cd" * 32
    for until in (500.0, 1000.0, 100.0):  # a later pin never shortens an earlier one
        await store.put_artifact(name, [b"x" * 5000], keep_until=until)
    everything = Keep(since=999.0, calls=0, now=999.0)
    step = await store.sweep(everything, 10)
    law.equal((step.artifacts, step.bytes), (0, 0), "a pinned artifact needs no call that names it")
    await ended(store, "a", at=200.0, artifacts=((name, 5000),))
    step = await store.sweep(everything, 10)
    law.equal((step.calls, step.artifacts), (1, 0), "a pinned artifact stays when its last call is removed")
    law.equal(await store.read_artifact(name, 0, 3), b"xxx", "a pinned artifact can be read")
    await ended(store, "b", at=2000.0, artifacts=((name, 5000),))
    step = await store.sweep(Keep(now=1000.0), 10)
    law.equal((step.artifacts, step.bytes), (0, 0), "when its pin is over it stays as long as a call names it")
    law.equal(await store.read_artifact(name, 0, 3), b"xxx", "the artifact can be read")


def _item(
    key: str, body: bytes = b"1", *, at: float = 100.0, ttl: float = 300.0, tags: tuple[str, ...] = ()
) -> CacheItem:
    return CacheItem(key=key, body=body, tags=tags, created_at=at, expires_at=at + ttl, accessed_at=at)


async def _get(store: Store, key: str, now: float = 150.0) -> CacheItem | None:
    answer: asyncio.Future[CacheItem | None] = asyncio.get_running_loop().create_future()
    store.cache_get(key, now, lambda item, error: answer.set_exception(error) if error else answer.set_result(item))
    return await answer


async def _used(store: Store, id: str, use: CacheUse, at: float = 120.0) -> None:
    change = news(await created(store, id), state=State.COMPLETED, ended_at=at, cache=use)
    law.equal(await append(store, change), [None], "the cache is written with the outcome")


@laws.opened(ALIVE)
async def results_are_cached_with_their_outcome(store: Store) -> None:
    law.equal(await _get(store, "k"), None, "an empty cache")
    item = _item("k", b'{"a":1}', tags=("tool:t", "mine"))
    await _used(store, "first", CacheUse("k", False, item))
    law.equal(await _get(store, "k"), item, "an item comes back as it was")
    await _used(store, "second", CacheUse("k", True), at=160.0)
    found = await _get(store, "k", 170.0)
    law(found is not None and (found.accessed_at, found.access_count) == (160.0, 1), "the use is counted")
    await _used(store, "third", CacheUse("other", False))
    at_once = creation("fourth")
    at_once.state, at_once.ended_at, at_once.cache = State.COMPLETED, 165.0, CacheUse("k", True)
    law.equal(await append(store, at_once), [None], "a call may be created and end in one append")
    stats = await store.cache_stats()
    counted = (stats.items, stats.bytes, stats.hits, stats.misses, stats.evictions)
    law.equal(counted, (1, len(item.body), 2, 2, 0), "the numbers of items, bytes, hits, misses and evictions")
    law.equal(await _get(store, "k", 400.0), None, "what expired is not found")
    law.equal(await _get(store, "k", 10.0), None, "nor what was made in the future: the clock was set back")
    stale = news(await created(store, "stale"), number=2, state=State.COMPLETED, ended_at=120.0, fence=7)
    stale.cache = CacheUse("poison", False, _item("poison"))
    await append(store, stale)
    law.equal(await _get(store, "poison"), None, "an outcome that was refused leaves nothing in the cache")


@laws.opened(ALIVE)
async def results_of_a_group_are_cached_in_its_order(store: Store) -> None:
    first, second, third = [await created(store, id) for id in "abc"]
    uses = (
        (second, CacheUse("k", False, _item("k", b"1"))),
        (third, CacheUse("k", True)),
        (first, CacheUse("k", False, _item("k", b"2", at=101.0))),
    )
    ends = [news(change, state=State.COMPLETED, ended_at=120.0, cache=use) for change, use in uses]
    law.equal(await append(store, *ends), [None] * 3, "several calls end in one iteration of the loop")
    found = await _get(store, "k")
    law(found is not None and (found.body, found.access_count) == (b"2", 0), "the last one's result is there, unused")
    stats = await store.cache_stats()
    law.equal((stats.items, stats.hits, stats.misses), (1, 1, 2), "each use is counted")


@laws.opened(ALIVE)
async def cached_results_go_by_tag_time_and_size(store: Store) -> None:
    for n in range(6):
        item = _item(f"k{n}", b"x" * 100, at=100.0 + n, tags=("even" if n % 2 == 0 else "odd", f"n{n}"))
        await _used(store, f"c{n}", CacheUse(item.key, False, item), at=100.0 + n)
    law.equal(await store.cache_clear("even"), 3, "cleared by tag")
    law.equal(await store.cache_clear("no such tag"), 0, "a tag that nothing has")
    law.equal([bool(await _get(store, f"k{n}")) for n in range(6)], [False, True] * 3, "other results stay")
    await _used(store, "again", CacheUse("k1", True), at=150.0)
    step = await store.cache_sweep(150.0, 250, 10)
    law.equal((step.calls, step.bytes), (1, 100), "over its size the least recently used goes")
    law.equal([n for n in range(6) if await _get(store, f"k{n}")], [1, 5], "other results stay")
    law.equal((await store.cache_stats()).evictions, 1, "it counts as an eviction")
    step = await store.cache_sweep(405.5, 250, 10)
    stats = await store.cache_stats()
    law.equal((step.calls, stats.items, stats.bytes, stats.evictions), (2, 0, 0, 1), "expiry is none")
    await _used(store, "last", CacheUse("k9", False, _item("k9")))
    law.equal((await store.cache_clear(None), await _get(store, "k9")), (1, None), "the whole cache is cleared")


@laws.opened(ALIVE)
async def cached_results_are_listed_and_removed_by_key(store: Store) -> None:
    law.equal(await store.cache_items((0.0, ""), 10), [], "an empty cache")
    for key, at, tags in (("b", 100.0, ("tool:t", "x")), ("a", 100.0, ("tool:t",)), ("c", 99.123456789, ())):
        item = _item(key, b"x" * 10, at=at, tags=tags)
        await _used(store, f"call-{key}", CacheUse(key, False, item), at=at)
    await _used(store, "hit", CacheUse("a", True), at=150.0)
    listed = await store.cache_items((0.0, ""), 10)
    law.equal([entry.key for entry in listed], ["c", "a", "b"], "listed by the time of expiry, then by key")
    first = listed[1]
    law.equal((first.tool, first.tags, first.size), ("t", ("tool:t",), 10), "the tool, tags and size of an entry")
    law.equal(
        (first.created_at, first.accessed_at, first.access_count), (100.0, 150.0, 1), "the times and uses of an entry"
    )
    law.equal((listed[0].tool, listed[0].created_at), ("", 99.123456789), "a result without a tool; times are exact")
    place, seen = (0.0, ""), list[str]()
    while found := await store.cache_items(place, 1):
        seen += [entry.key for entry in found]
        place = found[-1].expires_at, found[-1].key
    law.equal(seen, ["c", "a", "b"], "pages hold every result once")
    law.equal(await store.cache_remove(["a", "c", "no such", "a"]), 2, "the number of removed results")
    law.equal(await store.cache_remove([]), 0, "an empty list removes nothing")
    law.equal([entry.key for entry in await store.cache_items((0.0, ""), 10)], ["b"], "the others stay")
    stats = await store.cache_stats()
    law.equal((stats.items, stats.bytes, stats.evictions), (1, 10, 0), "what is removed is not counted any more")
