"""Credentials on every store: sealed, by caller and provider, refreshed by one process at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from tests.kit.credential_books import BANK, Books, FakeServer
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket.errors import CredentialMissing, NotFound
from clicket.ports import Store
from clicket.safety.credentials import CredentialBook
from clicket.safety.credentials.oauth import IssuedTokens
from clicket.stores.memory import MemoryStore
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore
from clicket.stores.sqlite import SqliteStore
from clicket.testing import StepClock
from clicket.testing.store_kit import opened


@pytest.fixture(params=["memory", "sqlite", "redis", "postgresql"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, redis_here: RedisServer, postgres_here: PostgresServer
) -> AsyncIterator[tuple[Store, Store]]:
    """Two connections to one new store; of a store in memory there is one."""
    make = None
    if request.param == "sqlite":
        make = partial(SqliteStore, tmp_path / "calls.db")
    elif request.param == "redis":
        make = partial(RedisStore, redis_here.url, prefix=place, timeout=30.0)
    elif request.param == "postgresql":
        make = partial(PostgresStore, f"{postgres_here.url()}?schema={place}", timeout=30.0)
    async with AsyncExitStack() as stack:
        if make is None:
            store: Store = await stack.enter_async_context(opened(MemoryStore))
            yield store, store
            return
        one: Callable[[], Store] = make
        yield await stack.enter_async_context(opened(one)), await stack.enter_async_context(opened(one))


async def connected(book: CredentialBook, server: FakeServer, caller: str = "ann") -> str:
    """A credential with a refresh token; returns the access token."""
    tokens = server.next_tokens()
    await book.connect(
        caller, BANK,
        IssuedTokens(
            access=tokens["access_token"], refresh=tokens["refresh_token"], expires_in=100.0, token_url=BANK.token_url
        ),
    )  # fmt: skip
    return str(tokens["access_token"])


async def test_each_caller_has_its_own(stores: tuple[Store, Store]) -> None:
    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    await here.put("ann", "github", "ann's-token-1".replace("'", ""))
    await here.put("", "github", "the-programs-token")
    await there.put("bob", "github", "bobs-token", scopes=("repo",), expires_at=books.clock.now() + 10)
    assert (await there.token("ann", "github")).token == "anns-token-1"
    assert (await here.token("bob", "github")).token == "bobs-token"
    assert (await here.token("", "github")).token == "the-programs-token"
    with pytest.raises(CredentialMissing, match="there is none"):
        await here.token("eve", "github")
    assert [each.caller for each in await there.listed("bob")] == ["bob"]
    assert sorted(each.caller for each in await there.listed(None)) == ["", "ann", "bob"]
    shown = (await here.listed("bob"))[0]
    assert (shown.scopes, shown.status, shown.kind) == (("repo",), "ready", "token")
    for kind in ("credential", "credential.changes"):
        for document in await stores[0].documents(kind):
            assert b"token-1" not in document.body
            assert b"bobs-token" not in document.body


async def test_a_newer_one_takes_its_place_and_a_revoked_one_is_gone(stores: tuple[Store, Store]) -> None:
    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    first = await here.put("ann", "github", "token-one")
    second = await there.put("ann", "github", "token-two")
    assert first.id != second.id
    assert (await here.token("ann", "github")).token == "token-two"
    await here.revoke("ann", "github")
    with pytest.raises(CredentialMissing, match="revoked"):
        await there.token("ann", "github")
    assert await there.listed("ann") == []
    with pytest.raises(NotFound):
        await there.revoke("ann", "github")
    assert b'sealed":"1.' not in (await stores[0].documents("credential"))[0].body
    assert isinstance(books.clock, StepClock)
    books.clock.advance(25 * 3600)
    await here.sweep()
    assert await stores[0].documents("credential") == []
    await there.put("ann", "github", "token-three")
    assert (await here.token("ann", "github")).token == "token-three"
    assert books.what() == ["credential.put", "credential.put", "credential.revoked", "credential.put"]


async def test_one_process_refreshes_and_the_others_wait(stores: tuple[Store, Store]) -> None:
    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    old = await connected(here, books.server)
    assert isinstance(books.clock, StepClock)
    books.clock.advance(95)  # less than a tenth of its life is left
    books.server.gate = asyncio.Event()
    asked = [asyncio.ensure_future(book.token("ann", "bank")) for book in (here, here, there, there)]
    while not books.server.forms:
        await asyncio.sleep(0.001)
    for _ in range(20):  # the other process looks at the claim again and again
        await asyncio.sleep(0.002)
        books.clock.advance(0.1)
    assert not any(each.done() for each in asked)
    books.server.gate.set()
    while not all(each.done() for each in asked):
        await asyncio.sleep(0.002)
        books.clock.advance(0.1)
    new = {each.result().token for each in asked}
    assert len(new) == 1
    assert new != {old}
    assert [form["grant_type"] for form in books.server.forms] == ["refresh_token"]
    assert books.server.replays == 0
    books.server.gate = None
    books.clock.advance(95)
    assert (await there.token("ann", "bank")).token not in new, "the refresh token that came with it works, too"
    assert books.server.replays == 0


async def test_a_process_that_died_while_it_refreshed_blocks_no_other_for_long(stores: tuple[Store, Store]) -> None:
    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    await connected(here, books.server)
    clock = books.clock
    assert isinstance(clock, StepClock)
    clock.advance(95)
    books.server.gate = asyncio.Event()
    dead = asyncio.ensure_future(here.token("ann", "bank"))
    while not books.server.forms:
        await asyncio.sleep(0.001)
    for task in list(books.tasks):
        task.cancel()  # as a kill: the answer never comes
    await asyncio.gather(dead, return_exceptions=True)
    books.server.gate = None
    waits = asyncio.ensure_future(there.token("ann", "bank"))
    while not waits.done():
        await asyncio.sleep(0.001)
        clock.advance(1.0)
    # The server had taken the refresh token: it refuses it now. That is on record, and the credential is expired.
    assert isinstance(waits.exception(), CredentialMissing)
    assert books.server.replays == 1
    assert books.what() == ["credential.connected", "credential.refresh_repeated", "credential.expired"]
    (left,) = await there.listed("ann")
    assert (left.status, left.refreshable) == ("expired", False)
    assert "invalid_grant" in left.reason


async def test_a_refresh_never_writes_over_what_came_meanwhile(stores: tuple[Store, Store]) -> None:
    for what in ("put", "revoke", "both"):
        books = Books()
        here, there = books.over(stores[0]), books.over(stores[1])
        await connected(here, books.server)
        assert isinstance(books.clock, StepClock)
        books.clock.advance(95)
        books.server.gate = asyncio.Event()
        refreshing = asyncio.ensure_future(here.token("ann", "bank"))
        while not books.server.forms:
            await asyncio.sleep(0.001)
        if what != "put":
            await there.revoke("ann", "bank")
        if what != "revoke":
            await there.put("ann", "bank", "by-hand")
        books.server.gate.set()
        if what == "revoke":
            with pytest.raises(CredentialMissing, match="revoked"):
                await refreshing
            with pytest.raises(CredentialMissing):
                await there.token("ann", "bank")
        else:
            assert (await refreshing).token == "by-hand"
            assert (await there.token("ann", "bank")).token == "by-hand"


async def test_a_change_is_seen_from_everywhere(stores: tuple[Store, Store]) -> None:
    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    before = await there.documents.changes()
    await here.put("ann", "github", "token-one")
    assert await there.documents.changes() > before


async def test_a_link_and_a_callback_work_once(stores: tuple[Store, Store]) -> None:
    from urllib.parse import parse_qs, urlsplit

    from clicket.safety.credentials import ConnectRefused

    books = Books()
    here, there = books.over(stores[0]), books.over(stores[1])
    one, other = books.connecting(here, stores[0]), books.connecting(there, stores[1])
    token = one.link("ann", "bank").url.rpartition("/")[2]
    started = await asyncio.gather(*(each.start(token) for each in (one, other, one, other)), return_exceptions=True)
    (start,) = [each for each in started if not isinstance(each, BaseException)]
    assert [each.why for each in started if isinstance(each, ConnectRefused)] == ["used"] * 3
    query = {name: values[0] for name, values in parse_qs(urlsplit(start.url).query).items()}
    answer, cookies = {"state": query["state"], "code": "c0de"}, {start.cookie_name: start.cookie}
    ended = await asyncio.gather(
        *(each.finish(answer, cookies) for each in (one, other, one, other)), return_exceptions=True
    )
    assert [each.why for each in ended if isinstance(each, ConnectRefused)] == ["used"] * 3
    assert [form["code"] for form in books.server.forms] == ["c0de"]
    assert (await there.token("ann", "bank")).token == "access-1"
    assert isinstance(books.clock, StepClock)
    books.clock.advance(3600)
    await one.sweep()
    assert await stores[0].documents("credential.link") == []
    assert await stores[0].documents("credential.state") == []
