"""Redis is killed, restarted, emptied, stopped, out of memory, or its answers never arrive: acknowledged writes stay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.waiting import PATIENCE
from tests.redis_server import RedisServer, redis_server

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, Query, Stale, Store
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.stores.redis import RedisStore
from clicket.testing.store_kit import ALIVE, ANY_TOOL, DEAD, append, created, creation, ended, news, opened, seqs


@pytest.fixture
def server(own: RedisServer) -> RedisServer:
    """Of each test alone: they break it."""
    return own


def _store_at(port: int, prefix: str, **given: Any) -> Callable[[], RedisStore]:
    return partial(RedisStore, f"redis://127.0.0.1:{port}/0", prefix=prefix, timeout=30.0, **given)


@contextmanager
def _impatient(store: Any) -> Iterator[None]:
    """Inside, the store waits only a moment for answers; outside, a busy machine has all the time that it needs."""
    parts = store._parts

    def wait(seconds: float) -> None:
        parts.client.timeout = parts.writer._patience = seconds
        for each in (parts.connection, parts.client.pool, *parts.client.pool._idle):
            each._timeout = seconds

    wait(0.3)
    try:
        yield
    finally:
        wait(30.0)


async def _eventually(what: Callable[[], Any]) -> None:
    give_up_at = time.monotonic() + 120.0
    while not what():
        assert time.monotonic() < give_up_at, "the condition did not become true"
        await asyncio.sleep(0.01)


# The server comes back.


class _Load:
    """Chains of appends, each answered before the next; `acked` are the event numbers that the store acknowledged."""

    def __init__(self, store: Store, chains: int, *, may_lose: bool = False) -> None:
        self.store = store
        self.may_lose = may_lose
        """The server may lose what it acknowledged: then a chain goes on with another call."""
        self.acked: dict[str, int] = {}
        self.lost: set[str] = set()
        self.refused = 0
        self.stopped = False
        self.tasks = [asyncio.create_task(self._chain(f"chain{n}")) for n in range(chains)]

    async def _chain(self, name: str) -> None:
        for number in count():
            change = creation(f"{name}-{number}")
            if not await self._accepted(change):
                continue
            for _ in range(20):
                if self.stopped:
                    return
                change = news(change)
                while not await self._accepted(change):  # like the journal: it retries until the outcome is stored
                    if self.stopped:
                        return
                if change.id in self.lost:
                    break

    async def _accepted(self, change: Append) -> bool:
        (error,) = await append(self.store, change)
        if isinstance(error, Stale) and self.refused:  # the write succeeded, but the answer came too late
            error = None if len(await seqs(self.store, change.id)) == change.events[-1].seq else error
        if error is None:
            self.acked[change.id] = change.events[-1].seq
            return True
        if self.may_lose and isinstance(error, Stale):
            self.lost.add(change.id)
            return True
        assert isinstance(error, StoreUnavailable), error
        self.refused += 1
        return self.stopped

    def total(self) -> int:
        """Acknowledged events. Raises what ended a chain."""
        for task in self.tasks:
            if task.done():
                task.result()
        return sum(self.acked.values())

    async def stop(self) -> None:
        self.stopped = True
        await asyncio.wait_for(asyncio.gather(*self.tasks), PATIENCE)


@pytest.mark.parametrize("fsync", ["everysec", "always"])
async def test_what_was_answered_survives_a_kill_of_the_server(tmp_path: Path, prefix: str, fsync: str) -> None:
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", fsync) as server:
        async with opened(_store_at(server.port, prefix)) as store:
            load = _Load(store, 8, may_lose=fsync == "everysec")
            for _ in range(3):
                seen = load.total()
                await _eventually(lambda seen=seen: load.total() > seen + 100)
                server.kill()
                server.start()
            seen = load.total()
            await _eventually(lambda: load.total() > seen + 100)
            await load.stop()
            for id, last in load.acked.items():
                numbers = await seqs(store, id)
                assert numbers == list(range(1, len(numbers) + 1))
                if (
                    fsync == "always"
                ):  # with everysec, Redis may keep acknowledged writes in its memory while its disk is slow
                    assert len(numbers) >= last, f"{id}: {last} were acknowledged, {len(numbers)} are stored"
                assert len(numbers) <= last + 1, "no event is stored twice"


@pytest.mark.parametrize("how", ["restarted", "flushed"])
async def test_a_server_that_lost_its_data_is_noticed(server: RedisServer, prefix: str, how: str) -> None:
    async with opened(_store_at(server.port, prefix)) as store:
        first = await created(store, "a")
        if how == "restarted":
            server.kill()
            server.start()
        else:
            server.ask("FLUSHALL")
        for _ in range(2):
            (error,) = await append(store, news(first))
            assert isinstance(error, StoreUnavailable)
            assert "lost its data" in str(error)
            (error,) = await append(store, creation("b"))
            assert isinstance(error, StoreUnavailable)
            with pytest.raises(StoreUnavailable, match="open it again"):
                await store.load("a")
            with pytest.raises(StoreUnavailable, match="lost its data"):
                await store.renew()
            async with opened(_store_at(server.port, prefix)) as other:  # another store may start over
                await created(other, f"c{time.monotonic_ns()}")
    async with opened(_store_at(server.port, prefix)) as store:
        assert await store.load("a") == []
        await created(store, "a")


async def test_power_is_not_promised_after_a_restart_without_it(tmp_path: Path, prefix: str) -> None:
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        async with opened(_store_at(server.port, prefix, durability="power")) as store:
            first = await created(store, "a")
            server.kill()
            server.start("--appendfsync", "everysec")
            (error,) = await append(store, news(first))
            assert isinstance(error, StoreUnavailable)
            assert "appendfsync always" in str(error)
            server.ask("CONFIG", "SET", "appendfsync", "always")
            assert await append(store, news(first)) == [None]


# The server hangs.


async def test_a_server_that_hangs_is_waited_for_a_while(server: RedisServer, prefix: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async with opened(_store_at(server.port, prefix)) as store:
        first = await created(store, "a")
        ticking = asyncio.create_task(tick())
        server.pause()
        try:
            with _impatient(store):
                asked = (store.load("a"), store.renew(), store.claim_waiting(ANY_TOOL, 1))
                answers, loaded = await asyncio.wait_for(
                    asyncio.gather(
                        append(store, creation("refused"), news(first)), asyncio.gather(*asked, return_exceptions=True)
                    ),
                    PATIENCE,
                )
        finally:
            server.resume()
            ticking.cancel()
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
        assert [type(answer) for answer in loaded] == [StoreUnavailable] * 3
        assert ticks > 10, "the event loop was not blocked"
        (error,) = await append(store, news(first))
        assert error is None or isinstance(error, Stale), "written now, or when the server resumed"
        assert await store.load("refused") == [], "a refused creation left no call"
        assert await seqs(store, "a") == [1, 2]


async def test_a_stop_that_is_short_is_not_even_noticed(server: RedisServer, prefix: str) -> None:
    async with opened(_store_at(server.port, prefix)) as store:
        first = await created(store, "a")
        server.pause()
        answer = asyncio.create_task(append(store, news(first)))
        await asyncio.sleep(0)
        server.resume()
        assert await answer == [None]


# The server is full.


async def test_a_full_server_refuses_writes_and_goes_on_by_itself(server: RedisServer, prefix: str) -> None:
    async with opened(_store_at(server.port, prefix)) as store:
        first = await created(store, "a")
        done = await ended(store, "b")
        server.ask("CONFIG", "SET", "maxmemory", "1")
        for change in (creation("c"), news(first)):
            (error,) = await append(store, change)
            assert isinstance(error, StoreUnavailable)
            assert "maxmemory" in str(error)
        assert await seqs(store, "a") == [1]
        assert len(await store.history(Query())) == 2
        await store.renew()
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await store.put_artifact("sha256-" + "0" * 64, [b"x"])
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert await append(store, news(first)) == [None]
        assert await append(store, news(done, state=State.COMPLETED, fence=-1)) == [None]


async def test_a_server_that_is_restarted_while_a_store_opens_is_given_the_scripts_again(
    server: RedisServer, prefix: str
) -> None:
    """Between the moment at which it gets the scripts, and the first use of one."""
    store = _store_at(server.port, prefix)()
    connect = store._connect

    async def and_forget(connection: Any) -> None:
        await connect(connection)
        server.ask("SCRIPT", "FLUSH")

    store._connect = and_forget  # type: ignore[method-assign]
    await store.open(ALIVE)
    await store.close()


async def test_forgotten_scripts_are_brought_again(server: RedisServer, prefix: str) -> None:
    async with opened(_store_at(server.port, prefix)) as store:
        first = await created(store, "a")
        server.ask("SCRIPT", "FLUSH")
        chain = [first]
        for _ in range(50):
            chain.append(news(chain[-1]))
        assert set(await append(store, *chain[1:])) == {None}
        server.ask("SCRIPT", "FLUSH")
        assert await seqs(store, "a") == list(range(1, 52))


# Answers that never arrive.


async def test_a_write_whose_answer_was_lost_is_done_once(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        proxy.cut_once(b"cut-me")
        first = await created(store, "cut-me")
        assert proxy.cuts == 1
        assert first.key != 0
        for number in range(2, 6):
            first = news(first)
            proxy.cut_once(b"cut-me")
            assert await append(store, first) == [None]
            assert proxy.cuts == number
        done = news(first, state=State.COMPLETED, ended_at=200.0)
        proxy.cut_once(b"cut-me")
        assert await append(store, done) == [None]
        assert await seqs(store, "cut-me") == list(range(1, 7))
        assert len(await store.history(Query(state=State.COMPLETED))) == 1


async def test_a_claim_whose_answer_was_lost_loses_no_call(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        async with opened(_store_at(server.port, prefix), DEAD) as dead:
            orphans = [(await created(dead, f"o{n}")).key for n in range(5)]
            proxy.cut_once(b"orphans")  # claims carry the tool's name; the script's answer gets lost
            proxy.cut = _once(proxy, lambda data: b"ticket" in data)
            claimed = await store.claim_orphans(ANY_TOOL, 3)
            assert [stored.key for stored in claimed] == orphans[:3]
            assert {(stored.fence, stored.claims) for stored in claimed} == {(2, 2)}
            proxy.cut = _once(proxy, lambda data: b"ticket" in data)
            taken = await store.claim(orphans[3])
            assert taken is not None
            assert taken.fence == 2
        proxy.cut = _once(proxy, lambda data: b"ticket" in data)
        (waiting,) = await store.claim_waiting(ANY_TOOL, 10)
        assert (waiting.key, waiting.fence) == (orphans[4], 2)
        assert proxy.cuts == 3
        assert sorted(await store.owned()) == orphans


async def test_a_claim_that_was_given_up_is_answered_by_the_next_one(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        async with opened(_store_at(server.port, prefix)) as other:
            key = (await created(other, "a")).key
        proxy.cut = lambda data: b"ticket" in data
        with pytest.raises(StoreUnavailable), _impatient(store):
            await store.claim_waiting(ANY_TOOL, 10)
        assert proxy.cuts > 0
        proxy.cut = None
        (claimed,) = await store.claim_waiting(ANY_TOOL, 10)
        assert (claimed.key, claimed.fence) == (key, 2)
        assert await store.claim_waiting(ANY_TOOL, 10) == []


async def test_slots_are_not_taken_twice_by_a_lost_answer(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        proxy.cut_once(b"the-slot")
        assert await store.hold("the-slot", 1, 2)
        assert proxy.cuts == 1
        async with opened(_store_at(server.port, prefix)) as other:
            assert await other.hold("the-slot", 1, 2)
            assert not await other.hold("the-slot", 2, 2)


async def test_an_opening_whose_answer_was_lost_registers_one_owner(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy:
        proxy.cut = _once(proxy, lambda data: b"ticket" in data and b"SCRIPT" not in data)
        async with opened(_store_at(proxy.port, prefix)) as store:
            assert proxy.cuts == 1
            assert [presence.mine for presence in await store.owners()] == [True]


def _once(proxy: CuttingProxy, wanted: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    def choose(data: bytes) -> bool:
        if not wanted(data):
            return False
        proxy.cut = None
        return True

    return choose


async def test_what_was_given_up_cannot_act_late(server: RedisServer, prefix: str) -> None:
    """The network delays requests, and they arrive after their sender has sent other requests."""
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        first = await created(store, "a")
        proxy.hold = lambda data: b"ghost" in data
        with _impatient(store):
            (error,) = await append(store, creation("ghost"))
            assert isinstance(error, StoreUnavailable)
            with pytest.raises(StoreUnavailable):
                await store.hold("ghost", 3, 3)
        proxy.hold = None
        assert await append(store, news(first)) == [None]
        answers = await proxy.release()
        assert answers
        assert all(b"old" in answer for answer in answers)
        assert await store.load("ghost") == []
        assert await store.hold("other", 1, 1)
        async with opened(_store_at(server.port, prefix)) as other:
            assert await other.hold("ghost", 3, 3), "no slot is taken"


async def test_what_was_given_up_cannot_act_when_its_owner_is_gone(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(server.port, prefix)) as other:
        for owner in (ALIVE, DEAD):
            async with opened(_store_at(proxy.port, prefix), owner) as store:
                proxy.hold = lambda data: b"ghost" in data
                with _impatient(store):
                    (error,) = await append(store, creation("ghost"))
                assert isinstance(error, StoreUnavailable)
                proxy.hold = None
                await store.renew()
                if owner is DEAD:
                    await other.claim_orphans(ANY_TOOL, 10)
                    assert [presence.mine for presence in await other.owners()] == [True]
                    assert all(b"old" in answer for answer in await proxy.release())
            assert all(b"old" in answer for answer in await proxy.release())
            assert await other.load("ghost") == []
            assert len(await other.owners()) == 1


@pytest.mark.parametrize("then", ["renewed", "closed"])
async def test_a_refused_call_is_erased_without_another_append(server: RedisServer, prefix: str, then: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(server.port, prefix)) as other:
        async with opened(_store_at(proxy.port, prefix)) as store:
            proxy.cut = lambda data: b"ghost" in data
            with _impatient(store):
                (error,) = await append(store, creation("ghost"))
            assert isinstance(error, StoreUnavailable)
            assert len(await other.load("ghost")) == 1, "the write succeeded, but the client got no answer"
            proxy.cut = None
            if then == "renewed":
                await store.renew()
                assert await other.load("ghost") == []
        assert await other.load("ghost") == []
        assert await other.claim_waiting(ANY_TOOL, 10) == []


async def test_closing_does_not_hang_on_a_server_that_is_gone(server: RedisServer, prefix: str) -> None:
    store = _store_at(server.port, prefix)()
    await store.open(ALIVE)
    await created(store, "a")
    server.kill()
    with _impatient(store):
        await asyncio.wait_for(store.close(), PATIENCE)


async def test_the_server_is_never_searched(server: RedisServer, prefix: str) -> None:
    async with opened(_store_at(server.port, prefix)) as store:
        await ended(store, "a")
        await store.history(Query(thread="t", tool="tool", state=State.COMPLETED))
        await store.history(Query(id_prefix="a", since=1.0))
        await store.claim_orphans(ANY_TOOL, 10)
        await store.cache_clear(None)
    with redis.Redis(port=server.port) as client:
        used = client.info("commandstats")
    assert not {name for name in used if name.startswith(("cmdstat_keys", "cmdstat_scan", "cmdstat_hscan"))}


async def test_a_runtime_that_opens_while_the_server_restarts(server: RedisServer, prefix: str) -> None:
    server.stop()
    runtime = Runtime(store=f"{server.url}?prefix={prefix}", settings=Settings(open_timeout=60.0))
    opening = asyncio.create_task(runtime.open())
    await asyncio.to_thread(server.start)
    await opening
    await runtime.close()
