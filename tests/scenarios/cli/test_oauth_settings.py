"""What commands say about `[oauth]`: `config` shows it without its secret, `doctor` asks the issuer, `serve` names it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.issuer import issuing
from tests.scenarios.cli.commands import Run

from clicket.cli.doctor_checks import oauth_check
from clicket.runtime.settings import Settings

SECRET = "the-secret-that-is-shown-nowhere"
FILE = """
[oauth]
issuer = "https://login.example"
audience = "https://tools.example"
introspection = true
client_id = "clicket"
scopes_map = {"tools.use" = ["read", "call"]}
"""


def test_config_shows_it_without_its_secret(inside: Run, folder: Path) -> None:
    (folder / "clicket.toml").write_text(FILE)
    shown = inside("config", CLICKET_OAUTH_CLIENT_SECRET=SECRET)
    assert "https://login.example" in shown.stdout
    assert "(hidden)" in shown.stdout
    found = json.loads(inside("config", "--json", CLICKET_OAUTH_CLIENT_SECRET=SECRET).stdout)["oauth"]
    assert found["value"]["client_secret"] == "(hidden)"
    assert found["value"]["scopes_map"] == {"tools.use": ["read", "call"]}
    assert found["origin"] == "clicket.toml, CLICKET_OAUTH_CLIENT_SECRET"
    assert SECRET not in shown.stdout


def test_what_is_wrong_with_it_is_said_without_its_secret(inside: Run, folder: Path) -> None:
    (folder / "clicket.toml").write_text(FILE.replace("https://login", "http://login"))
    done = inside("config", CLICKET_OAUTH_CLIENT_SECRET=SECRET)
    assert done.returncode == 2
    assert "issuer must begin with https://" in done.stderr.replace("\n", " ")
    assert SECRET not in done.stdout + done.stderr


async def test_doctor_asks_the_issuer() -> None:
    async with issuing() as issuer:
        good = await oauth_check(Settings(oauth=issuer.settings()))
        assert good.verdict == "ok"
        assert "1 usable keys" in good.found
        assert "t.call → call" in good.found
        asked = await oauth_check(Settings(oauth=issuer.introspected()))
        assert f"introspection at {issuer.url}/introspect" in asked.found
        issuer.keys = {}
        none = await oauth_check(Settings(oauth=issuer.settings()))
        assert (none.verdict, "no key that can be used" in none.found) == ("warn", True)
        issuer.behave = issuer.down
        assert "answered 500" in (await oauth_check(Settings(oauth=issuer.settings()))).found
