"""Keys: the page does not offer what its key may not do, and closes when the key is revoked. The server may be killed
under an open page."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.kit import Console, Pages, Server, expect, serving
from tests.kit.children import environment
from tests.kit.forks import FORKED

_SECRETS = {name: f"secret-of-{name}-0123456789" for name in ("admin", "reader", "decider")}
_KEYS = f"boss:admin:{_SECRETS['admin']}, eyes:read:{_SECRETS['reader']}, ann:approve:{_SECRETS['decider']}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("keys")
    with serving(f"sqlite:///{folder / 'calls.db'}", keys=_KEYS) as started:
        started.http.headers["authorization"] = f"Bearer {_SECRETS['admin']}"
        yield started


def test_a_wrong_key_is_refused_and_the_right_one_opens_the_page(console: Console, server: Server) -> None:
    console.expect_errors("401")
    page = console.open("#/runs")
    page.get_by_label("API key").fill("ck_wrong_key")
    page.get_by_role("button", name="Open the console").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    page.get_by_label("API key").fill(_SECRETS["admin"])
    page.get_by_role("button", name="Open the console").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page.locator(".connection")).to_have_text("live")
    assert _SECRETS["admin"] not in page.url
    stored = page.evaluate("({session: sessionStorage.getItem('clicket.key'), local: JSON.stringify(localStorage)})")
    assert stored["session"] == _SECRETS["admin"]
    assert _SECRETS["admin"] not in stored["local"]
    page.reload()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.get_by_role("button", name="Forget the key").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_page_that_is_used_again_holds_nothing_of_the_test_before(pages: Pages, server: Server) -> None:
    """The tests of this folder take their pages from these."""
    first = Console(pages, server.url)
    page = first.open("#/runs", width=400, timezone_id="Asia/Tokyo")
    page.evaluate("localStorage.a = 'b'; sessionStorage.a = 'b'; document.cookie = 'a=b'")
    page.route("**/*", lambda route: route.abort())
    first.expect_errors("401")
    first.check()
    second = Console(pages, server.url)
    again = second.open("#/runs", timezone_id="Asia/Tokyo")
    left = again.evaluate("[localStorage.a, sessionStorage.a, document.cookie, innerWidth]")
    assert (again, left) == (page, [None, None, "", 1280])
    page.evaluate("console.error('logged')")
    second.expect_errors("401")
    with pytest.raises(AssertionError):
        second.check()
    assert ("logged" in second.problems, "logged" in first.problems) == (True, False)


def test_a_key_that_reads_is_offered_no_action(console: Console, server: Server) -> None:
    page = console.open("#/runs", key=_SECRETS["reader"])
    expect(page.get_by_text("No calls yet")).to_be_visible()
    page.goto(f"{server.url}/#/tools/echo")
    expect(page.get_by_role("tab", name="Schema")).to_be_visible()
    expect(page.get_by_role("tab", name="Try it")).to_have_count(0)
    page.goto(f"{server.url}/#/threads/x")
    expect(page.get_by_role("heading", name="x", exact=True)).to_be_visible()
    expect(page.get_by_label("Write to the agent")).to_have_count(0)


def test_a_key_that_approves_sees_only_what_waits(console: Console, server: Server) -> None:
    server.call("pay", {"to": "ann", "cents": 1}, thread="secret", id="pay-9")
    page = console.open("", key=_SECRETS["decider"])
    expect(page.get_by_role("navigation").get_by_role("link")).to_contain_text(["clicket", "Action required"])
    card = page.locator("article").filter(has_text="secret")
    card.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert server.record("pay-9", "secret")["error"]["code"] == "approval_denied"


def _keys(store: str, *command: str) -> dict[str, Any]:
    program = [sys.executable, *FORKED, "-m", "clicket", "keys", *command, "--json"]
    done = subprocess.run(program, env=environment(CLICKET_STORE=store), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_key_that_is_revoked_closes_the_open_page(console: Console, server: Server) -> None:
    console.expect_errors("401")
    made = _keys(server.store, "create", "--name", "brief", "--scopes", "read")
    page = console.open("#/runs", key=made["key"])
    expect(page.locator(".connection")).to_have_text("live")
    _keys(server.store, "revoke", made["id"])
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_page_survives_a_kill_of_its_server(pages: Pages, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'calls.db'}"
    first = Server(store)
    console = Console(pages, first.url)
    console.expect_errors("ERR_|Failed to load resource")
    try:
        first.call("effect", thread="lost", id="lost-1")
        page = console.open("#/runs")
        expect(page.locator(".scroller .badge")).to_have_text("running")
        first.stop(signal.SIGKILL)
        expect(page.locator(".connection")).to_have_text("reconnecting")
        with serving(store, port=first.port):
            expect(page.locator(".connection")).to_have_text("live")
            # The stream could not resume: the page loads the list again, and the inbox with it.
            expect(page.locator(".scroller .badge")).to_have_text("failed")
            page.get_by_role("link", name="Action required").click()
            card = page.locator("article").filter(has_text="lost")
            expect(card).to_contain_text("Idempotency key")
            expect(card).to_contain_text("effect")
            console.check()
    finally:
        if first.process.poll() is None:
            first.stop(signal.SIGKILL)
