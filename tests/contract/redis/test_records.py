"""Records beside calls in Redis: counted once whatever breaks, in the order of keys, and refused under the same
conditions as a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.contract.redis.kit import Make
from tests.cutting_proxy import cutting_proxy
from tests.kit.waiting import PATIENCE
from tests.redis_server import RedisServer, redis_server

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, Keep, ToolHealth, Unstorable
from clicket.stores.redis import RedisStore
from clicket.testing.store_kit import append, created, creation, news, opened
from clicket.testing.store_stats import health, recorded, stats


def _store_at(port: int, prefix: str) -> Callable[[], RedisStore]:
    return partial(RedisStore, f"redis://127.0.0.1:{port}/0", prefix=prefix, timeout=30.0)


@contextmanager
def _impatient(store: Any) -> Iterator[None]:
    """Inside, the store waits only a moment for answers."""
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


BUS = ("document:3:bussecret", "documents:bus")
"""The secret that signs messages of the bus lives as long as the store."""


def _keys(raw: Any, prefix: str) -> set[str]:
    """The keys that do not expire by themselves."""
    names = {key.decode().removeprefix(f"{{{prefix}}}:") for key in raw.keys(f"{{{prefix}}}:*")}
    return {name for name in names if not name.startswith(("ticket:", "left:"))}


def _ended_at_once(id: str, *, weight: Any = "failed") -> Append:
    change = creation(id)
    change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats(weight, seconds=0.25)
    return change


async def _counted(store: RedisStore) -> int:
    return sum(figure.count for figure in await store.figures())


# Outcome stats.


async def test_an_ending_whose_answer_was_lost_is_counted_once(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        changes = [await created(store, f"c{n}") for n in range(4)]
        ends = [news(c, state=State.FAILED, ended_at=200.0, stats=stats("failed")) for c in changes]
        proxy.cut_once(b"failed")
        assert await append(store, *ends, _ended_at_once("new")) == [None] * 5
        assert proxy.cuts == 1
        found = await health(store)
        assert (found.failures, found.consecutive_failures, found.version, await _counted(store)) == (5, 5, 5, 5)


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("weight", ["failed", "served", "none"])
async def test_what_an_erased_call_added_is_taken_back(
    server: RedisServer, prefix: str, make: Make, touched: bool, weight: str
) -> None:
    async with (
        cutting_proxy(server.port) as proxy,
        opened(make) as other,
        opened(_store_at(proxy.port, prefix)) as store,
    ):
        if touched:
            await recorded(store, "before", stats("failed"))
        kept = (await other.tool_health("", "t"), await other.figures())
        proxy.cut = lambda data: b"ghost" in data
        with _impatient(store):
            (error,) = await append(store, _ended_at_once("ghost", weight=weight))
        assert isinstance(error, StoreUnavailable)
        assert await _counted(other) == touched + 1, "the write succeeded, but the client got no answer"
        proxy.cut = None
        await store.renew()
        assert await other.load("ghost") == []
        figures = await other.figures()
        assert [(f.outcome, f.count) for f in figures] == [(f.outcome, f.count) for f in kept[1]]
        found = await other.tool_health("", "t")
        assert [(s.failures, s.consecutive_failures, s.completions) for s in found] == [
            (s.failures, s.consecutive_failures, s.completions) for s in kept[0]
        ]
        if weight != "none" and touched:
            assert found[0].version > kept[0][0].version, "a version is never used twice"


async def test_what_is_counted_equals_what_ended_whatever_breaks(tmp_path: Path, prefix: str) -> None:
    """Calls end, some at their creation, while the server is killed again and again."""
    stop, ended = asyncio.Event(), 0

    async def end(store: RedisStore, name: str) -> None:
        nonlocal ended
        for number in count():
            if stop.is_set():
                return
            change = creation(f"{name}-{number}")
            if number % 3:
                assert await append(store, change) == [None]
                change = news(change)
            change.state, change.ended_at = State.FAILED, 200.0
            change.stats = stats("completed" if number % 5 else "failed", tool=f"tool{number % 2}")
            assert await append(store, change) == [None]
            ended += 1

    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path / "redis", *options) as server:
        async with opened(_store_at(server.port, prefix)) as one, opened(_store_at(server.port, prefix)) as two:
            tasks = [asyncio.create_task(end(store, f"{n}")) for n, store in enumerate((one, two) * 4)]
            async with asyncio.timeout(PATIENCE):
                for _ in range(4):
                    seen = ended
                    while ended < seen + 100:
                        await asyncio.sleep(0.01)
                    server.kill()
                    server.start()
                stop.set()
                await asyncio.gather(*tasks)
            assert await _counted(one) == ended
            found = await two.tool_health("", "t")
            assert sum(each.completions + each.failures for each in found) == ended
            assert sum(each.version for each in found) == ended


async def test_nothing_is_left_of_tool_health_that_was_forgotten(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        for n in range(1_200):
            await store.put_tool_health(f"{n % 7}:", f"{n}:x", ToolHealth(tool=f"t:{n}", updated_at=float(n)), 0)
        await store.put_tool_health("", "t", ToolHealth(tool="tool", updated_at=2_000.0), 0)
        await store.sweep(Keep(health_since=2_000.0), 10)
        assert [each.tool for each in await store.tool_health("", "t")] == ["tool"]
        assert len(_keys(raw, prefix) - {"meta", "owners", *BUS}) == 2, "one thread, and the list of times"
        await store.sweep(Keep(health_since=2_000.5), 10)
    assert _keys(raw, prefix) == {"meta", *BUS}


async def test_figures_of_many_callers_are_read_in_steps(make: Make) -> None:
    async with opened(make) as store:
        changes = [_ended_at_once(f"c{n}") for n in range(95)]
        for n, change in enumerate(changes):
            change.call.caller = "" if n == 0 else f"caller {n}"
        assert await append(store, *changes) == [None] * 95
        figures = await store.figures()
        assert len(figures) == len({figure.caller for figure in figures}) == 95


# Writes with a ticket.


async def test_what_is_written_beside_calls_is_written_once(server: RedisServer, prefix: str) -> None:
    async with cutting_proxy(server.port) as proxy, opened(_store_at(proxy.port, prefix)) as store:
        for expect, body in ((0, b"1"), (1, b"2"), (None, b"3")):
            proxy.cut_once(b"cut-me")
            assert await store.put_document("kind", "cut-me", body, expect)
        assert proxy.cuts == 3
        document = await store.document("kind", "cut-me")
        assert document is not None
        assert (document.body, document.version) == (b"3", 3)
        proxy.cut = _second(proxy, b"cut-me")  # the first request checks whether it exists
        assert await store.delete_document("kind", "cut-me")
        assert proxy.cuts == 4
        assert not await store.delete_document("kind", "cut-me")
        for version in range(2):
            proxy.cut_once(b"health")
            assert await store.put_tool_health("", "t", ToolHealth(tool="tool"), version)
        assert (proxy.cuts, (await health(store)).version) == (6, 2)
        for number in range(1, 3):
            proxy.cut_once(b"more")
            await store.audit([b"%d" % number, b"more"])
        assert proxy.cuts == 8
        lines = await store.audited()
        assert [(line.number, line.body) for line in lines] == [(4, b"more"), (3, b"2"), (2, b"more"), (1, b"1")]


def _second(proxy: Any, marker: bytes) -> Callable[[bytes], bool]:
    seen = 0

    def choose(data: bytes) -> bool:
        nonlocal seen
        seen += marker in data
        if seen < 2:
            return False
        proxy.cut = None
        return True

    return choose


# Large, malformed, and with a full server.


async def test_documents_and_lines_of_many_megabytes_are_read_in_steps(make: Make) -> None:
    body = b"x" * 1_500_000
    async with opened(make) as store:
        for n in range(8):
            assert await store.put_document("kind", f"k{n}", body, 0)
        await store.audit([body] * 8)
        assert [(p.key, len(p.body)) for p in await store.documents("kind")] == [(f"k{n}", len(body)) for n in range(8)]
        assert [p.key for p in await store.documents("kind", after="k1", limit=5)] == [f"k{n}" for n in range(2, 7)]
        assert [line.number for line in await store.audited()] == list(range(8, 0, -1))
        assert [line.number for line in await store.audited(before=8, limit=6)] == list(range(7, 1, -1))
        for before in (1, 0, -5):
            assert await store.audited(before=before) == []


async def test_names_that_cannot_be_stored_find_nothing(make: Make) -> None:
    bad = "\ud800"
    async with opened(make) as store:
        assert await store.tool_health(bad, "t") == []
        assert await store.figures(bad) == []
        assert await store.document("kind", bad) is None
        assert await store.documents("kind", after=bad) == []
        assert not await store.delete_document("kind", bad)
        with pytest.raises(Unstorable):
            await store.put_document("kind", bad, b"1", 0)
        with pytest.raises(Unstorable):
            await store.put_tool_health("", bad, ToolHealth(tool="tool"), 0)


async def test_what_somebody_else_wrote_is_said_to_be_damaged(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as store:
        await recorded(store, "a", stats())
        await store.put_document("kind", "key", b"1", 0)
        await store.audit([b"1"])
        raw.hset(f"{{{prefix}}}:tool_health:0:1:t", "other", "junk")
        raw.hset(f"{{{prefix}}}:figures:", "junk", "junk")
        raw.hset(f"{{{prefix}}}:document:4:kindkey", "version", "junk")
        raw.xadd(f"{{{prefix}}}:audit", {"b": "1", "at": "junk"}, id="7-0")
        for read in (store.tool_health("", "t"), store.figures(), store.document("kind", "key"), store.audited()):
            with pytest.raises(StoreUnavailable, match="not what clicket wrote"):
                await read


async def test_a_full_server_refuses_records_and_forgets_them(own: RedisServer, prefix: str) -> None:
    async with opened(_store_at(own.port, prefix)) as store:
        first = await created(store, "a")
        await store.put_document("kind", "key", b"1", 0)
        await store.put_tool_health("", "t", ToolHealth(tool="tool", updated_at=1.0), 0)
        own.ask("CONFIG", "SET", "maxmemory", "1")
        end = partial(news, first, state=State.FAILED, ended_at=200.0, stats=stats("failed"))
        (error,) = await append(store, end())
        assert isinstance(error, StoreUnavailable)
        for write in (
            store.put_document("kind", "key", b"2", None),
            store.put_tool_health("", "t", ToolHealth(tool="two"), 0),
            store.audit([b"1"]),
        ):
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await write
        assert [document.body for document in await store.documents("kind")] == [b"1"]
        assert (await store.figures(), await store.audited()) == ([], [])
        assert await store.delete_document("kind", "key"), "a deletion works with full memory"
        await store.sweep(Keep(health_since=2.0), 10)
        assert await store.tool_health("", "t") == []
        own.ask("CONFIG", "SET", "maxmemory", "0")
        assert await append(store, end()) == [None]
        assert ((await health(store)).failures, await _counted(store)) == (1, 1)


async def test_records_of_a_server_that_lost_its_data_are_not_taken_for_none(own: RedisServer, prefix: str) -> None:
    async with opened(_store_at(own.port, prefix)) as store:
        await store.put_document("kind", "key", b"1", 0)
        own.ask("FLUSHALL")
        for ask in (
            store.document("kind", "key"),
            store.documents("kind"),
            store.put_document("kind", "key", b"1", 0),
            store.tool_health("", "t"),
            store.put_tool_health("", "t", ToolHealth(tool="tool"), 0),
            store.figures(),
            store.audit([b"1"]),
            store.audited(),
        ):
            with pytest.raises(StoreUnavailable, match="lost its data"):
                await ask


async def test_records_survive_a_kill_and_never_go_by_themselves(tmp_path: Path, prefix: str) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path / "redis", *options) as server:
        async with opened(_store_at(server.port, prefix)) as store:
            await recorded(store, "a", stats("failed"))
            await store.put_document("kind", "key", b"1", 0)
            await store.audit([b"1"])
            before = (await store.tool_health("", "t"), await store.figures(), await store.audited())
            server.kill()
            server.start()
            assert (await store.tool_health("", "t"), await store.figures(), await store.audited()) == before
            assert await store.document("kind", "key") is not None
            with redis.Redis(port=server.port) as raw:
                lasting = [key for key in raw.keys(f"{{{prefix}}}:*") if raw.ttl(key) == -1]
            for name in (
                "tool_health:",
                "tool_health_times",
                "figures:",
                "counted",
                "document:",
                "documents:",
                "audit",
            ):
                assert any(key.decode().startswith(f"{{{prefix}}}:{name}") for key in lasting), name
