"""Accounts that people connect, with a real authorization server in a process of its own: links, refresh, REST tools, MCP servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.authorization_server import AuthorizationServer
from tests.kit.waiting import eventually
from tests.scenarios.connect_kit import KEY, Browser, connecting_server
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.server_kit import Api, key_for

from clicket import RestTool, Runtime, State, ToolContext, tool
from clicket.client import Client
from clicket.errors import InvalidInput, UsageError
from clicket.mcp import McpServer
from clicket.safety.oauth.subjects import caller_of
from clicket.server import keys


@pytest.fixture(scope="module")
def bank() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _as_new(bank: AuthorizationServer) -> None:
    bank.control(user="ann", lifetime=3600.0, refuse_refresh=False, delay=0.0, iss=bank.url)


def rest(
    bank: AuthorizationServer, method: str = "GET", name: str = "who", query: str = "", **options: Any
) -> RestTool:
    url = f"{bank.url}/api/whoami{query}"
    return RestTool(name, method, url, credentials="bank", allow_private=True, **{"retry_delay": 0.001, **options})


@tool(credentials=["bank"])
async def token_of(ctx: ToolContext) -> int:
    return len(ctx.credential("bank"))


async def link_for(it: Api, key: dict[str, str]) -> str:
    return str((await it.post("/credentials/bank/link", headers=key)).json()["url"])


async def connect(it: Api, caller: str = "") -> None:
    """Connect the account of the server's user of the moment."""
    link = await it.runtime.credentials.link("bank", caller=caller)
    page = await Browser().press(link.url)
    assert page.status_code == 200, page.text


async def test_a_call_waits_for_an_account_and_goes_on_once_it_is_connected(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank)]) as it:
        key = await key_for(it, "ann", "call", "read")
        made = (await it.post("/calls", json={"tool": "who", "id": "c"}, headers=key)).json()
        await eventually(lambda: _waits(it, key, made["id"]))
        url, browser = await link_for(it, key), Browser()
        page = await browser.get(url)
        assert "bank" in page.text
        assert bank.url in page.headers["content-security-policy"]
        assert "script" not in page.headers["content-security-policy"]
        done = await browser.press(url)
        assert done.status_code == 200
        assert "go on" in done.text
        assert browser.came[-2:] == [f"{bank.url}/authorize", f"{it.url}/connect/callback"]
        async with Client(it.url, key=key["authorization"].partition(" ")[2]) as client:
            result = await (await client.handle("c")).result()
            assert result.output["user"] == "ann"
            assert result.output["echo"] == "[secret]", "what the service echoes is masked"
            (shown,) = await client.credentials.list()
            assert (shown.provider, shown.kind, shown.status, shown.refreshable) == ("bank", "oauth", "ready", True)
            assert (await client.credentials.revoke("bank")).status == "expired"
            with pytest.raises(InvalidInput):
                await client.credentials.put("bank", "no")
            assert (await client.credentials.put("bank", "by-hand-1")).kind == "token"


async def _waits(it: Api, key: dict[str, str], id: str) -> bool:
    record = (await it.get(f"/calls/{id}", headers=key)).json()
    return record["waiting_for"] == "credential" and record["credential"]["providers"] == ["bank"]


async def test_the_page_names_the_key_and_its_holder(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank)]) as it:
        made, _ = await keys.create(it.runtime.store, name="nightly", scopes=["call"], now=time.time(), holder="Ann")
        for caller, shown in (
            (made.id, f"nightly · Ann · {made.id}"), (caller_of("https://login.example", "bob@x"), "bob@x"), ("eve", "eve"),
        ):  # fmt: skip
            page = await Browser().get((await it.runtime.credentials.link("bank", caller=caller)).url)
            assert f"<bdi>{shown}</bdi>" in page.text


async def test_a_key_gets_links_for_providers_that_are_known_here(bank: AuthorizationServer) -> None:
    @tool(credentials=["github"])
    async def uses_github() -> None: ...

    async with connecting_server(bank, [uses_github]) as it:
        key = await key_for(it, "ann", "call", "read")
        for name, status in (("bank", 200), ("github", 200), ("your-mail-password", 400)):
            answer = await it.post(f"/credentials/{name}/link", headers=key)
            assert answer.status_code == status, answer.text
        assert "there is no provider" in answer.text


