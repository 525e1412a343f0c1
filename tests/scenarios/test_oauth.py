"""Access tokens of a real authorization server: MCP's own client does the whole flow, keys rotate, tokens are revoked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl
from tests.kit.authorization_server import REDIRECT, AuthorizationServer
from tests.kit.issuer import bearer
from tests.kit.waiting import PATIENCE, eventually
from tests.mcp.kit import BOTH, _end_watchers
from tests.redis_server import free_port
from tests.scenarios.kit import make
from tests.scenarios.server_kit import TOOLS

from clicket.safety.oauth.subjects import caller_of
from clicket.server import Options, serving

MAP = {"tools.read": "read", "tools.use": ["read", "call"], "tools.admin": "admin"}


def login(*, signed: bool = True) -> AuthorizationServer:
    """An authorization server where people log in with a form."""
    return AuthorizationServer(user="", signed=signed, services=False)


@pytest.fixture(scope="module")
def signing() -> Iterator[AuthorizationServer]:
    with login() as made:
        yield made


@pytest.fixture(scope="module")
def opaque() -> Iterator[AuthorizationServer]:
    with login(signed=False) as made:
        yield made


@asynccontextmanager
async def served(oauth: AuthorizationServer, **more: Any) -> AsyncIterator[tuple[str, httpx2.AsyncClient, Any]]:
    """A server whose audience is its own address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    runtime = make(TOOLS, "memory://", oauth=oauth.settings(url, scopes_map=MAP, **more))
    await runtime.open()
    try:
        async with (
            serving(runtime, port=port, options=Options(stop_timeout=2.0)),
            httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client,
        ):
            yield url, client, runtime
    finally:
        await runtime.close()
        await _end_watchers()


class Storage:
    """Where MCP's client keeps its tokens and its registration."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def provider(url: str, oauth: AuthorizationServer, storage: Storage, user: str) -> OAuthClientProvider:
    """MCP's client side of OAuth; the person logs in as `user`."""
    sent_to: list[str] = []

    async def redirect(address: str) -> None:
        asked = parse_qs(urlsplit(address).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["resource"] == [f"{url}/mcp"]
        sent_to.append(oauth.log_in(address, user))

    async def callback() -> AuthorizationCodeResult:
        found = parse_qs(urlsplit(sent_to[-1]).query)
        return AuthorizationCodeResult(code=found["code"][0], state=found["state"][0], iss=found["iss"][0])

    metadata = OAuthClientMetadata(
        client_name="test",
        redirect_uris=[AnyUrl(REDIRECT)],
        grant_types=["authorization_code"],
        response_types=["code"],
    )
    return OAuthClientProvider(f"{url}/mcp", metadata, storage, redirect, callback)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("kind", ["signing", "opaque"])
async def test_the_whole_flow_of_an_mcp_client(
    kind: str, mode: str, signing: AuthorizationServer, opaque: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    """401, resource metadata, the authorization server's metadata, registration, code with PKCE, token, tools/call."""
    oauth = opaque if kind == "opaque" else signing
    caplog.set_level(logging.INFO)
    storage = Storage()
    async with served(oauth, opaque=kind == "opaque") as (url, client, runtime):
        async with (
            httpx2.AsyncClient(auth=provider(url, oauth, storage, "ann"), timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as mcp,
        ):
            assert "add" in [tool.name for tool in (await mcp.list_tools()).tools]
            answer = await mcp.call_tool("add", {"a": 20, "b": 22})
            assert answer.content[0].text == "42"
        page = await runtime.history(tool="add")
        assert [record.caller for record in page.items] == [caller_of(oauth.url, "ann")]
        assert storage.tokens.scope == "tools.use", "the least that /mcp needs, as the challenge said"
        token = storage.tokens.access_token
        assert (await client.get("/calls", headers=bearer(token))).status_code == 401, "its audience is /mcp alone"
        assert token not in caplog.text


async def test_a_token_of_a_client_on_every_kind_of_route(signing: AuthorizationServer) -> None:
    async with served(signing) as (url, client, _):
        token = signing.token(url, "tools.use")
        made = await client.post(
            "/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}, "wait": True}, headers=bearer(token)
        )
        assert made.json()["output"] == 3
        for other in (signing.token("https://other.example", "tools.admin"), signing.token("", "tools.admin")):
            answer = await client.get("/calls", headers=bearer(other))
            assert answer.status_code == 401
            assert "audience" in answer.json()["detail"]
        assert (await client.get("/audit", headers=bearer(token))).status_code == 403
        assert (
            await client.get("/audit", headers=bearer(signing.token(url, "tools.admin", "root")))
        ).status_code == 200


async def test_what_the_server_says_about_itself(signing: AuthorizationServer) -> None:
    async with served(signing) as (url, client, _):
        for suffix, resource in (("", url), ("/mcp", f"{url}/mcp")):
            found = (await client.get(f"/.well-known/oauth-protected-resource{suffix}")).json()
            assert found["resource"] == resource
            assert found["authorization_servers"] == [signing.url]
            assert found["scopes_supported"] == list(MAP)
            assert found["bearer_methods_supported"] == ["header"]
        challenge = (await client.post("/mcp", json={})).headers["www-authenticate"]
        assert challenge == (
            f'Bearer realm="clicket", scope="tools.use", resource_metadata="{url}/.well-known/oauth-protected-resource/mcp"'
        )
        assert "error" not in challenge, "no token was sent"
        assert (
            f'"{url}/.well-known/oauth-protected-resource"' in (await client.get("/calls")).headers["www-authenticate"]
        )


async def test_keys_rotate() -> None:
    """A token of a new key works at once; one of a removed key until the cache ends."""
    with login() as oauth:
        async with served(oauth, jwks_cache=1.0) as (url, client, _):
            old = oauth.token(url, "tools.read")
            assert (await client.get("/calls", headers=bearer(old))).status_code == 200
            oauth.http.post("/keys")
            new = oauth.token(url, "tools.read")
            assert new.split(".")[0] != old.split(".")[0]
            assert (await client.get("/calls", headers=bearer(new))).status_code == 200
            assert (await client.get("/calls", headers=bearer(old))).status_code == 200
            oauth.http.delete("/keys")
            await _eventually_answers(client, old, 401)
            assert (await client.get("/calls", headers=bearer(new))).status_code == 200


async def test_a_revoked_token_is_refused_once_the_cache_ends(opaque: AuthorizationServer) -> None:
    async with served(opaque, opaque=True, introspection_cache=0.5) as (url, client, _):
        token = opaque.token(url, "tools.read", "ann")
        asked = opaque.asked().get("/introspect", 0)
        for _ in range(3):
            assert (await client.get("/calls", headers=bearer(token))).status_code == 200
        opaque.revoke(token)
        await _eventually_answers(client, token, 401)
        assert opaque.asked()["/introspect"] - asked >= 2
    async with served(opaque, opaque=True, introspection_cache=0) as (url, client, _):
        token = opaque.token(url, "tools.read", "ann")
        assert (await client.get("/calls", headers=bearer(token))).status_code == 200
        opaque.revoke(token)
        assert (await client.get("/calls", headers=bearer(token))).status_code == 401, "without a cache at once"


async def _eventually_answers(client: httpx2.AsyncClient, token: str, status: int) -> None:
    async def answers() -> bool:
        return (await client.get("/calls", headers=bearer(token))).status_code == status

    await eventually(answers)
