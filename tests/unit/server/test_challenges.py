"""`WWW-Authenticate`, and the addresses of this server as a protected resource."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.safety.oauth.config import declared_oauth
from clicket.server.challenges import Challenges

SCOPES = {"t.use": ["read", "call"], "t.admin": "admin"}


def scope(host: str = "127.0.0.1:8000", scheme: str = "http") -> Any:
    return {"headers": [(b"host", host.encode())], "scheme": scheme}


def challenges(audience: Any, public: str | None = None) -> Challenges:
    return Challenges(
        declared_oauth({"issuer": "https://login.example", "audience": audience, "scopes_map": SCOPES}), public
    )


def test_without_oauth_it_names_the_scheme_alone() -> None:
    assert Challenges(None).header(scope(), "/mcp", "invalid_token", ("call",)) == (
        b"www-authenticate",
        b'Bearer realm="clicket"',
    )


def test_what_a_client_needs_to_know() -> None:
    name, value = challenges("https://tools.example").header(scope(), "/mcp", "insufficient_scope", ("call",))
    assert name == b"www-authenticate"
    assert value.decode() == (
        'Bearer realm="clicket", error="insufficient_scope", scope="t.use", '
        'resource_metadata="http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"'
    )


@pytest.mark.parametrize(
    ("audience", "public", "host", "base", "resource"),
    [
        ("https://tools.example", None, "127.0.0.1:8000", "http://127.0.0.1:8000", "https://tools.example"),
        ("https://tools.example", None, "Tools.Example", "https://tools.example", "https://tools.example"),
        ("https://tools.example/", None, "tools.example", "https://tools.example", "https://tools.example"),
        ("api://tools", None, "127.0.0.1:8000", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("api://tools", "https://public.example/x", "127.0.0.1", "https://public.example", "https://public.example"),
        (
            ["api://tools", "https://tools.example"],
            None,
            "tools.example",
            "https://tools.example",
            "https://tools.example",
        ),
    ],
)
def test_the_addresses(audience: Any, public: str | None, host: str, base: str, resource: str) -> None:
    made = challenges(audience, public)
    assert made.base(scope(host)) == base
    assert made.resource(scope(host)) == resource
    assert made.resource(scope(host), "/mcp") == f"{resource}/mcp"


def test_an_audience_that_is_mcp_itself() -> None:
    made = challenges("https://tools.example/mcp")
    assert made.resource(scope(), "/mcp") == "https://tools.example/mcp"
    assert made.audiences("/mcp") == ("https://tools.example/mcp",)


def test_audiences_of_a_path() -> None:
    made = challenges("https://tools.example")
    assert made.audiences("/mcp") == ("https://tools.example/mcp",)
    assert made.audiences("/calls") == made.audiences("/mcp/x") == challenges("api").audiences("/mcp") == ()
