"""`[oauth]`: what fits, what does not, and that its secret is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.scopes import SCOPES
from clicket.runtime.settings import HIDDEN, Settings
from clicket.safety.oauth.config import declared_oauth

GOOD: dict[str, Any] = {"issuer": "https://login.example/realm", "audience": "https://tools.example"}
SECRET = "a-very-secret-text-of-the-client"
ASKING = {**GOOD, "introspection": "https://login.example/introspect", "client_id": "me", "client_secret": SECRET}


def test_the_least() -> None:
    made = declared_oauth(GOOD)
    assert (made.signs, made.introspection, made.resource) == (True, False, "https://tools.example")
    assert made.scopes_of(["clicket:read", "clicket:call", "read", "openid"]) == {"read", "call"}
    assert made.scopes_of([f"clicket:{scope}" for scope in SCOPES]) == set(SCOPES)


def test_the_kinds_of_tokens() -> None:
    assert not declared_oauth(ASKING).signs, "introspection alone judges every token"
    assert declared_oauth({**ASKING, "jwks_uri": "https://login.example/keys"}).signs
    table = {"url": "https://login.example/ask", "client_id": "me", "client_secret": SECRET}
    made = declared_oauth({**GOOD, "introspection": table})
    assert (made.introspection, made.client_id, made.client_secret) == ("https://login.example/ask", "me", SECRET)


def test_the_scope_to_ask_for_gives_as_little_as_possible() -> None:
    made = declared_oauth(
        {**GOOD, "scopes_map": {"all": ["admin", "call", "read"], "use": ["call", "read"], "root": "admin"}}
    )
    assert [made.scope_for(scope) for scope in SCOPES] == ["use", "use", "root", "root"]
    assert declared_oauth({**GOOD, "scopes_map": {"r": "read"}}).scope_for("call") is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"issuer": None}, "needs an issuer"),
        ({"issuer": "http://login.example"}, "https://"),
        ({"issuer": "https://user:pw@login.example"}, "without user"),
        ({"issuer": "https://login.example?x=1"}, "URL"),
        ({"issuer": "login.example"}, "URL"),
        ({"issuer": "file:///etc/passwd"}, "URL"),
        ({"issuer": 5}, "issuer must be a text"),
        ({"issuer": "http://127.0.0.1.evil.example"}, "https://"),
        ({"audience": None}, "needs an audience"),
        ({"audience": []}, "needs an audience"),
        ({"audience": [""]}, "audience is a text"),
        ({"jwks_uri": "http://10.0.0.1/keys"}, "https://"),
        ({"jwks": "x"}, "Did you mean 'jwks_uri'"),
        ({"introspection": "https://login.example/i"}, "client_id and client_secret"),
        ({"introspection": {"uri": "x"}}, "introspection: unknown key 'uri'"),
        ({"client_id": 5}, "client_id must be a text"),
        ({"scopes_map": {}}, "scopes_map is a table"),
        ({"scopes_map": {"a": "write"}}, "not a scope here"),
        ({"scopes_map": {"a b": "read"}}, "no spaces"),
        ({"scopes_map": {'a"b': "read"}}, "quotes"),
        ({"scopes_map": {"a": []}}, "nothing"),
        ({"scopes_map": ["read"]}, "table"),
        ({"algorithms": ["HS256"]}, "not safe"),
        ({"algorithms": ["none"]}, "not safe"),
        ({"algorithms": []}, "list of"),
        ({"leeway": -1}, "leeway must be a number from 0 to 300"),
        ({"jwks_cache": 0}, "from 1 to 86400"),
        ({"introspection_cache": 1e9}, "from 0 to 300"),
        ({"timeout": "soon"}, "timeout must be a number"),
        ({"allow_private": "yes"}, "true or false"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        Settings(oauth={**GOOD, "client_secret": SECRET, **change})
    assert says in refused.value.message
    assert "[oauth] of Settings" in refused.value.message
    assert SECRET not in refused.value.message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000", "https://login.example/"]
)
def test_plain_http_is_for_this_machine_alone(url: str) -> None:
    assert declared_oauth({**GOOD, "issuer": url}).issuer == url


def test_the_public_address_is_the_audience_unless_one_is_given() -> None:
    key = {"secret_key": "k" * 32, "public_url": "https://public.example"}
    made = Settings(oauth={"issuer": GOOD["issuer"]}, **key).oauth
    assert made is not None
    assert made.audiences == ("https://public.example",)


def test_the_environment(tmp_path: Path) -> None:
    (tmp_path / "clicket.toml").write_text(
        '[oauth]\nissuer = "https://login.example"\naudience = "https://a.example"\nintrospection = true\nclient_id = "me"\n'
    )
    environ = {
        "CLICKET_CONFIG": str(tmp_path / "clicket.toml"),
        "CLICKET_OAUTH_CLIENT_SECRET": SECRET,
        "CLICKET_OAUTH_AUDIENCE": "https://b.example, api",
        "CLICKET_OAUTH_SCOPES_MAP": "tools.read=read, tools.use=read+call",
        "CLICKET_OAUTH_LEEWAY": "5",
        "CLICKET_OAUTH_ALLOW_PRIVATE": "true",
    }
    settings = Settings.load(environ=environ)
    made = settings.oauth
    assert made is not None
    assert made.audiences == ("https://b.example", "api")
    assert made.scopes_map == {"tools.read": ("read",), "tools.use": ("read", "call")}
    assert (made.leeway, made.allow_private, made.client_secret) == (5.0, True, SECRET)
    assert "clicket.toml, CLICKET_OAUTH_CLIENT_SECRET" in settings.origins["oauth"]
    whole = Settings.load(environ={"CLICKET_OAUTH": '{"issuer": "https://x.example", "audience": "a"}'}).oauth
    assert whole is not None
    assert whole.issuer == "https://x.example"
    for environ, says in (
        ({"CLICKET_OAUTH_ISUER": "x"}, "Did you mean 'CLICKET_OAUTH_ISSUER'"),
        ({"CLICKET_OAUTH": "["}, "oauth"),
    ):
        with pytest.raises(UsageError, match=says):
            Settings.load(environ=environ)


@pytest.mark.parametrize("table", [ASKING, {**GOOD, "introspection": {"client_id": "me", "client_secret": SECRET}}])
def test_the_secret_is_shown_nowhere(table: dict[str, Any]) -> None:
    settings = Settings(oauth=table)
    assert SECRET not in repr(settings)
    assert HIDDEN in repr(settings.shown()["oauth"])
    assert settings.shown()["oauth"]["issuer"] == GOOD["issuer"]
    assert SECRET not in repr(settings.oauth)
    assert SECRET in settings.secrets()
    rebuild, arguments = settings.__reduce__()
    assert SECRET not in repr(arguments)
    assert rebuild(*arguments).oauth is None
