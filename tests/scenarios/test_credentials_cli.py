"""`clicket credentials`: a secret comes from stdin, never from the command line, and nothing prints it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.kit.waiting import PATIENCE
from tests.scenarios.cli_kit import PROGRAM, Place
from tests.scenarios.kit import sqlite_url

KEY = "the key of the command line of credentials"


def a_place(folder: Path, **more: str) -> Place:
    return Place(folder, sqlite_url(folder), "", CLICKET_SECRET_KEY=KEY, **more)


def piped(place: Place, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=place.folder, env=place.environment, input=text, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip


def test_put_list_and_revoke(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    assert "no credentials" in place.inside("credentials").stderr
    done = piped(place, "my-s3cret-token\n", "credentials", "put", "github", "--caller", "ann", "--expires", "90d")
    assert done.returncode == 0, done.stderr
    listed = place.ask("credentials", "list")["items"]
    assert [(each["caller"], each["provider"], each["status"]) for each in listed] == [("ann", "github", "ready")]
    table = place.inside("credentials")
    assert "github" in table.stdout
    assert place.ask("credentials", "list", "--caller", "bob") == {"items": []}
    wrong = piped(place, "two words", "credentials", "put", "github")
    assert wrong.returncode == 2
    assert "two words" not in wrong.stderr
    assert place.inside("credentials", "revoke", "github").returncode != 0
    assert (
        json.loads(place.inside("--json", "credentials", "revoke", "github", "--caller", "ann").stdout)["provider"]
        == "github"
    )
    assert place.ask("credentials", "list") == {"items": []}
    said = done.stdout + done.stderr + table.stdout + place.inside("audit").stdout
    assert "my-s3cret-token" not in said
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"my-s3cret-token" not in path.read_bytes()


def test_a_secret_is_no_argument(tmp_path: Path) -> None:
    done = a_place(tmp_path).inside("credentials", "put", "github", "my-s3cret-token")
    assert done.returncode == 2


def test_a_link_needs_the_address_of_a_server(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    refused = place.inside("credentials", "link", "github")
    assert refused.returncode == 2
    assert "public_url" in refused.stderr
    made = place.ask("credentials", "link", "github", "--caller", "ann", CLICKET_PUBLIC_URL="https://tools.example")
    assert made["url"].startswith("https://tools.example/connect/start/ckc_")
    plain = place.inside("credentials", "link", "github", CLICKET_PUBLIC_URL="https://tools.example")
    assert "https://tools.example/connect/start/ckc_" in plain.stdout
