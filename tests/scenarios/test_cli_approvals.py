"""`clicket approve`, `deny` and `audit`: decisions at a terminal on calls that wait in other processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

POLICY = {
    "rules": [
        {
            "verdict": "deny",
            "tools": ["pay"],
            "when": [{"path": "/amount", "op": ">", "value": 1000}],
            "reason": "too much",
        },
        {"verdict": "ask", "tools": ["pay"], "reason": "payments are looked at"},
    ]
}
TOOLS = '''
from clicket import tool

@tool
async def pay(amount: int, to: str = "ann") -> str:
    """Pays."""
    return f"paid {amount} to {to}"
'''


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "till.py").write_text(TOOLS)
    made = Place(
        tmp_path, sqlite_url(tmp_path), "till", CLICKET_POLICY=json.dumps(POLICY), USER="ann", LOGNAME="ann",
    )  # fmt: skip
    try:
        yield made
    finally:
        made.close()


def waits(place: Place) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = place.ask("approve")["calls"]
    return calls


def begin(place: Place, id: str, amount: int = 500) -> Any:
    """A call in its own process that waits for an approval."""
    command = place.start("call", "pay", f"amount={amount}", "--id", id, "--json")
    command.until(lambda: [call for call in waits(place) if call["id"] == id])
    return command


def test_list_approve_with_other_arguments_and_deny(place: Place) -> None:
    first, second = begin(place, "first"), begin(place, "second")
    listed = {call["id"]: call for call in waits(place)}
    assert listed["first"]["arguments"] == {"amount": 500}
    assert listed["first"]["approval"]["why"] == "payments are looked at"
    table = place.inside("approve").stdout
    assert "payments are looked at" in table
    assert '{"amount":500}' in table

    decided = place.ask(
        "approve", "fir", "--arguments", '{"amount": 5, "to": "bob"}', "--by", "Ada", "--reason", "less"
    )
    assert (decided["decided"], decided["id"]) == (True, "first")
    assert decided["approval"]["edited"] is True
    assert first.ended() == 0
    assert json.loads(first.out)["output"] == "paid 5 to bob"
    assert place.ask("show", "first")["arguments"] == {"amount": 5, "to": "bob"}
    drawn = place.inside("show", "first", "--events").stdout
    assert "approved by Ada" in drawn

    done = place.inside("deny", "second", "--reason", "no money")
    assert done.returncode == 0
    assert "second is denied by ann" in done.stderr
    assert second.ended() == 1
    assert json.loads(second.out)["error"]["message"].startswith("ann denied the call: no money")
    again = place.inside("approve", "second")
    assert again.returncode == 1
    assert "does not wait" in again.stderr
    assert "no call waits" in place.inside("deny").stderr

    entries = place.ask("audit")["items"]
    assert [(entry["who"], entry["what"]) for entry in entries] == [("ann", "call.denied"), ("Ada", "call.approved")]
    assert "call.approved" in place.inside("audit", "-n", "5").stdout


def test_arguments_are_checked_where_they_are_given(place: Place) -> None:
    waiting = begin(place, "p")
    (place.folder / "given.json").write_text('{"amount": 7}')
    for given, says in (
        ('{"amount": "x"}', "/amount"),
        ('{"amount": 5000}', "too much"),
        ("{", "JSON"),
    ):
        refused = place.inside("approve", "p", "--arguments", given)
        assert refused.returncode == 1, given
        assert says in refused.stderr
    missing = place.inside("approve", "p", "--arguments", "@nowhere.json")
    assert missing.returncode == 2
    assert "nowhere.json" in missing.stderr
    assert waits(place)
    assert place.inside("approve", "p", "--arguments", "@given.json").returncode == 0
    assert waiting.ended() == 0
    assert json.loads(waiting.out)["output"] == "paid 7 to ann"


def test_wrong_use_and_empty_stores(place: Place) -> None:
    assert place.ask("approve") == {"items": [], "calls": [], "cursor": None}
    assert place.ask("audit") == {"items": []}
    assert "audit log" in place.inside("audit").stderr
    assert place.inside("approve", "nobody").returncode == 2
    assert place.inside("approve", "--reason", "x").returncode == 2
    assert place.inside("deny", "--reason", "x").returncode == 2
    broken = place.inside("approve", CLICKET_POLICY='{"rules": [{"verdict": "aks"}]}')
    assert broken.returncode == 2
    assert "rules, number 1" in broken.stderr
    assert "CLICKET_POLICY" in broken.stderr


def test_the_configuration_shows_the_policy(place: Place) -> None:
    (place.folder / "clicket.toml").write_text('[[policy.rules]]\nverdict = "deny"\ntools = ["pay"]\n')
    del place.environment["CLICKET_POLICY"]
    shown = place.ask("config")["policy"]
    assert shown == {"value": {"rules": [{"verdict": "deny", "tools": ["pay"]}]}, "origin": "clicket.toml"}
    assert '"verdict":"deny"' in place.inside("config").stdout.replace("\n", "").replace(" ", "")
    refused = place.inside("call", "pay", "amount=1", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "permission_denied"


def test_grants_are_given_listed_and_revoked(place: Place) -> None:
    first = begin(place, "first")
    schema = '{"properties": {"amount": {"maximum": 600}}}'
    for wrong in (("--grant-arguments", "{"), ("--grant-arguments", '{"type": 5}'), ("--grant-seconds", "-1")):
        assert place.inside("approve", "first", *wrong).returncode == 2, wrong
    told = place.inside("approve", "first", "--grant-uses", "2", "--grant-seconds", "600", "--grant-arguments", schema)
    assert told.returncode == 0
    assert first.ended() == 0
    [grant] = place.ask("grants")["items"]
    assert grant["id"] in told.stderr
    assert (grant["uses"], grant["by"], grant["tool"], grant["state"]) == (2, "ann", "pay", "active")
    assert json.loads(place.inside("call", "pay", "amount=600", "--json").stdout)["output"] == "paid 600 to ann"
    table = place.inside("grants", "list").stdout
    assert "1/2" in table
    revoked = place.ask("grants", "revoke", grant["id"][:6], "--by", "Ada")
    assert (revoked["state"], revoked["revoked_by"], revoked["used"]) == ("revoked", "Ada", 1)
    assert place.ask("grants") == {"items": []}
    assert "no grant" in place.inside("grants").stderr
    assert [item["state"] for item in place.ask("grants", "list", "--all")["items"]] == ["revoked"]
    assert place.inside("grants", "revoke", "gr_none").returncode == 2
    assert [entry["what"] for entry in place.ask("audit")["items"]] == [
        "grant.revoked",
        "grant.used",
        "call.approved",
    ]


def test_a_person_answers_from_a_terminal(place: Place) -> None:
    first, second = begin(place, "first"), begin(place, "second")
    told = place.ask("respond", "fir", '{"receipt": 5}', "--by", "Ada")
    assert (told["decided"], told["approval"]["responded"]) == (True, True)
    assert first.ended() == 0
    assert json.loads(first.out)["output"] == {"receipt": 5}
    done = place.inside("respond", "second", "paid by hand", "--reason", "cash")
    assert "second is answered by ann" in done.stderr
    assert second.ended() == 0
    assert json.loads(second.out)["metadata"]["answered_by"] == "ann"
    assert place.inside("respond", "second", "1").returncode == 1
