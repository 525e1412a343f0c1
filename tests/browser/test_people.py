"""What people do to calls that wait: approve with a grant, answer in the tool's place, approve as one of two, and never by accident."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route
from tests.browser.kit import Console, Server, expect, serving

_SECRETS = {name: f"secret-of-{name}-0123456789" for name in ("boss", "ann", "bob", "eve")}
_SCOPES = {"boss": "admin", "ann": "approve+read", "bob": "approve", "eve": "call+read"}
_KEYS = ", ".join(f"{name}:{scopes}:{_SECRETS[name]}" for name, scopes in _SCOPES.items())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("people")
    with serving(f"sqlite:///{folder / 'calls.db'}", keys=_KEYS) as started:
        started.http.headers["authorization"] = f"Bearer {_SECRETS['eve']}"
        yield started


def _as(server: Server, name: str, method: str, path: str, **more: Any) -> Any:
    answer = server.http.request(method, path, headers={"authorization": f"Bearer {_SECRETS[name]}"}, **more)
    assert answer.status_code < 300, answer.text
    return answer.json()


def test_an_approval_with_a_grant_lets_later_calls_run_until_it_is_revoked(console: Console, server: Server) -> None:
    server.call("pay", {"to": "shop", "cents": 500}, thread="granted", id="grant-1")
    page = console.open("#/inbox", key=_SECRETS["ann"])
    card = page.locator("article").filter(has_text="granted")
    card.get_by_label("Also let later calls run").check()
    card.get_by_label("Calls", exact=True).fill("0")
    expect(card.get_by_role("button", name="Approve, and grant")).to_be_disabled()
    card.get_by_label("Calls", exact=True).fill("2")
    card.get_by_label("For", exact=True).fill("30")
    card.get_by_label("Unit of time").select_option("minutes")
    card.get_by_label("Arguments", exact=True).select_option("numbers up to these, the rest the same")
    written = card.get_by_label("JSON Schema of the arguments")
    expect(written).to_have_value(re.compile("maximum"))  # the page is drawn again after the choice
    schema = json.loads(written.input_value())
    assert schema["properties"] == {"to": {"const": "shop"}, "cents": {"type": "number", "minimum": 0, "maximum": 500}}
    assert schema["additionalProperties"] is False
    card.get_by_role("button", name="Approve, and grant").click()
    expect(page.get_by_text("Approved, and granted")).to_be_visible()
    [grant] = _as(server, "ann", "GET", "/grants")["items"]
    assert (grant["uses"], grant["thread"], grant["arguments"]) == (2, "granted", schema)
    assert 1700 < grant["expires_at"] - grant["given_at"] <= 1800

    small = server.call("pay", {"to": "shop", "cents": 400}, thread="granted", id="grant-2", wait=True)
    assert small["output"] == "paid 400 to shop"
    server.call("pay", {"to": "shop", "cents": 900}, thread="granted", id="grant-3")  # above the grant: it asks
    page.get_by_role("link", name="Grants").click()
    granted = page.get_by_role("article", name="pay")
    expect(granted).to_contain_text("1 of 2 used")
    expect(granted).to_contain_text("by ann")
    granted.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(granted.locator(".badge")).to_have_text("revoked")
    expect(granted.get_by_role("button", name="Revoke")).to_have_count(0)
    server.call("pay", {"to": "shop", "cents": 1}, thread="granted", id="grant-4")
    for id in ("grant-3", "grant-4"):
        assert server.record(id, "granted")["waiting_for"] == "approval"
        _as(server, "ann", "POST", f"/calls/{id}/deny")

    page.goto(f"{server.url}/#/runs/grant-2?thread=granted")  # of another caller: not for this key
    console.expect_errors("404")
    expect(page.get_by_role("link", name="All runs")).to_be_visible()
    own = console.open("#/runs/grant-2?thread=granted", key=_SECRETS["eve"])
    expect(own.get_by_role("region", name="Decision")).to_contain_text("approved by ann")
    expect(own.get_by_role("region", name="Decision")).to_contain_text(grant["id"])
    own.get_by_role("link", name="Grants").click()
    expect(own.get_by_role("article", name="pay")).to_contain_text("revoked")
    expect(own.get_by_role("button", name="Revoke")).to_have_count(0)


def test_a_person_answers_in_the_tools_place(console: Console, server: Server) -> None:
    server.call("pay", {"to": "bank", "cents": 7}, thread="answered", id="answer-1")
    page = console.open("#/inbox", key=_SECRETS["bob"])
    card = page.locator("article").filter(has_text="answered")
    card.get_by_label("Answer in the tool's place").check()
    card.get_by_label("Result (JSON)").fill("paid by hand")
    card.get_by_role("button", name="Answer", exact=True).click()
    expect(card.locator(".field.wrong")).to_contain_text("JSON")
    card.get_by_label("Result (JSON)").fill('"paid by hand"')
    card.get_by_label("Reason").fill("the bank was closed")
    card.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    own = console.open("#/runs/answer-1?thread=answered", key=_SECRETS["eve"])
    decision = own.get_by_role("region", name="Decision")
    expect(decision).to_contain_text("answered by bob")
    expect(decision).to_contain_text("the bank was closed")
    expect(decision).to_contain_text("the tool did not run")
    expect(own.locator("header .badge").nth(1)).to_have_text("answered by a person")
    own.get_by_role("tab", name="Result").click()
    expect(own.get_by_role("region", name="Result")).to_contain_text("paid by hand")


def test_one_approval_of_two_is_not_the_last(console: Console, server: Server) -> None:
    server.call("wire", {"to": "bank", "cents": 9}, thread="two", id="two-1")
    watched = console.open("#/runs/two-1?thread=two", key=_SECRETS["eve"])
    expect(watched.locator("header .badge").first).to_have_text("needs approval")
    first = console.open("#/inbox", key=_SECRETS["ann"])
    card = first.locator("article").filter(has_text="two")
    expect(card).to_contain_text("0 of 2 approvals")
    expect(card.get_by_label("cents")).to_have_count(0)  # all approvers see the same arguments
    expect(card.get_by_label("Also let later calls run")).to_have_count(0)
    card.get_by_label("Reason").fill("I asked them")
    card.get_by_role("button", name="Approve").click()
    expect(first.get_by_text("1 more person must approve, too.")).to_be_visible()
    expect(card).to_contain_text("You have approved this call.")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    expect(card.get_by_role("button", name="Deny")).to_be_visible()
    # The watcher's page has folded the event itself: the call still waits.
    watched.get_by_role("tab", name="Events").click()
    expect(watched.locator("table.events")).to_contain_text("approval_given")
    expect(watched.locator("header .badge").first).to_have_text("needs approval")
    expect(watched.locator(".waterfall")).to_contain_text("waiting")
    runs = console.open("#/runs?thread=two", key=_SECRETS["boss"])
    expect(runs.locator(".scroller [role=row]")).to_contain_text("1/2")

    second = console.open("#/inbox", key=_SECRETS["bob"])
    card = second.locator("article").filter(has_text="two")
    expect(card).to_contain_text("1 of 2 approvals")
    expect(card).to_contain_text("ann")
    expect(card).to_contain_text("I asked them")
    card.get_by_role("button", name="Approve").click()
    expect(second.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(watched.locator("header .badge").first).to_have_text("completed")
    expect(watched.get_by_role("region", name="Decision")).to_contain_text("2 of 2 approvals")


def test_the_question_of_a_tool_is_answered_with_its_form_or_declined(console: Console, server: Server) -> None:
    console.expect_errors("422")  # an answer that does not fit
    server.call("order", thread="asked", id="asked-1")
    page = console.open("#/inbox", key=_SECRETS["ann"])
    card = page.locator("article").filter(has_text="Which size?")
    expect(card).to_contain_text("the shop asks:")
    expect(card.get_by_label("Also let later calls run")).to_have_count(0)
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    card.get_by_role("button", name="Answer").click()
    expect(card).to_contain_text("required")
    card.get_by_label("size").fill("4")
    card.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Answered. The tool goes on.")).to_be_visible()
    expect(card).to_have_count(0)
    server.call("order", thread="asked", id="asked-2")
    card.get_by_role("button", name="Decline").click()
    expect(page.get_by_text("Declined. The tool goes on without an answer.")).to_be_visible()
    outputs = [server.call("order", thread="asked", id=id, wait=True)["output"] for id in ("asked-1", "asked-2")]
    assert outputs == ["accept {'size': 4}", "decline None"]


def test_a_call_that_changed_meanwhile_is_not_approved_by_accident(console: Console, server: Server) -> None:
    server.call("pay", {"to": "bank", "cents": 3}, thread="changed", id="changed-1")
    page = console.open("#/inbox", key=_SECRETS["boss"])
    stale = [True]

    def older(route: Route) -> None:
        """The page saw an earlier question."""
        answer = route.fetch()
        body = answer.json()
        if stale:
            body["approval"]["hash"] = "0" * 64
        route.fulfill(response=answer, json=body)

    page.route("**/calls/changed-1?**", older)
    page.reload()
    card = page.locator("article").filter(has_text="changed")
    expect(card.get_by_label("cents")).to_be_visible()
    expect(page.locator(".connection")).to_have_text("live")  # the page asks for nothing more
    console.expect_errors("409")
    stale.clear()
    card.get_by_role("button", name="Approve").click()
    expect(card.get_by_role("alert")).to_contain_text("Nothing was decided.")
    expect(card.get_by_role("alert")).to_contain_text("waits for another decision than the one that was seen")
    assert server.record("changed-1", "changed")["waiting_for"] == "approval"
    card.get_by_role("button", name="Deny").click()  # now it was seen
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


def test_the_caller_is_not_offered_to_approve_its_own_call(console: Console, server: Server) -> None:
    made = server.http.post(
        "/calls", json={"tool": "pay", "arguments": {"to": "me", "cents": 1}, "thread": "own", "id": "own-1"},
        headers={"authorization": f"Bearer {_SECRETS['boss']}"},
    )  # fmt: skip
    assert made.status_code == 202
    page = console.open("#/inbox", key=_SECRETS["boss"])
    card = page.locator("article").filter(has_text="own")
    expect(card).to_contain_text("You made this call, so another person must approve it.")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    expect(card.get_by_label("Answer in the tool's place")).to_have_count(0)
    card.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("boss", ["Runs", "Tools", "Threads", "Overview", "Schedules", "Spend", "Grants", "Notices", "Evaluations"]),
        ("eve", ["Runs", "Tools", "Threads", "Overview", "Schedules", "Spend", "Grants"]),
        ("bob", ["Action required", "Grants"]),
    ],
)
def test_a_key_is_offered_its_screens_only(console: Console, server: Server, name: str, shown: list[str]) -> None:
    page = console.open("", key=_SECRETS[name])
    expect(page.get_by_role("navigation").locator("li")).to_have_text(shown)
