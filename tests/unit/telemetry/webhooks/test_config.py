"""Endpoints in the settings: checked when they are read, and never shown."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.runtime.settings import Settings
from clicket.telemetry.webhooks.config import RETRY, endpoints_of

SECRET = "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode()
GOOD: dict[str, Any] = {"url": "https://hooks.example/T0/B1/token-in-the-path", "secret": SECRET}


def test_what_is_left_out_has_defaults() -> None:
    [endpoint] = endpoints_of([GOOD])
    assert "call.ended" in endpoint.events
    assert "budget.reached" in endpoint.events
    assert endpoint.retry == RETRY
    assert not endpoint.allow_private
    assert endpoint.link_allows == frozenset()
    assert endpoint.name.startswith("hooks.example-")
    assert "token" not in repr(endpoint)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "ftp://x"}, "http or https"),
        ({"url": "https://user:pass@x/"}, "must not hold a user"),
        ({"url": None}, "url must be a text"),
        ({"secret": "plain"}, "whsec_"),
        ({"secret": []}, "needs a secret"),
        ({"events": ["call.end"]}, "Did you mean 'call.ended'"),
        ({"events": "call.ended"}, "events must be a list"),
        ({"include": ["output"]}, "Known: arguments"),
        ({"retry": [0]}, "above 0"),
        ({"retry": 5}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"timeout": 61}, "at most 60"),
        ({"link": "yes"}, "true or false"),
        ({"link_allows": ["approve"]}, "Known: edit, respond"),
        ({"link_allows": "edit"}, "link_allows must be a list"),
        ({"secrets": "x"}, "unknown key 'secrets'"),
        ({"name": "x" * 101}, "1 to 100"),
    ],
)
def test_mistakes_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Settings(webhooks=({**GOOD, **wrong},))
    assert said in refused.value.message
    assert "number 1" in refused.value.message
    assert SECRET not in refused.value.message
    assert "token-in-the-path" not in refused.value.message


def test_two_of_one_name() -> None:
    with pytest.raises(UsageError, match="two have the name"):
        Settings(webhooks=(GOOD, GOOD))


def test_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "clicket.toml"
    file.write_text(f'[[webhooks]]\nurl = "{GOOD["url"]}"\nsecret = ["{SECRET}"]\nevents = ["call.unknown"]\n')
    settings = Settings.load(file=file, environ={})
    [endpoint] = settings.webhooks
    assert endpoint.events == {"call.unknown"}
    assert SECRET not in repr(settings)
    assert "token-in-the-path" not in repr(settings)
    assert {SECRET, GOOD["url"]} <= set(settings.secrets())
    [other] = Settings.load(environ={"CLICKET_WEBHOOKS": json.dumps([GOOD])}).webhooks
    assert other.url == GOOD["url"]
    with pytest.raises(UsageError):
        Settings.load(environ={"CLICKET_WEBHOOKS": "nonsense"})