async def test_a_person_who_declines_is_told_and_gets_a_new_link(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank)]) as it:
        bank.control(user=None)
        link = await it.runtime.credentials.link("bank")
        page = await Browser().press(link.url)
        assert page.status_code == 400
        assert "did not agree" in page.text
        bank.control(user="bob")
        assert (await Browser().get(link.url)).status_code == 410
        await connect(it)
        assert (await it.runtime.call("who")).output["user"] == "bob"


async def test_a_mixed_up_issuer_is_refused(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank)]) as it:
        before = bank.stats()["codes"]
        bank.control(iss="https://evil.example")
        page = await Browser().press((await it.runtime.credentials.link("bank")).url)
        assert page.status_code == 400
        assert "another authorization server" in page.text
        assert bank.stats()["codes"] == before, "the code was not sent anywhere"


async def test_a_token_is_refreshed_once_for_many_calls_of_two_processes(
    bank: AuthorizationServer, tmp_path: Path
) -> None:
    store = sqlite_url(tmp_path)
    bank.control(lifetime=0.5, delay=0.05)
    async with (
        connecting_server(bank, [rest(bank)], store) as it,
        make([rest(bank)], store, secret_key=KEY, providers=(bank.provider(),)) as other,
    ):
        await connect(it)
        bank.control(lifetime=3600.0)
        before = bank.stats()
        (kept,) = await it.runtime.credentials.list()
        await eventually(lambda: kept.expires_at is not None and kept.expires_at <= time.time())
        results = await asyncio.gather(*(rt.call("who") for rt in (it.runtime, other) for _ in range(4)))
        assert [result.output["user"] for result in results] == ["ann"] * 8
    after = bank.stats()
    assert after["refreshes"] - before["refreshes"] == 1
    assert after["refresh_replays"] == before["refresh_replays"]
    assert after["tokens_refused"] == before["tokens_refused"], "no request was sent with a token that had ended"


@pytest.mark.parametrize(("method", "query"), [("GET", ""), ("GET", "?quiet=1"), ("POST", "")])
async def test_a_401_from_outside_is_answered_with_one_refresh(
    bank: AuthorizationServer, method: str, query: str
) -> None:
    async with connecting_server(bank, [rest(bank, method, query=query)]) as it:
        await connect(it)
        bank.control(forget=True)
        before = bank.stats()
        result = await it.runtime.call("who")
        assert result.output["user"] == "ann"
        assert result.attempts == 1
        assert bank.stats()["refreshes"] - before["refreshes"] == 1


async def test_a_post_without_a_challenge_is_not_sent_again(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank, "POST", query="?quiet=1")]) as it:
        await connect(it)
        bank.control(forget=True)
        before = bank.stats()
        result = await it.runtime.call("who")
        assert result.state is State.FAILED
        assert result.error is not None
        assert "401" in result.error.message
        assert bank.stats()["refreshes"] == before["refreshes"]


async def test_a_refused_refresh_makes_the_call_wait_for_the_person(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, [rest(bank)]) as it:
        await connect(it)
        bank.control(forget=True, refuse_refresh=True)
        handle = await it.runtime.submit("who", id="c")
        await eventually(lambda: _waits_here(it.runtime))
        (shown,) = await it.runtime.credentials.list()
        assert shown.status == "expired"
        bank.control(user="bob", refuse_refresh=False)
        await connect(it)
        result = await handle.result()
        assert (result.output["user"], result.attempts) == ("bob", 2)
        assert_sound(await it.runtime.get("c"))


async def _waits_here(rt: Runtime) -> bool:
    return (await rt.get("c")).waiting_for == "credential"


async def test_a_plain_token_that_the_service_refuses_waits_or_fails(bank: AuthorizationServer) -> None:
    tools = [rest(bank), rest(bank, name="quiet", query="?quiet=1")]
    async with connecting_server(bank, tools) as it:
        await it.runtime.credentials.put("bank", "never-valid")
        told = await it.runtime.call("quiet")
        assert told.error is not None
        assert "401" in told.error.message
        await it.runtime.submit("who", id="c")
        await eventually(lambda: _waits_here(it.runtime))


