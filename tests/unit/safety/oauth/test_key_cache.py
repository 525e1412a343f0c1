"""The issuer's keys: rotation, unknown keys, outages. The clock is stepped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clicket.safety.oauth.key_cache import KeyCache
from clicket.safety.oauth.key_set import Key, KeySet
from clicket.safety.oauth.refusals import IssuerUnavailable

MAX_AGE = 600.0


class Source:
    """An issuer with a set of keys; `down`: it does not answer."""

    def __init__(self) -> None:
        self.kids = ["a"]
        self.down = False
        self.fetched = 0
        self.now = 1_000.0
        self.gate: asyncio.Event | None = None
        self.cache = KeyCache(self.fetch, max_age=MAX_AGE, clock=lambda: self.now)

    async def fetch(self) -> KeySet:
        self.fetched += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.down:
            raise IssuerUnavailable("it is down")
        return KeySet(keys=tuple(Key(kid=kid, made={"ES256": kid}) for kid in self.kids))

    async def kids_now(self) -> list[str | None]:
        return [key.kid for key in (await self.cache.keys()).keys]

    async def settled(self) -> None:
        """Let a fetch in the background end."""
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    made = Source()
    yield made
    await made.cache.close()


async def test_keys_are_fetched_once(source: Source) -> None:
    for _ in range(5):
        assert await source.kids_now() == ["a"]
    assert source.fetched == 1


async def test_requests_share_a_fetch(source: Source) -> None:
    source.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(source.kids_now()) for _ in range(20)]
    await source.settled()
    waiting[0].cancel()  # one that leaves takes nothing from the others
    source.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert found[1:] == [["a"]] * 19
    assert source.fetched == 1


async def test_an_unknown_key_is_looked_for_once_in_a_while(source: Source) -> None:
    assert await source.kids_now() == ["a"]
    source.kids = ["a", "b"]
    assert (await source.cache.after_unknown()).find("b", "ES256") is not None, "at once"
    source.kids = ["a", "b", "c"]
    for _ in range(100):
        assert (await source.cache.after_unknown()).find("c", "ES256") is None
    assert source.fetched == 2, "tokens with unknown keys cost nothing to make"
    source.now += 11
    assert (await source.cache.after_unknown()).find("c", "ES256") is not None
    assert source.fetched == 3


async def test_a_removed_key_is_gone_when_the_cache_ends(source: Source) -> None:
    source.kids = ["a", "b"]
    assert await source.kids_now() == ["a", "b"]
    source.kids = ["b"]
    source.now += MAX_AGE / 2
    assert await source.kids_now() == ["a", "b"]
    source.now += MAX_AGE / 2 + 1
    assert await source.kids_now() == ["b"]


async def test_a_short_outage_is_not_seen(source: Source) -> None:
    assert await source.kids_now() == ["a"]
    source.down = True
    source.now += MAX_AGE / 2 + 1
    assert await source.kids_now() == ["a"]
    await source.settled()
    assert source.fetched == 2
    source.down = False
    source.now += 3
    assert await source.kids_now() == ["a"]
    await source.settled()
    source.now += MAX_AGE / 2 - 1
    assert await source.kids_now() == ["a"], "renewed in the background"
    assert source.fetched == 3


async def test_a_long_outage_ends_the_trust(source: Source) -> None:
    assert await source.kids_now() == ["a"]
    source.down = True
    source.now += MAX_AGE + 1
    for _ in range(50):
        with pytest.raises(IssuerUnavailable, match="it is down"):
            await source.cache.keys()
    assert source.fetched == 2, "requests do not become a storm"
    source.down = False
    source.now += 2
    assert await source.kids_now() == ["a"]


async def test_a_set_without_a_usable_key_takes_nothing_away(source: Source) -> None:
    assert await source.kids_now() == ["a"]
    source.kids = []
    source.now += 11
    assert (await source.cache.after_unknown()).find("a", "ES256") is not None
    source.now += MAX_AGE
    with pytest.raises(IssuerUnavailable, match="no key"):
        await source.cache.keys()
