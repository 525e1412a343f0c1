"""Where an authorization server is: metadata are believed about themselves alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.credential_books import FakeServer

from clicket.safety.credentials import Provider
from clicket.safety.credentials.discovery import Discovery
from clicket.safety.credentials.oauth_http import ProviderRefused

ISSUER = "https://as.example/tenant"
METADATA = "https://as.example/.well-known/oauth-authorization-server/tenant"
MCP = "https://mcp.example/v1/mcp"
RESOURCE = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp"
DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/a",
    "token_endpoint": f"{ISSUER}/t",
    "registration_endpoint": f"{ISSUER}/r",
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["client_secret_post"],
    "authorization_response_iss_parameter_supported": True,
}
BY_ISSUER = Provider(name="x", kind="oauth", issuer=ISSUER)
BY_MCP = Provider(name="x", kind="oauth", mcp=MCP)


def found(server: FakeServer, now: list[float] | None = None) -> Discovery:
    times = [0.0] if now is None else now
    return Discovery(server, lambda: times[0])


def a_server(**documents: dict[str, Any]) -> FakeServer:
    server = FakeServer()
    server.documents[METADATA] = DOCUMENT
    server.documents[RESOURCE] = {"resource": MCP, "authorization_servers": [ISSUER], "scopes_supported": ["a", "b"]}
    server.documents.update(documents)
    return server


async def test_an_issuer_says_where_its_endpoints_are() -> None:
    endpoints = await found(a_server()).endpoints(BY_ISSUER)
    assert endpoints.authorize_url == f"{ISSUER}/a"
    assert endpoints.token_url == f"{ISSUER}/t"
    assert endpoints.registration_url == f"{ISSUER}/r"
    assert (endpoints.issuer, endpoints.sends_issuer, endpoints.client_auth) == (ISSUER, True, "post")
    assert endpoints.resource == ""


async def test_an_mcp_server_names_its_issuer_scopes_and_resource() -> None:
    endpoints = await found(a_server()).endpoints(BY_MCP)
    assert (endpoints.issuer, endpoints.scopes, endpoints.resource) == (ISSUER, ("a", "b"), MCP)
    chosen = msgspec.structs.replace(BY_MCP, scopes=("c",))
    assert (await found(a_server()).endpoints(chosen)).scopes == ("c",)


async def test_the_challenge_of_an_mcp_server_says_where_its_metadata_are() -> None:
    server = a_server()
    elsewhere = "https://mcp.example/meta.json"
    server.documents[elsewhere] = {**server.documents.pop(RESOURCE), "scopes_supported": ["c"]}
    server.challenges[MCP] = f'Bearer error="x", resource_metadata="{elsewhere}"'
    assert (await found(server).endpoints(BY_MCP)).scopes == ("c",)


async def test_openid_metadata_are_read_where_there_are_no_others() -> None:
    for place in (
        f"{ISSUER}/.well-known/openid-configuration",
        "https://as.example/.well-known/openid-configuration/tenant",
    ):
        server = a_server()
        server.documents[place] = {
            key: value for key, value in server.documents.pop(METADATA).items() if "code_" not in key
        }
        assert (await found(server).endpoints(BY_ISSUER)).token_url == f"{ISSUER}/t"
        with pytest.raises(ProviderRefused, match="no PKCE"):  # MCP wants it to be said
            await found(server).endpoints(BY_MCP)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"issuer": "https://as.example/other"}, "another issuer"),
        ({"issuer": f"{ISSUER}/"}, "another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "no PKCE"),
        ({"token_endpoint": "http://as.example/t"}, "does not begin with https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "does not begin with https"),
        ({"authorization_endpoint": 3}, "no authorization_endpoint"),
    ],
)
async def test_metadata_that_do_not_fit_are_refused(changed: dict[str, Any], says: str) -> None:
    server = a_server()
    server.documents[METADATA] = {**DOCUMENT, **changed}
    with pytest.raises(ProviderRefused, match=says):
        await found(server).endpoints(BY_ISSUER)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"resource": "https://other.example/v1/mcp", "authorization_servers": [ISSUER]}, "another resource"),
        ({"resource": f"{MCP}/deeper", "authorization_servers": [ISSUER]}, "another resource"),
        ({"authorization_servers": [ISSUER]}, "another resource"),
        ({"resource": MCP, "authorization_servers": []}, "names no authorization server"),
    ],
)
async def test_a_resource_speaks_for_itself_alone(document: dict[str, Any], says: str) -> None:
    server = a_server()
    server.documents[RESOURCE] = document
    with pytest.raises(ProviderRefused, match=says):
        await found(server).endpoints(BY_MCP)


async def test_a_challenge_that_points_to_another_host_is_ignored() -> None:
    server = a_server()
    server.documents["https://evil.example/meta"] = {
        "resource": "https://evil.example",
        "authorization_servers": ["https://evil.example"],
    }
    server.challenges[MCP] = 'Bearer resource_metadata="https://evil.example/meta"'
    assert (await found(server).endpoints(BY_MCP)).issuer == ISSUER


async def test_no_metadata_at_all_are_an_error_that_says_so() -> None:
    with pytest.raises(ProviderRefused, match="no metadata"):
        await found(FakeServer()).endpoints(BY_ISSUER)
    with pytest.raises(ProviderRefused, match="no metadata"):
        await found(FakeServer()).endpoints(BY_MCP)


async def test_metadata_are_read_again_after_an_hour() -> None:
    now, server = [0.0], a_server()
    discovery = found(server, now)
    await discovery.endpoints(BY_ISSUER)
    server.documents[METADATA] = {**DOCUMENT, "token_endpoint": f"{ISSUER}/t2"}
    assert (await discovery.endpoints(BY_ISSUER)).token_url == f"{ISSUER}/t"
    now[0] = 3601.0
    assert (await discovery.endpoints(BY_ISSUER)).token_url == f"{ISSUER}/t2"
