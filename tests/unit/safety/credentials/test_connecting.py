"""Links, redirects and callbacks: what a wrong or hostile one can do, which is nothing."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.kit.credential_books import BANK, Books, memory

from clicket.errors import CredentialMissing, UsageError
from clicket.safety.credentials import Connecting, ConnectRefused, CredentialBook, Provider, Start
from clicket.safety.credentials.oauth_http import ProviderRefused, ProviderUnreachable
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

GITHUB = Provider(name="github")


class Flow:
    """One store, one book, and a browser."""

    def __init__(self, store: MemoryStore, *providers: Provider) -> None:
        self.books, self.store = Books(), store
        self.book: CredentialBook = self.books.over(
            self.store, providers=providers or (BANK, GITHUB), link_timeout=600.0
        )
        self.connecting: Connecting = self.books.connecting(self.book, self.store)

    @property
    def clock(self) -> StepClock:
        assert isinstance(self.books.clock, StepClock)
        return self.books.clock

    def token(self, caller: str = "ann", provider: str = "bank") -> str:
        return self.connecting.link(caller, provider).url.rpartition("/")[2]

    async def start(self, caller: str = "ann") -> tuple[dict[str, str], dict[str, str]]:
        """The callback's query as an honest server writes it, and the browser's cookies."""
        start = await self.connecting.start(self.token(caller))
        return {"state": asked(start)["state"], "code": "c0de"}, {start.cookie_name: start.cookie}

    async def refused(self, query: dict[str, str], cookies: dict[str, str]) -> str:
        with pytest.raises(ConnectRefused) as error:
            await self.connecting.finish(query, cookies)
        return error.value.why

    async def has(self, caller: str) -> bool:
        return (await self.book.look(caller, ["bank"]))[1] == {}


def asked(start: Start) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(start.url).query).items()}


async def test_a_link_says_nothing_and_opens_for_its_caller() -> None:
    flow = Flow(await memory())
    link = flow.connecting.link("ann", "bank")
    assert link.url.startswith("https://clicket.example/base/connect/start/ckc_")
    assert link.expires_at == flow.clock.now() + 600
    assert "ann" not in base64.urlsafe_b64decode(link.url.rpartition("ckc_")[2][8:] + "==").decode("latin-1")
    invitation, provider = await flow.connecting.open(link.url.rpartition("/")[2])
    assert (invitation.caller, provider) == ("ann", BANK)
    assert flow.token() != flow.token(), "each is another one"


@pytest.mark.parametrize("change", ["cut", "flip", "prefix", "key", "empty", "long", "unicode"])
async def test_a_link_that_was_changed_is_invalid(change: str) -> None:
    flow, token = Flow(await memory()), ""
    token = flow.token()
    flipped = token[:40] + ("A" if token[40] != "A" else "B") + token[41:]
    bad = {
        "cut": token[:-2], "flip": flipped, "prefix": token.replace("ckc_", "ckx_"), "key": f"ckc_00000000{token[12:]}", "empty": "",
        "long": token + "A" * 5_000, "unicode": token + "ü",
    }[change]  # fmt: skip
    for use in (flow.connecting.open, flow.connecting.start):
        with pytest.raises(ConnectRefused) as error:
            await use(bad)
        assert error.value.why == "invalid"


async def test_a_link_of_another_server_is_invalid() -> None:
    token = Flow(await memory()).token()
    other = Flow(await memory())
    other.book = other.books.over(other.store, key="another key for another server")
    with pytest.raises(ConnectRefused, match="invalid"):
        await other.books.connecting(other.book, other.store).open(token)


async def test_a_link_ends() -> None:
    flow = Flow(await memory())
    token = flow.token()
    flow.clock.advance(601)
    with pytest.raises(ConnectRefused, match="expired"):
        await flow.connecting.start(token)


async def test_opening_uses_nothing_up_and_starting_does() -> None:
    flow = Flow(await memory())
    token = flow.token()
    for _ in range(3):
        await flow.connecting.open(token)
    await flow.connecting.start(token)
    for use in (flow.connecting.open, flow.connecting.start):
        with pytest.raises(ConnectRefused, match="used"):
            await use(token)


async def test_a_provider_that_is_down_does_not_use_the_link_up() -> None:
    issuer = Provider(name="bank", kind="oauth", issuer="https://as.example", client_id="me")
    flow = Flow(await memory(), issuer)

    async def down(provider: Provider, url: str) -> dict[str, Any] | None:
        raise ProviderUnreachable("down")

    flow.books.server.get = down  # type: ignore[method-assign]
    token = flow.token()
    with pytest.raises(ProviderUnreachable):
        await flow.connecting.start(token)
    await flow.connecting.open(token)


async def test_links_need_an_address_of_the_server() -> None:
    books, store = Books(), await memory()
    book = books.over(store)
    bare = msgspec.structs.replace(book.options, public_url=None)
    book.options = bare
    with pytest.raises(UsageError, match="public_url"):
        books.connecting(book, store).link("ann", "bank")


async def test_the_request_has_pkce_and_a_state_and_no_secret() -> None:
    flow = Flow(
        await memory(),
        msgspec.structs.replace(BANK, client_secret="hush", authorize_url=f"{BANK.authorize_url}?x=1&state=evil"),
    )
    start = await flow.connecting.start(flow.token())
    query = asked(start)
    assert query["x"] == "1"
    assert query["state"] != "evil"
    assert query["code_challenge_method"] == "S256"
    assert query["redirect_uri"] == "https://clicket.example/base/connect/callback"
    assert "hush" not in start.url
    await flow.connecting.finish({"state": query["state"], "code": "c0de"}, {start.cookie_name: start.cookie})
    (form,) = flow.books.server.forms
    digest = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert digest == query["code_challenge"]
    for document in await flow.store.documents("credential.state"):
        assert form["code_verifier"].encode() not in document.body
        assert query["state"].encode() not in document.body


async def test_the_callback_stores_for_the_caller_of_the_state_alone() -> None:
    flow = Flow(await memory())
    ann, anns = await flow.start("ann")
    bob, bobs = await flow.start("bob")
    # Bob's browser with Ann's state: it has not the cookie that belongs to it.
    assert await flow.refused(ann, bobs) == "browser"
    assert not await flow.has("ann")
    assert not await flow.has("bob")
    await flow.connecting.finish(ann, {**anns, **bobs})
    assert await flow.has("ann")
    assert not await flow.has("bob")
    await flow.connecting.finish(bob, bobs)
    assert await flow.has("bob")


async def test_a_callback_works_once() -> None:
    flow = Flow(await memory())
    query, cookies = await flow.start()
    await flow.connecting.finish(query, cookies)
    assert await flow.refused(query, cookies) == "used"
    assert await flow.refused({**query, "code": "another"}, cookies) == "used"
    assert len(flow.books.server.forms) == 1


@pytest.mark.parametrize("query", [{}, {"state": ""}, {"state": "x", "code": "y"}])
async def test_a_state_that_was_never_given_is_invalid(query: dict[str, str]) -> None:
    flow = Flow(await memory())
    _, cookies = await flow.start()
    assert await flow.refused(query, cookies) == "invalid"


async def test_a_state_ends() -> None:
    flow = Flow(await memory())
    query, cookies = await flow.start()
    flow.clock.advance(601)
    assert await flow.refused(query, cookies) == "expired"


@pytest.mark.parametrize(
    ("issuer", "sends", "iss", "fits"),
    [
        ("https://as.example", True, "https://as.example", True),
        ("https://as.example", True, None, False),
        ("https://as.example", True, "https://evil.example", False),
        ("https://as.example", False, None, True),
        ("https://as.example", False, "https://as.example/", False),
        ("", False, "https://bank.example", True),
        ("", False, "https://evil.example", False),
        ("", False, None, True),
    ],
)
async def test_an_answer_of_another_issuer_is_refused_before_its_code_is_sent(
    issuer: str, sends: bool, iss: str | None, fits: bool
) -> None:
    flow = Flow(await memory(), msgspec.structs.replace(BANK, issuer=issuer))
    if issuer:
        flow.books.server.documents[f"{issuer}/.well-known/oauth-authorization-server"] = {
            "issuer": issuer, "authorization_response_iss_parameter_supported": sends,
        }  # fmt: skip
    query, cookies = await flow.start()
    if iss is not None:
        query["iss"] = iss
    if fits:
        await flow.connecting.finish(query, cookies)
    else:
        assert await flow.refused(query, cookies) == "issuer"
        assert flow.books.server.forms == []
        query.pop("iss", None)
        assert await flow.refused(query, cookies) == "used", "the state is burnt"


async def test_a_code_goes_to_no_server_but_the_one_that_the_person_was_sent_to() -> None:
    issuer = Provider(name="bank", kind="oauth", issuer="https://as.example", client_id="me")
    flow = Flow(await memory(), issuer)
    place, document = "https://as.example/.well-known/oauth-authorization-server", {
        "issuer": "https://as.example", "authorization_endpoint": "https://as.example/a",
        "token_endpoint": "https://as.example/t",
    }  # fmt: skip
    flow.books.server.documents[place] = document
    query, cookies = await flow.start()
    flow.books.server.documents[place] = {**document, "token_endpoint": "https://evil.example/t"}
    elsewhere = flow.books.connecting(flow.books.over(flow.store, providers=(issuer,)), flow.store)
    with pytest.raises(ConnectRefused, match="issuer"):
        await elsewhere.finish(query, cookies)
    assert flow.books.server.forms == []


@pytest.mark.parametrize("query", [{"error": "access_denied"}, {"code": ""}, {"code": "x" * 5_000}])
async def test_a_person_who_declines_connects_nothing(query: dict[str, str]) -> None:
    flow = Flow(await memory())
    given, cookies = await flow.start()
    assert await flow.refused({**given, **query}, cookies) == "declined"
    assert not await flow.has("ann")


async def test_a_code_that_is_refused_connects_nothing_and_is_not_sent_again() -> None:
    flow = Flow(await memory())
    query, cookies = await flow.start()
    flow.books.server.refuses = "invalid_grant"
    with pytest.raises(ProviderRefused):
        await flow.connecting.finish(query, cookies)
    assert await flow.refused(query, cookies) == "used"
    assert len(flow.books.server.forms) == 1
    with pytest.raises(CredentialMissing):
        await flow.book.token("ann", "bank")


async def test_a_page_of_a_plain_token_takes_one() -> None:
    flow = Flow(await memory())
    token = flow.token(provider="github")
    with pytest.raises(ConnectRefused, match="kind"):
        await flow.connecting.start(token)
    await flow.connecting.put(token, "my-t0ken")
    assert (await flow.book.token("ann", "github")).token == "my-t0ken"
    with pytest.raises(ConnectRefused, match="used"):
        await flow.connecting.put(token, "other-t0ken")
    with pytest.raises(ConnectRefused, match="kind"):
        await flow.connecting.put(flow.token(), "my-t0ken")


async def test_a_client_is_registered_once_where_none_is_known() -> None:
    provider = Provider(
        name="bank", kind="oauth", authorize_url="https://bank.example/a", token_url="https://bank.example/t",
        registration_url="https://bank.example/r",
    )  # fmt: skip
    flow = Flow(await memory(), provider)
    registered: list[Any] = []

    async def post(provider: Provider, url: str, content: bytes, headers: Any, *, what: str) -> dict[str, Any]:
        if url.endswith("/r"):
            registered.append(msgspec.json.decode(content))
            return {"client_id": f"client-{len(registered)}", "client_secret": "hush-hush"}
        flow.books.server.forms.append({name: values[0] for name, values in parse_qs(content.decode()).items()})
        return flow.books.server.next_tokens()

    flow.books.server.post = post  # type: ignore[method-assign]
    for _ in range(2):
        query, cookies = await flow.start()
        await flow.connecting.finish(query, cookies)
    assert registered == [
        {
            "client_name": "clicket", "redirect_uris": ["https://clicket.example/base/connect/callback"],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"], "token_endpoint_auth_method": "none",
        }
    ]  # fmt: skip
    (document,) = await flow.store.documents("credential.client")
    assert b"hush-hush" not in document.body


@pytest.mark.parametrize(
    ("method", "basic", "in_form"),
    [
        ("none", False, {"client_id": "c"}),
        ("client_secret_post", False, {"client_id": "c", "client_secret": "hush-hush"}),
        ("client_secret_basic", True, {}),
        (None, True, {}),
    ],
)
async def test_a_client_proves_itself_as_the_server_has_registered_it(
    method: str | None, basic: bool, in_form: dict[str, str]
) -> None:
    """Some servers give a secret to a client that asked for none, and then refuse it."""
    provider = Provider(
        name="bank", kind="oauth", authorize_url="https://bank.example/a", token_url="https://bank.example/t",
        registration_url="https://bank.example/r",
    )  # fmt: skip
    flow = Flow(await memory(), provider)
    sent: list[tuple[Any, dict[str, str]]] = []

    async def post(provider: Provider, url: str, content: bytes, headers: Any, *, what: str) -> dict[str, Any]:
        if url.endswith("/r"):
            said = {} if method is None else {"token_endpoint_auth_method": method}
            return {"client_id": "c", "client_secret": "hush-hush", **said}
        sent.append((headers, {name: values[0] for name, values in parse_qs(content.decode()).items()}))
        return flow.books.server.next_tokens()

    flow.books.server.post = post  # type: ignore[method-assign]
    await flow.connecting.finish(*await flow.start())
    [(headers, form)] = sent
    assert ("authorization" in headers) is basic
    assert {name: value for name, value in form.items() if name.startswith("client_")} == in_form
