"""Commands show settings and records without secrets."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.security.secrets_kit import Canary, assert_clean, assert_folder_clean

from clicket.cli import main

KEY = "the key that nobody may read"
HOOK = {"url": "https://example.org/hook/hunter2hunter2", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}


def output_of(*arguments: str) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="utf-8") as out, redirect_stdout(out), redirect_stderr(out):
        main(list(arguments))
        out.flush()
        return raw.getvalue().decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLICKET_SECRET_KEY", KEY)
    monkeypatch.setenv("CLICKET_WEBHOOKS", json.dumps([HOOK]))
    return tmp_path


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_config_does_not_show_keys(folder: Path, how: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    shown = output_of("config", *how)
    assert "hunter2" not in shown
    assert "secret_key" in shown
    assert "CLICKET_SECRET_KEY" in shown  # where it comes from
    assert KEY not in shown
    assert HOOK["secret"] not in shown
    assert "(hidden)" in shown


def test_a_wrong_key_is_complained_about_without_being_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKET_SECRET_KEY", "tooshort")
    shown = output_of("call", "plain", "{}", "--tools", "tests.security.secrets_kit:TOOLS")
    assert "16 characters" in shown
    assert "tooshort" not in shown


def test_what_a_call_is_shown_as(folder: Path) -> None:
    canary = Canary()
    given = f'{{"name": "{canary.name}", "header": "{canary.token}"}}'
    shown = output_of("call", "plain", given, "--tools", "tests.security.secrets_kit:TOOLS", "--json")
    assert canary.name in shown
    for command in (("ps", "--all"), ("ps", "--all", "--json")):
        shown += output_of(*command)
    assert_clean(canary, shown)
    assert_folder_clean(canary, folder)