def test_a_request_cannot_carry_a_credential_to_a_host_that_the_caller_names() -> None:
    for url, says in (
        ("https://{host}/x", "names the host"),
        ("{url}", "names the host"),
        ("http://a.example/", "https"),
    ):
        with pytest.raises(UsageError, match=says):
            RestTool("x", "GET", url, credentials="bank")
    with pytest.raises(UsageError, match="one credential"):
        RestTool("x", "GET", "https://a.example/", credentials=["a", "b"])
    with pytest.raises(UsageError, match="authorization"):
        RestTool("x", "GET", "https://a.example/", credentials="a", headers={"Authorization": "Basic x"})


async def test_an_mcp_server_is_discovered_and_a_client_registered(bank: AuthorizationServer) -> None:
    found = {"name": "bank", "kind": "oauth", "mcp": f"{bank.url}/mcp", "scopes": ("read",), "allow_private": True}
    before = bank.stats()["registered"]
    async with connecting_server(bank, [token_of], providers=(found,)) as it:
        await connect(it)
        assert (await it.runtime.call("token_of")).output > 20
        server = McpServer("bank", url=f"{bank.url}/mcp", credentials="bank", prefix="bank_")
        (imported,) = await server.join(it.runtime)
        assert imported.options.credentials == ("bank",)
        result = await it.runtime.call("bank_whoami")
        assert result.output["user"] == "ann"
        assert result.output["token"] == "[secret]"
    assert bank.stats()["registered"] - before == 1


async def test_callers_of_one_mcp_server_have_sessions_and_tokens_of_their_own(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, []) as it:
        rt = it.runtime
        await connect(it)
        for user in ("ann", "bob", "eve"):
            bank.control(user=user)
            await connect(it, caller=f"key-{user}")
        await McpServer("bank", url=f"{bank.url}/mcp", credentials="bank").join(rt)
        calls = [
            (user, rt.acting_for(f"key-{user}").call("whoami", {"pause": 0.02}))
            for _ in range(5)
            for user in ("ann", "bob", "eve")
        ]
        for (user, _), result in zip(calls, await asyncio.gather(*(call for _, call in calls)), strict=True):
            assert (result.output["user"], result.output["after"]) == (user, user)
        waiting = await rt.acting_for("key-nil").submit("whoami", id="c")
        await eventually(lambda: _waits_here(rt))
        await waiting.cancel()


async def test_a_401_of_an_mcp_server_is_answered_with_one_refresh_or_a_wait(bank: AuthorizationServer) -> None:
    async with connecting_server(bank, []) as it:
        rt = it.runtime
        await connect(it)
        await McpServer("bank", url=f"{bank.url}/mcp", credentials="bank").join(rt)
        assert (await rt.call("whoami")).output["user"] == "ann"
        bank.control(forget=True)
        before = bank.stats()["refreshes"]
        assert (await rt.call("whoami")).output["user"] == "ann"
        assert bank.stats()["refreshes"] - before == 1
        bank.control(forget=True, refuse_refresh=True)
        handle = await rt.submit("whoami", id="c")
        await eventually(lambda: _waits_here(rt))
        bank.control(user="bob", refuse_refresh=False)
        await connect(it)
        assert (await handle.result()).output["user"] == "bob"
        assert_sound(await rt.get("c"))


def test_a_credential_is_for_servers_with_an_address_that_keeps_it() -> None:
    for given, says in (
        ({"command": ["x"]}, "servers with a url"),
        ({"url": "http://far.example/mcp"}, "https"),
        ({"url": "https://far.example/mcp", "headers": {"authorization": "x"}}, "authorization"),
    ):
        with pytest.raises(UsageError, match=says):
            McpServer("x", credentials="bank", **given)  # type: ignore[arg-type]


async def test_a_token_is_put_on_the_page_of_a_link(bank: AuthorizationServer) -> None:
    @tool(credentials=["github"])
    async def hub(ctx: ToolContext) -> str:
        return ctx.credential("github").partition("-")[0]

    async with connecting_server(bank, [hub]) as it:
        call = asyncio.ensure_future(it.runtime.call("hub", id="c"))
        await eventually(lambda: _waits_somewhere(it.runtime))
        link = await it.runtime.credentials.link("github")
        wrong = await Browser().press(link.url, secret="two words")
        assert wrong.status_code == 400
        page = await Browser().press(link.url, secret="me-t0ken")
        assert page.status_code == 200
        assert "t0ken" not in page.text
        assert (await call).output == "me"
        assert (await Browser().get(link.url)).status_code == 410


async def _waits_somewhere(rt: Runtime) -> bool:
    return bool((await rt.history(waiting_for="credential")).items)
