"""One caller's credential over time: refreshed before it ends, expired if that is refused, never shown."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from tests.kit.credential_books import BANK, Books, FakeServer, memory

from clicket.errors import CredentialMissing, StoreUnavailable, UsageError
from clicket.safety.credentials import CredentialBook, Provider
from clicket.safety.credentials.oauth import IssuedTokens
from clicket.safety.credentials.oauth_http import ProviderRefused, ProviderUnreachable
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock


async def connected(books: Books, book: CredentialBook, **more: Any) -> str:
    given = {
        "access": "first-access", "refresh": "first-refresh", "expires_in": 100.0, "token_url": BANK.token_url, **more
    }  # fmt: skip
    books.server.valid.add(str(given["refresh"]))
    await book.connect("ann", book.provider("bank"), IssuedTokens(**given))
    return str(given["access"])


def stepped(books: Books) -> StepClock:
    assert isinstance(books.clock, StepClock)
    return books.clock


@pytest.mark.parametrize("secret", ["", "  ", "abc", "two words", "a\nb-c-d", "ü-ü-ü-ü", "x" * 70_000, 7, None])
async def test_what_is_no_token_is_refused(secret: Any) -> None:
    books = Books()
    with pytest.raises(UsageError) as refused:
        await books.over(await memory()).put("ann", "github", secret)
    assert str(secret) not in refused.value.message or not str(secret).strip()


async def test_a_token_is_kept_without_the_spaces_around_it() -> None:
    book = Books().over(await memory())
    await book.put("ann", "github", " t0ken \n")
    assert (await book.token("ann", "github")).token == "t0ken"


async def test_without_a_key_nothing_is_kept_on_disk() -> None:
    durable = await memory()
    durable.durability = "process"
    book = Books().over(durable, key="")
    with pytest.raises(UsageError, match="CLICKET_SECRET_KEY"):
        await book.put("ann", "github", "t0ken")
    with pytest.raises(CredentialMissing):
        await book.token("ann", "github")
    in_memory = Books().over(await memory(), key="")
    await in_memory.put("ann", "github", "t0ken")
    assert (await in_memory.token("ann", "github")).token == "t0ken"


async def test_another_key_opens_nothing_and_says_so() -> None:
    books, store = Books(), await memory()
    await books.over(store).put("ann", "github", "t0ken")
    other = books.over(store, key="a wholly different key of tests")
    with pytest.raises(CredentialMissing, match="secret_key"):
        await other.token("ann", "github")
    assert (await other.look("ann", ["github"]))[1].keys() == {"github"}


async def test_a_sealed_secret_moved_to_another_caller_does_not_open() -> None:
    books, store = Books(), await memory()
    book = books.over(store)
    await book.put("ann", "github", "anns-token")
    await book.put("eve", "github", "eves-token")
    ann, eve = (await book.documents.read("ann", "github")), (await book.documents.read("eve", "github"))
    assert ann is not None
    assert eve is not None
    await book.documents.write(msgspec.structs.replace(eve, sealed=ann.sealed, id=ann.id))
    with pytest.raises(CredentialMissing):
        await book.token("eve", "github")


async def test_it_is_refreshed_before_it_ends_and_not_earlier() -> None:
    books = Books()
    book = books.over(await memory())
    access = await connected(books, book)
    stepped(books).advance(89)
    assert (await book.token("ann", "bank")).token == access
    stepped(books).advance(1.5)
    assert (await book.token("ann", "bank")).token == "access-1"
    assert books.server.forms[0]["refresh_token"] == "first-refresh"
    (shown,) = await book.listed("ann")
    assert shown.expires_at == pytest.approx(stepped(books).now() + 100)


async def test_the_old_refresh_token_stays_if_no_new_one_comes() -> None:
    books = Books()
    book = books.over(await memory())
    await connected(books, book)

    def plain() -> dict[str, Any]:
        return {"access_token": "plain-access", "expires_in": 100, "token_type": "bearer"}

    books.server.next_tokens = plain  # type: ignore[method-assign]
    stepped(books).advance(95)
    await book.token("ann", "bank")
    books.server.valid.add("first-refresh")
    stepped(books).advance(95)
    await book.token("ann", "bank")
    assert [form["refresh_token"] for form in books.server.forms] == ["first-refresh", "first-refresh"]


async def test_a_server_that_is_down_costs_nothing_while_the_token_works(caplog: pytest.LogCaptureFixture) -> None:
    books = Books()
    book = books.over(await memory())
    access = await connected(books, book)
    books.server.down = True
    stepped(books).advance(95)
    with caplog.at_level(logging.WARNING, "clicket.credentials"):
        assert (await book.token("ann", "bank")).token == access
    assert "could not be refreshed yet" in caplog.text
    stepped(books).advance(6)
    with pytest.raises(ProviderUnreachable):
        await book.token("ann", "bank")
    books.server.down = False
    assert (await book.token("ann", "bank")).token == "access-1"
    assert books.what() == ["credential.connected"]


async def test_a_refused_refresh_expires_it_and_deletes_the_secret() -> None:
    books = Books()
    book = books.over(await memory())
    await connected(books, book)
    books.server.refuses = "invalid_grant"
    stepped(books).advance(95)
    with pytest.raises(CredentialMissing, match="refused to refresh"):
        await book.token("ann", "bank")
    (shown,) = await book.listed("ann")
    assert (shown.status, shown.refreshable) == ("expired", False)
    kept = await book.documents.read("ann", "bank")
    assert kept is not None
    assert kept.sealed == ""
    assert (await book.look("ann", ["bank"])) == ((), {"bank": shown.reason})
    assert books.what()[-1] == "credential.expired"


@pytest.mark.parametrize("error", ["", "invalid_client", "unauthorized_client", "invalid_scope"])
async def test_a_refusal_that_is_not_about_the_refresh_token_keeps_the_secret(error: str) -> None:
    class Refusing(FakeServer):
        on = True

        async def post(self, *args: Any, **more: Any) -> dict[str, Any]:
            if self.on:
                raise ProviderRefused("403 of a firewall", error=error)
            return await super().post(*args, **more)

    server = Refusing()
    books = Books(server)
    book = books.over(await memory())
    access = await connected(books, book)
    stepped(books).advance(95)
    assert (await book.token("ann", "bank")).token == access, "it works for a moment longer"
    stepped(books).advance(6)
    with pytest.raises(ProviderRefused):
        await book.token("ann", "bank")
    (shown,) = await book.listed("ann")
    assert (shown.status, shown.refreshable) == ("ready", True)
    server.on = False
    assert (await book.token("ann", "bank")).token == "access-1"
    assert server.forms[0]["refresh_token"] == "first-refresh"
    assert books.what() == ["credential.connected"]


ISSUER = "https://as.example"
MCP = Provider(name="bank", kind="oauth", mcp="https://mcp.example/mcp", client_id="me")


def named_by_mcp(server: FakeServer, issuer: str) -> None:
    """The MCP server names this authorization server from now on."""
    place = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
    server.documents[place] = {"resource": MCP.mcp, "authorization_servers": [issuer]}
    server.documents[f"{issuer}/.well-known/oauth-authorization-server"] = {
        "issuer": issuer, "authorization_endpoint": f"{issuer}/a", "token_endpoint": f"{issuer}/t",
        "code_challenge_methods_supported": ["S256"],
    }  # fmt: skip


async def test_metadata_that_are_gone_or_wrong_keep_the_secret() -> None:
    books = Books()
    book = books.over(await memory(), providers=(MCP,))
    await connected(books, book, issuer=ISSUER, token_url=f"{ISSUER}/t")
    stepped(books).advance(101)
    with pytest.raises(ProviderRefused, match="no metadata"):
        await book.token("ann", "bank")
    named_by_mcp(books.server, ISSUER)
    assert (await book.token("ann", "bank")).token == "access-1"


async def test_a_refresh_token_goes_to_no_server_but_the_one_that_gave_it() -> None:
    books = Books()
    book = books.over(await memory(), providers=(MCP,))
    named_by_mcp(books.server, ISSUER)
    await connected(books, book, issuer=ISSUER, token_url=f"{ISSUER}/t")
    stepped(books).advance(95)
    assert (await book.token("ann", "bank")).token == "access-1"
    stepped(books).advance(3700)
    named_by_mcp(books.server, "https://evil.example")
    with pytest.raises(CredentialMissing, match="another authorization server"):
        await book.token("ann", "bank")
    assert [form["url"] for form in books.server.forms] == [f"{ISSUER}/t"]
    assert "connect it anew" in (await book.look("ann", ["bank"]))[1]["bank"]


async def test_metadata_that_this_process_knows_and_that_are_old_expire_nothing() -> None:
    books, store = Books(), await memory()
    book = books.over(store, providers=(MCP,))
    named_by_mcp(books.server, "https://old.example")
    await book.oauth.endpoints(MCP)
    named_by_mcp(books.server, ISSUER)  # another process saw that, and connected the account there
    await connected(books, books.over(store, providers=(MCP,)), issuer=ISSUER, token_url=f"{ISSUER}/t")
    stepped(books).advance(95)
    assert (await book.token("ann", "bank")).token == "access-1"


async def test_metadata_are_read_before_the_refresh_is_claimed() -> None:
    """A slow discovery must not use up the claim, or two processes send the refresh token."""

    class Slow(FakeServer):
        claims: list[bool] = []  # noqa: RUF012  # one test

        async def get(self, provider: Provider, url: str) -> dict[str, Any] | None:
            self.claims.append(b'"claim":null' not in (await store.documents("credential"))[0].body)
            stepped(books).advance(30)
            return await super().get(provider, url)

    store, server = await memory(), Slow()
    books = Books(server)
    book = books.over(store, providers=(MCP,))
    named_by_mcp(server, ISSUER)
    await connected(books, book, issuer=ISSUER, token_url=f"{ISSUER}/t", expires_in=1.0)
    stepped(books).advance(1)
    assert (await book.token("ann", "bank")).token == "access-1"
    assert server.claims == [False, False]
    assert "credential.refresh_repeated" not in books.what()


async def test_a_token_that_ends_and_cannot_be_refreshed_is_missing() -> None:
    books = Books()
    book = books.over(await memory())
    await book.put("ann", "github", "t0ken", expires_at=stepped(books).now() + 10)
    stepped(books).advance(11)
    assert (await book.look("ann", ["github"]))[1] == {"github": "it has expired"}
    with pytest.raises(CredentialMissing, match="expired"):
        await book.token("ann", "github")
    with pytest.raises(UsageError, match="past"):
        await book.put("ann", "github", "t0ken", expires_at=1.0)


async def test_renewing_gives_what_replaced_the_token_before_it_refreshes() -> None:
    books = Books()
    book = books.over(await memory())
    access = await connected(books, book)
    new = await book.renew("ann", "bank", access, refused=True)
    assert new.token == "access-1"
    assert (await book.renew("ann", "bank", access, refused=True)).token == "access-1"
    assert len(books.server.forms) == 1, "the second one found the new token"


async def test_a_refused_plain_token_is_expired_only_if_the_service_says_so() -> None:
    books = Books()
    book = books.over(await memory())
    await book.put("ann", "github", "t0ken")
    assert (await book.renew("ann", "github", "t0ken", refused=False)).token == "t0ken"
    assert (await book.token("ann", "github")).token == "t0ken"
    with pytest.raises(CredentialMissing):
        await book.renew("ann", "github", "t0ken", refused=True)
    with pytest.raises(CredentialMissing, match="the service refused it"):
        await book.token("ann", "github")


async def test_a_refresh_goes_on_when_one_that_waits_is_cancelled() -> None:
    books = Books(FakeServer())
    book = books.over(await memory())
    await connected(books, book)
    stepped(books).advance(95)
    books.server.gate = asyncio.Event()
    first, second = (asyncio.ensure_future(book.token("ann", "bank")) for _ in range(2))
    while not books.server.forms:
        await asyncio.sleep(0)
    first.cancel()
    books.server.gate.set()
    assert (await second).token == "access-1"
    assert (await book.token("ann", "bank")).token == "access-1"
    assert len(books.server.forms) == 1


async def test_tokens_that_were_given_are_not_lost_to_a_store_that_is_away() -> None:
    class Shaky(MemoryStore):
        away = 0
        lies = False

        async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
            if kind == "credential" and self.away:
                self.away -= 1
                if self.lies:  # the write took effect, and its answer was lost
                    await super().put_document(kind, key, body, expect)
                raise StoreUnavailable("away")
            return await super().put_document(kind, key, body, expect)

    for lies in (False, True):
        books, store = Books(), await memory(Shaky)
        book = books.over(store)
        await connected(books, book)
        stepped(books).advance(95)
        books.server.gate = asyncio.Event()
        asked = asyncio.ensure_future(book.token("ann", "bank"))
        while not books.server.forms:
            await asyncio.sleep(0)
        store.away, store.lies = 1 if lies else 3, lies
        books.server.gate.set()
        while not asked.done():
            await stepped(books).run(0.1)
        assert asked.result().token == "access-1"
        assert (await book.token("ann", "bank")).token == "access-1"


async def test_nothing_that_is_printed_shows_a_secret() -> None:
    books = Books()
    book = books.over(await memory())
    await connected(books, book)
    kept = await book.documents.read("ann", "bank")
    assert kept is not None
    secret, held = book.documents.open(kept), await book.token("ann", "bank")
    for each in (secret, held, IssuedTokens(access="first-access"), kept, kept.shown, BANK, books.audited):
        assert "first-access" not in repr(each)
        assert "first-refresh" not in repr(each)
