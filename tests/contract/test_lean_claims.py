"""Appends that also claim their call, and claims that find a call locked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket.kernel import State
from clicket.ports import Append, Stale, Store
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore
from clicket.testing.store_kit import ANY_TOOL, append, creation, news, opened


@pytest.fixture(params=["postgres", "redis"])
def make(
    request: pytest.FixtureRequest, place: str, postgres_here: PostgresServer, redis_here: RedisServer
) -> Callable[[], Store]:
    if request.param == "postgres":
        url = f"{postgres_here.url()}?schema={place}"
        return lambda: PostgresStore(url, timeout=30.0)
    url = f"{redis_here.url}?prefix={place}"
    return lambda: RedisStore(url, timeout=30.0)


def waiting(id: str) -> Append:
    change = creation(id)
    change.owned = False
    return change


def claiming(change: Append, fence: int = 2) -> Append:
    claim = news(change, fence=fence)
    claim.claim = True
    return claim


async def test_of_two_claimers_of_one_call_one_gets_it(make: Callable[[], Store]) -> None:
    async with opened(make) as giver, opened(make) as one, opened(make) as two:
        for n in range(5):
            given = waiting(f"a{n}")
            await append(giver, given)
            answers = await asyncio.gather(append(one, claiming(given)), append(two, claiming(given)))
            refused = [error for (error,) in answers if error is not None]
            assert len(refused) == 1
            assert isinstance(refused[0], Stale)
            winner, loser = (one, two) if answers[0] == [None] else (two, one)
            assert given.key in await winner.owned()
            assert given.key not in await loser.owned()
            (stored,) = await giver.load(f"a{n}")
            assert (stored.fence, stored.claims, len(stored.events)) == (2, 2, 2)
        assert await one.claim_waiting(ANY_TOOL, 10) == [], "the calls are claimed already"


async def test_a_claim_needs_the_call_as_it_was_offered(make: Callable[[], Store]) -> None:
    async with opened(make) as giver, opened(make) as worker:
        owned, cancelled, given = creation("owned"), waiting("cancelled"), waiting("given")
        await append(giver, owned, cancelled, given)
        await append(giver, news(cancelled, fence=-1, signal=True))
        other = claiming(given)
        other.call = creation("another").call
        for refused in (
            claiming(owned),
            claiming(cancelled),
            claiming(given, fence=3),
            claiming(given, fence=1),
            other,
        ):
            (error,) = await append(worker, refused)
            assert isinstance(error, Stale)
        assert await append(worker, claiming(given)) == [None]
        (error,) = await append(worker, claiming(given))
        assert isinstance(error, Stale), "it has an owner"
        (after,) = await append(worker, news(news(given), fence=2))
        assert after is None


async def test_offers_go_with_the_commit_and_only_for_units_that_were_applied(make: Callable[[], Store]) -> None:
    async with opened(make) as giver, opened(make) as worker:
        heard: list[tuple[str, int]] = []
        worker.bus.hear = lambda kind, key, body: heard.append((kind, key))
        await eventually(lambda: giver.bus.trouble is None and worker.bus.trouble is None)
        groups = (("a",), ("b", "c"), ("d", "a", "e"))  # the last one has an id that is taken
        for ids in groups:
            offered = [waiting(id) for id in ids]
            for change in offered:
                change.to = worker.bus.me
            answers = await append(giver, *offered)
            assert [error is None for error in answers] == [ids == ("a",) or id != "a" for id in ids]
            expected = [("work", change.key) for change in offered if change.key]
            await eventually(lambda expected=expected: heard == expected)  # type: ignore[misc]
            heard.clear()


async def test_a_claim_may_end_the_call(make: Callable[[], Store]) -> None:
    async with opened(make) as giver, opened(make) as worker:
        given = waiting("a")
        await append(giver, given)
        end = claiming(given)
        end.state, end.ended_at = State.CANCELLED, 5.0
        assert await append(worker, end) == [None]
        assert await worker.owned() == []
        assert await giver.claim_waiting(ANY_TOOL, 1) == []


async def test_news_of_several_calls_come_in_one_answer(make: Callable[[], Store]) -> None:
    async with opened(make) as one, opened(make) as two:
        calls = [creation(id) for id in "abc"]
        await append(one, *calls)
        assert await append(one, news(calls[0])) == [None]
        known = {call.key: (call.id, 1) for call in calls}
        found = await two.news({**known, 999_999: ("gone", 1)})
        assert {key: [event.seq for event in events] for key, events in found.items()} == {
            calls[0].key: [2],
            999_999: [],
        }
        hints: list[tuple[str, int]] = []
        two.on_hint = lambda kind, key: hints.append((kind, key))
        await eventually(lambda: one.bus.trouble is None and two.bus.trouble is None)
        await append(one, news(calls[1]))
        await eventually(lambda: ("events", calls[1].key) in hints)


async def test_a_call_that_was_locked_during_a_claim_is_claimed_soon_after(
    postgres_here: PostgresServer, place: str
) -> None:
    async with opened(lambda: PostgresStore(f"{postgres_here.url()}?schema={place}", timeout=30.0)) as store:
        given = waiting("a")
        await append(store, given)
        claimed: list[Any] = []
        looks = 0

        async def claim() -> None:
            claimed.extend(await store.claim_waiting(ANY_TOOL, 1))

        def on_hint(kind: str, key: int) -> None:
            nonlocal looks
            looks += 1
            tasks.append(asyncio.ensure_future(claim()))

        tasks: list[asyncio.Future[None]] = []
        store.on_hint = on_hint  # only the hint makes it look: no engine polls
        with psycopg.connect(postgres_here.url(), options=f"-c search_path={place}") as other:
            other.execute("SELECT FROM calls FOR UPDATE")
            await claim()
            await eventually(lambda: looks >= 2)
            assert claimed == []
            (error,) = await append(store, claiming(given))
            assert isinstance(error, Stale), "the claiming append does not wait for the lock, either"
            other.rollback()
        await eventually(lambda: claimed)
        await asyncio.gather(*tasks)
