"""Redis fulfils the store contract; also its own behaviour: checked settings, hostile names, keys that expire."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.contract.redis.kit import Make
from tests.redis_server import RedisServer, free_port, redis_server

from clicket.errors import StoreUnavailable, UsageError
from clicket.ports import Owner, Stale
from clicket.stores.liveness import this_process
from clicket.stores.redis import RedisStore, claims
from clicket.stores.redis.dead_owners import DeadOwners
from clicket.testing import Check, shared_store_contract, store_contract
from clicket.testing.store_kit import ALIVE, ANY_TOOL, append, created, creation, ended, news, opened


async def eventually(what: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + 120.0
    while not (value := what()):
        assert time.monotonic() < give_up_at, "the condition did not become true"
        await asyncio.sleep(0.01)
    return value


@pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
async def test_store(check: Check, make: Make) -> None:
    await check(make)


@pytest.mark.parametrize("check", shared_store_contract, ids=lambda check: check.__name__)
async def test_shared_store(check: Check, make: Make) -> None:
    await check(make)


async def test_all_keys_are_in_one_slot_of_a_cluster(tmp_path: Path, prefix: str) -> None:
    with redis_server(tmp_path / "node", "--cluster-enabled", "yes", "--cluster-port", str(free_port())) as node:
        node.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        with redis.Redis(port=node.port) as client:
            await eventually(lambda: client.cluster("info")["cluster_state"] == "ok")
        for check in (*store_contract[-4:], *shared_store_contract[:4]):
            await check(partial(RedisStore, node.url, prefix=f"{prefix}-{check.__name__}", timeout=30.0))


# URLs and prefixes.


def test_a_password_is_never_shown() -> None:
    store = RedisStore("redis://user:s3cret@localhost:6380/2?prefix=mine")
    assert store.url == "redis://user:***@localhost:6380/2?prefix=mine"
    assert "s3cret" not in RedisStore("rediss://:s3cret@localhost").url


@pytest.mark.parametrize(
    "url",
    ["redis://localhost/?prefix=a{b}", "redis://localhost/?prefix=", "redis://localhost:99999", "http://localhost"],
)
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        RedisStore(url, prefix="" if url.endswith("prefix=") else "clicket")


async def test_a_refused_connection_says_what_to_do(server: RedisServer, raw: Any, prefix: str) -> None:
    raw.acl_setuser("somebody", enabled=True, passwords=["+right"], keys=["*"], channels=["*"], commands=["+@all"])
    wrong = RedisStore(f"redis://somebody:wr0ng@127.0.0.1:{server.port}/0", prefix=prefix)
    with pytest.raises(StoreUnavailable, match="password in the URL") as caught:
        await wrong.open(ALIVE)
    assert "wr0ng" not in str(caught.value)
    right = RedisStore(f"redis://somebody:right@127.0.0.1:{server.port}/0", prefix=prefix)
    await right.open(ALIVE)
    await right.close()
    with pytest.raises(StoreUnavailable, match="Start the server"):
        await RedisStore("redis://127.0.0.1:1/0").open(ALIVE)


async def test_a_store_of_another_kind_is_refused_and_left_alone(make: Make, raw: Any, prefix: str) -> None:
    raw.set(f"{{{prefix}}}:meta", "mine")
    with pytest.raises(StoreUnavailable, match="another prefix"):
        await make().open(ALIVE)
    assert raw.get(f"{{{prefix}}}:meta") == b"mine"
    raw.delete(f"{{{prefix}}}:meta")
    raw.zadd(f"{{{prefix}}}:all", {"1": 1})
    with pytest.raises(StoreUnavailable, match="another prefix"):
        await make().open(ALIVE)
    raw.delete(f"{{{prefix}}}:all")
    async with opened(make):
        raw.hset(f"{{{prefix}}}:meta", "version", 99)
    with pytest.raises(StoreUnavailable, match="another version of clicket"):
        await make().open(ALIVE)


# Durability by the server's settings.


async def test_what_can_be_lost_is_said(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "clicket.stores.redis"):
        async with opened(make) as store:
            assert store.risks  # type: ignore[attr-defined]
    assert "everything is lost" in caplog.text


@pytest.fixture
def settings(raw: Any) -> Iterator[Callable[..., None]]:
    """Changes server settings, and restores them."""
    before: dict[str, str] = {}

    def change(**wanted: str) -> None:
        for name, value in wanted.items():
            setting = name.replace("_", "-")
            before.setdefault(setting, raw.config_get(setting)[setting])
            raw.config_set(setting, value)

    yield change
    for setting, value in before.items():
        raw.config_set(setting, value)


async def test_power_needs_a_server_that_writes_every_command_to_disk(make: Make, settings: Any) -> None:
    power = partial(make, durability="power")
    with pytest.raises(StoreUnavailable, match="`appendonly yes` and `appendfsync always`"):
        await power().open(ALIVE)
    settings(appendonly="yes", appendfsync="everysec")
    with pytest.raises(StoreUnavailable, match="appendfsync everysec"):
        await power().open(ALIVE)
    async with opened(make) as store:
        assert "two seconds" in store.risks[0]  # type: ignore[attr-defined]
    settings(appendfsync="always")
    async with opened(power) as store:
        await ended(store, "a")
        assert store.risks == []  # type: ignore[attr-defined]


async def test_a_server_that_evicts_calls_is_refused(make: Make, settings: Any) -> None:
    settings(maxmemory_policy="allkeys-lru")
    with pytest.raises(StoreUnavailable, match="noeviction"):
        await make().open(ALIVE)
    settings(maxmemory_policy="volatile-ttl")
    async with opened(make) as store:
        assert any("volatile-ttl" in risk for risk in store.risks)  # type: ignore[attr-defined]


async def test_settings_that_may_not_be_read_are_said_to_be_unknown(server: RedisServer, raw: Any, prefix: str) -> None:
    raw.execute_command("ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-config")
    guest = partial(RedisStore, f"redis://guest:pw@127.0.0.1:{server.port}/0", prefix=prefix)
    async with opened(guest) as store:
        await ended(store, "a")
        assert "unknown" in store.risks[0]  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="cannot be promised"):
        await guest(durability="power").open(ALIVE)


# Owners.


def _gone() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def _changed(owner: Owner, **changes: Any) -> Owner:
    return Owner(**{**{name: getattr(owner, name) for name in Owner.__struct_fields__}, **changes})


async def test_a_process_that_is_gone_is_dead_at_once(make: Make) -> None:
    async with opened(make, _changed(this_process(3600.0), pid=_gone())) as dead, opened(make) as store:
        await created(dead, "a")
        (claimed,) = await store.claim_orphans(ANY_TOOL, 10)
        assert (claimed.fence, claimed.claims) == (2, 2)


async def test_an_expired_owner_is_registered_again_by_its_first_write(make: Make, raw: Any, prefix: str) -> None:
    async with opened(make) as one, opened(make) as two:
        first = await created(one, "a")
        raw.hset(f"{{{prefix}}}:meta", "renewed:1", "1.0")  # it slept past its lease
        assert [stored.id for stored in await two.claim_orphans(ANY_TOOL, 10)] == ["a"]
        assert len(await two.owners()) == 1
        (error,) = await append(one, news(first))
        assert isinstance(error, Stale)
        assert {presence.alive for presence in await two.owners()} == {True}
        await created(one, "b")
        assert await two.claim_orphans(ANY_TOOL, 10) == []
        assert len(await one.owned()) == 1


async def test_many_orphans_of_other_tools_block_no_claim(
    make: Make, raw: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_BUDGET", 150)
    async with opened(make) as dead, opened(make) as store:
        changes = [creation(f"c{n}", tool="other" if n < 600 else "tool") for n in range(610)]
        assert set(await append(dead, *changes)) == {None}
        raw.hset(f"{{{prefix}}}:meta", "renewed:1", "1.0")
        claimed = await store.claim_orphans(ANY_TOOL, 100)
        assert [stored.id for stored in claimed] == [f"c{n}" for n in range(600, 610)]


async def test_claims_at_the_same_time_share_nothing(make: Make) -> None:
    async with opened(make) as one, opened(make) as two:
        changes = [creation(f"c{n}") for n in range(200)]
        for change in changes:
            change.owned = False
        assert set(await append(one, *changes)) == {None}
        claimed = await asyncio.gather(*(store.claim_waiting(ANY_TOOL, 60) for store in (one, two) for _ in range(3)))
        keys = [stored.key for found in claimed for stored in found]
        assert sorted(keys) == sorted(change.key for change in changes)
        assert len(await one.owned()) + len(await two.owned()) == 200


class _Quiet:
    """A session without a server."""

    url = "redis://test"
    me = 1


def test_a_date_that_jumps_ends_no_lease() -> None:
    record = b'{"host":"elsewhere","boot":"","pid":1,"started":"","lease":3600.0}'
    dead_owners = DeadOwners(_Quiet(), 1000.0, time.monotonic())  # type: ignore[arg-type]
    assert dead_owners.judge(2, record, b"1000.0", 1020.0)[1] is None
    assert dead_owners.judge(2, record, b"1000.0", 5000.0)[1] == (2, "1000.0")
    dead_owners.check_clock(1000.0 + 7200.0, time.monotonic())
    assert dead_owners.judge(2, record, b"1000.0", 8200.0)[1] is None, "it could not have renewed by the new date"
    assert dead_owners.judge(1, record, b"1000.0", 9e9)[1] is None, "an owner never declares itself dead"
    assert dead_owners.judge(3, b"{}", b"", 9e9)[1] is not None, "no renewal proves that this owner lives"


def test_a_date_that_was_set_back_extends_no_lease() -> None:
    record = b'{"host":"elsewhere","boot":"","pid":1,"started":"","lease":1e-9}'
    dead_owners = DeadOwners(_Quiet(), 1000.0, time.monotonic())  # type: ignore[arg-type]
    assert dead_owners.judge(2, record, b"8200.0", 1000.0)[1] is None, (
        "its last renewal is in the future: first observation"
    )
    assert dead_owners.judge(2, record, b"8200.0", 1000.0)[1] == (2, "8200.0"), "it did not renew for a lease"


# Hints.


async def test_other_processes_are_heard(make: Make) -> None:
    async with opened(make) as one, opened(make) as two:
        hints: list[tuple[str, int]] = []
        two.on_hint = lambda kind, key: hints.append((kind, key))
        await eventually(lambda: two.bus.trouble is None and one.bus.trouble is None)
        first = await created(two, "a")
        request = news(first, fence=-1, signal=True)
        await append(one, request)
        await eventually(lambda: ("signal", first.key) in hints)
        other = await created(one, "b")
        assert await append(one, news(other)) == [None]
        assert len(await two.events(other.key, "b", 0)) == 2
        await append(one, news(news(other)))
        await eventually(lambda: ("events", other.key) in hints)
        waiting = creation("w")
        waiting.owned = False
        await append(one, waiting)
        await eventually(lambda: ("work", waiting.key) in hints)
        await one.hold("x", 1, 1)
        await one.hold("x", 0, 1)
        await eventually(lambda: ("slot", 0) in hints)


async def test_a_listener_that_lost_its_connection_listens_again(make: Make, raw: Any) -> None:
    async with opened(make) as one, opened(make) as two:
        hints: list[int] = []
        two.on_hint = lambda kind, key: hints.append(key)
        await eventually(lambda: two.bus.trouble is None and one.bus.trouble is None)
        raw.client_kill_filter(_type="pubsub")
        first = await created(one, "a")
        assert await append(one, news(first)) == [None], "the store works without hints"
        await eventually(lambda: two.bus.trouble is not None)
        await eventually(lambda: two.bus.trouble is None and one.bus.trouble is None)
        one.bus.post("events", first.key)
        await eventually(lambda: hints)
