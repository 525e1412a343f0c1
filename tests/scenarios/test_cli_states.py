"""`clicket states` and `clicket reset`: the states of tools in a thread, without claiming any call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

TOOLS = '''
from clicket import tool

@tool
async def base() -> str:
    """The first step."""
    return "base"

@tool(depends_on="base")
async def second() -> str:
    """The second step."""
    return "second"

@tool(max_retries=0)
async def bad() -> None:
    """Fails."""
    raise ValueError("boom")
'''


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "steps.py").write_text(TOOLS)
    made = Place(tmp_path, sqlite_url(tmp_path), "steps")
    try:
        yield made
    finally:
        made.close()


def test_before_anything_was_called(place: Place) -> None:
    output = place.ask("states", "t1")
    assert {tool["name"]: tool["available"] for tool in output["tools"]} == {"base": True, "second": False, "bad": True}
    assert not (place.folder / "calls.db").exists()  # reading does not create a store


def test_failures_are_seen_and_reset(place: Place) -> None:
    for _ in range(3):
        assert place.inside("call", "bad", "--thread", "t1").returncode == 1
    shown = place.inside("states", "t1")
    assert "failed" in shown.stdout
    assert "3 failures in a row" in shown.stdout
    assert "[failed: bad]" in shown.stderr
    refused = place.inside("call", "bad", "--thread", "t1")
    assert "switched off" in refused.stderr or "is failed" in refused.stderr
    assert place.ask("reset", "t1", "bad") == {"thread": "t1", "reset": ["bad"]}
    assert place.ask("reset", "t1") == {"thread": "t1", "reset": []}
    assert [entry["what"] for entry in place.ask("audit")["items"]] == ["hub.status_set"]


def test_reset_needs_no_tools(place: Place) -> None:
    for _ in range(3):
        place.inside("call", "bad", "--thread", "t1")
    refused = place.inside("call", "bad", "--thread", "t1")
    assert "clicket reset t1 bad" in " ".join(refused.stderr.split())
    stranger = Place(place.folder, sqlite_url(place.folder), "")
    assert stranger.ask("reset", "t1", "bad") == {"thread": "t1", "reset": ["bad"]}
    unknown = stranger.inside("reset", "t1", "bed")
    assert (unknown.returncode, "Did you mean 'bad'" in unknown.stderr) == (2, True)
    assert "boom" in place.inside("call", "bad", "--thread", "t1").stderr


def test_taken_out_by_hand_and_the_text_for_a_model(place: Place) -> None:
    place.inside("call", "base", "--thread", "t1")
    done = place.ask("states", "t1", "--set", "base=maintenance", "--reason", "moving house")
    assert next(tool for tool in done["tools"] if tool["name"] == "base")["reason"] == "moving house"
    text = place.inside("states", "t1", "--prompt").stdout
    assert "- second: The second step." in text
    assert "- base: moving house." in text


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("reset", "t1", "bas"), 2, "Did you mean 'base'"),
        (("states", "t1", "--set", "base=gone"), 2, "not a status of a tool"),
        (("states", "t1", "--set", "base"), 2, "mail=maintenance"),
    ],
)
def test_mistakes(place: Place, arguments: tuple[str, ...], code: int, reason: str) -> None:
    place.inside("call", "base")
    done = place.inside(*arguments)
    assert (done.returncode, reason in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
