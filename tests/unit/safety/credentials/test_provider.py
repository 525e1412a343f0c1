"""Providers as the settings declare them: what is wrong is refused, and no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import Settings
from clicket.errors import UsageError
from clicket.safety.credentials import Provider, declared_providers
from clicket.safety.credentials.provider import is_confidential

GOOD = {
    "name": "bank", "kind": "oauth", "authorize_url": "https://bank.example/a", "token_url": "https://bank.example/t", "client_id": "me",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "Bank"}, "not a name of a provider"),
        ({"name": "../x"}, "not a name of a provider"),
        ({"kind": "saml"}, "kind"),
        ({"clientid": "x"}, "Did you mean 'client_id'"),
        ({"token_url": "http://bank.example/t"}, "token_url must be an address"),
        ({"token_url": "https://user:pw@bank.example/t"}, "token_url must be an address"),
        ({"authorize_url": "https://bank.example/a#x"}, "authorize_url must be an address"),
        ({"authorize_url": "https://bank.example;script-src"}, "authorize_url must be an address"),
        ({"authorize_url": "https://bänk.example/a"}, "authorize_url must be an address"),
        ({"token_url": ""}, "needs authorize_url and token_url"),
        ({"client_id": ""}, "needs a client_id"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 60}, "timeout"),
        ({"scopes": "read"}, "scopes"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        declared_providers([{"name": "first"}, {**GOOD, "client_secret": "hush-hush", **changed}], "clicket.toml")
    assert "number 2" in refused.value.message
    assert "hush-hush" not in refused.value.message


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two have the name 'bank'"):
        declared_providers([GOOD, GOOD])


@pytest.mark.parametrize("where", [{"issuer": "https://bank.example"}, {"mcp": "https://bank.example/mcp"}])
def test_an_issuer_or_an_mcp_server_is_enough(where: dict[str, str]) -> None:
    (made,) = declared_providers([{"name": "bank", "kind": "oauth", **where}])
    assert made.client_id == ""


def test_settings_check_providers_and_never_show_them() -> None:
    settings = Settings(providers=({**GOOD, "client_secret": "hush-hush"},))
    assert "hush-hush" not in repr(settings)
    assert "hush-hush" in settings.secrets()
    assert settings.providers == (Provider(**GOOD, client_secret="hush-hush"),)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="number 1"):
        Settings(providers=({"name": "!"},))
    from_text = Settings.load(environ={"CLICKET_PROVIDERS": '[{"name": "github"}]'}, file=None)
    assert from_text.providers == (Provider(name="github"),)
    with pytest.raises(UsageError, match="not a list in JSON"):
        Settings.load(environ={"CLICKET_PROVIDERS": "{}"})


@pytest.mark.parametrize(
    ("url", "private", "fits"),
    [
        ("https://bank.example/t", False, True),
        ("http://bank.example/t", False, False),
        ("http://127.0.0.1:80/t", True, True),
        ("https://bank.example:99999/t", False, False),
        ("ftp://bank.example/t", True, False),
        ("https:///t", True, False),
        ("https://a b/t", True, False),
        ("https://[::1/t", True, False),
    ],
)
def test_secrets_go_over_https(url: str, private: bool, fits: bool) -> None:
    assert is_confidential(url, allow_private=private) is fits


def test_an_mcp_server_does_not_choose_where_a_client_secret_goes() -> None:
    given = {
        "name": "x",
        "kind": "oauth",
        "mcp": "https://mcp.example",
        "client_id": "me",
        "client_secret": "hush-hush",
    }
    with pytest.raises(UsageError, match="issuer or token_url") as refused:
        declared_providers([given])
    assert "hush" not in refused.value.message
    for more in ({"issuer": "https://as.example"}, {"token_url": "https://as.example/t"}, {"client_secret": ""}):
        declared_providers([{**given, **more}])
