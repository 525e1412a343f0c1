"""Effects outside and over time: calls that end elsewhere, checks of outcomes, costs, waits, notices, spend and schedules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route
from tests.browser.console_server import HOSTILE
from tests.browser.kit import Console, Server, expect, serving
from tests.kit.waiting import eventually_sync

_SECRETS = {name: f"secret-of-{name}-0123456789" for name in ("admin", "reader")}
_KEYS = f"boss:admin:{_SECRETS['admin']}, eyes:read:{_SECRETS['reader']}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("effects")
    with serving(f"sqlite:///{folder / 'calls.db'}", keys=_KEYS) as started:
        started.http.headers["authorization"] = f"Bearer {_SECRETS['admin']}"
        yield started


def test_a_call_that_ends_elsewhere(console: Console, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    server.call("render", {"token_file": str(file)}, thread="outside", id="outside-1")
    page = console.open("#/runs/outside-1?thread=outside", key=_SECRETS["admin"])
    view = page.get_by_role("region", name="Work outside")
    expect(view).to_contain_text("waits for its result from outside")
    expect(view).to_contain_text("render farm")
    expect(view.locator(".countdown")).to_contain_text("left")
    expect(view).to_contain_text("none yet")
    expect(page.locator("header .badge").first).to_have_text("waits outside")
    token = file.read_text()
    progress = {"step": 1, "total": 4, "text": f"a quarter {HOSTILE}"}
    assert server.http.post(f"/external/{token}/heartbeat", json=progress).status_code == 200
    expect(view).to_contain_text("a quarter")
    expect(view).not_to_contain_text("none yet")
    expect(view.locator("progress")).to_have_attribute("value", "25")
    view.get_by_text("I have the token").click()
    console.expect_errors("404")
    view.get_by_label("Token", exact=True).fill("ckx_wrong")
    view.get_by_label("Why it failed").fill("no")
    view.get_by_role("button", name="Fail", exact=True).click()
    expect(page.locator('.toast[data-tone="bad"]')).to_be_visible()
    view.get_by_label("Token", exact=True).fill(token)
    view.get_by_label("Result (JSON)").fill('{"frames": 24}')
    view.get_by_role("button", name="Complete").click()
    expect(page.locator("header .badge").first).to_have_text("completed")
    expect(view).to_contain_text("The result came from outside.")
    page.get_by_role("tab", name="Result").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text('"frames": 24')
    assert token not in page.url
    assert token not in page.content()


def test_the_tries_of_a_tools_own_check(console: Console, server: Server) -> None:
    server.call("charge_checked", {"found": True}, thread="checked", id="checked-1", wait=True)
    server.call("charge_checked", {"found": False}, thread="checked", id="checked-2", wait=True)
    page = console.open("#/runs/checked-1?thread=checked", key=_SECRETS["admin"])
    rows = page.get_by_role("region", name="Check of the outcome").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("the check failed")
    expect(rows.nth(0)).to_contain_text("busy <img")
    expect(rows.nth(1)).to_contain_text("it happened")
    expect(page.locator("header .badge").first).to_have_text("completed")
    page.goto(f"{server.url}/#/runs/checked-2?thread=checked")
    expect(rows.nth(1)).to_contain_text("cannot tell")
    expect(rows.nth(1)).to_contain_text("no trace <img")
    expect(page.get_by_text("Did the effect happen?")).to_be_visible()
    assert page.evaluate("window.pwned") is None


def test_costs_and_calls_that_wait_for_their_time(console: Console, server: Server) -> None:
    server.call("lookup", {"company": "ACME"}, thread="costs", id="costs-1", wait=True)
    server.call("echo", thread="costs", id="later-1", not_before=time.time() + 7_200)
    page = console.open("#/runs/costs-1?thread=costs", key=_SECRETS["admin"])
    cost = page.locator("dt", has_text="Cost").locator("xpath=following-sibling::dd[1]")
    expect(cost).to_have_text("$0.75 · 1,200 tokens")
    page.goto(f"{server.url}/#/runs/later-1?thread=costs")
    expect(page.locator("header .badge").first).to_have_text("waits for its time")
    expect(page.locator("dt", has_text="Not before").locator("xpath=following-sibling::dd[1]")).to_contain_text(
        "in 2 hr"
    )
    expect(page.locator(".waterfall")).to_contain_text("waits for its time")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("header .badge").first).to_have_text("cancelled")


def test_the_spend_and_what_is_left_of_the_budgets(console: Console, server: Server) -> None:
    for thread in ("shop", HOSTILE):
        server.call("lookup", {"company": "ACME"}, thread=thread, wait=True)
    eventually_sync(lambda: server.http.get("/spend", params={"by": "thread"}).json()["total"]["usd"] >= 1.5)
    page = console.open("#/spend?by=thread", key=_SECRETS["admin"])
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text("$0.75")
    expect(row).to_contain_text("1,200")
    expect(row.locator("rect[data-tone]")).to_have_count(1)
    budget = page.locator(".budget").filter(has_text="in all")
    expect(budget).to_contain_text("of $3.00 spent")
    expect(budget).to_contain_text("warns")
    left = server.http.get("/spend/budgets").json()["items"]
    shown = next(each for each in left if each["scope"] == "all")["left_usd"]
    expect(budget).to_contain_text(f"${shown:.2f} left")
    page.get_by_role("combobox", name="By", exact=True).select_option("Day")
    expect(page.get_by_role("row").nth(1)).to_contain_text(time.strftime("%Y-%m-%d", time.gmtime()))
    assert "by=day" in page.url
    page.get_by_role("combobox", name="By", exact=True).select_option("Caller")
    expect(page.get_by_role("row").nth(1)).to_contain_text("boss")
    other = console.open("#/spend", key=_SECRETS["reader"])
    expect(other.get_by_text("Nothing was spent in this time.")).to_be_visible()
    expect(other.get_by_role("combobox", name="By", exact=True).locator("option")).not_to_contain_text(["Caller"])


def test_notices_are_listed_and_sent_again(console: Console, server: Server) -> None:
    server.call("charge", {"cents": 1}, thread="told", id="told-1", wait=True)
    page = console.open("#/notices", key=_SECRETS["admin"])
    good = page.locator("tbody tr").filter(has_text="team chat").first
    bad = page.locator("tbody tr").filter(has_text="<img src=x").first
    expect(good).to_contain_text("delivered")
    expect(bad).to_contain_text("failed")
    expect(bad).to_contain_text("it answered 500")
    bad.get_by_role("link").click()
    one = page.get_by_role("region", name="Notice")
    expect(one.locator("tbody tr")).to_have_count(2)
    expect(one.locator("tbody tr").first).to_contain_text("500")
    one.get_by_text("Payload").click()
    expect(one.get_by_role("region", name="Payload")).to_contain_text("told-1")
    one.get_by_role("button", name="Send again").click()
    expect(page.get_by_text("It will be sent again")).to_be_visible()
    expect(bad).to_contain_text("+1 again")
    expect(one.locator("tbody tr")).to_have_count(4)
    page.get_by_role("combobox", name="State").select_option("failed")
    expect(page.locator("tbody tr").filter(has_text="team chat")).to_have_count(0)
    one.get_by_role("link", name="told-1").click()
    expect(page.get_by_role("heading", name="charge")).to_be_visible()
    assert page.evaluate("window.pwned") is None


def test_schedules_are_paused_resumed_and_removed(console: Console, server: Server) -> None:
    made = {
        "cron": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "tool": "echo",
        "arguments": {"text": HOSTILE},
        "thread": "by night",
    }
    assert server.http.put("/schedules/nightly", json=made).status_code == 200
    page = console.open("#/schedules", key=_SECRETS["admin"])
    card = page.get_by_role("article", name="nightly")
    expect(card).to_contain_text("0 2 * * * Europe/Berlin")
    expect(card).to_contain_text("not yet")
    card.get_by_text("Next times, log and arguments").click()
    expect(card.locator(".times li")).to_have_count(5)
    expect(card.get_by_role("region", name="Arguments")).to_contain_text("<script>")
    card.get_by_role("button", name="Pause").click()
    expect(card.locator(".badge").first).to_have_text("paused")
    assert server.http.get("/schedules/nightly").json()["paused"] is True
    card.get_by_role("button", name="Resume").click()
    expect(card.locator(".badge").first).to_have_text("active")
    reader = console.open("#/schedules", key=_SECRETS["reader"])
    expect(reader.get_by_text("No schedules.")).to_be_visible()  # it has none of its own
    card.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No schedules.")).to_be_visible()
    assert page.evaluate("window.pwned") is None


def test_what_became_of_the_last_times_of_a_schedule(console: Console, server: Server) -> None:
    server.call("echo", thread="each minute", id="schedule:minutely:1", wait=True)
    made = {"cron": "0 0 1 1 *", "tool": "echo", "thread": "each minute"}
    assert server.http.put("/schedules/minutely", json=made).status_code == 200
    at = time.time() - 3_600

    def fired(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["items"][0] |= {
            "next_at": at, "fired": 1, "skipped": 1, "missed": 3,
            "log": [
                {"due": at - 300, "outcome": "missed", "at": at, "until": at - 120, "count": 3},
                {"due": at - 60, "outcome": "skipped", "at": at, "reason": f"the call before has not ended {HOSTILE}"},
                {"due": at, "outcome": "fired", "at": at, "late": 5.0, "call": "schedule:minutely:1"},
            ],
        }  # fmt: skip
        route.fulfill(response=answer, json=body)

    page = console.open("", key=_SECRETS["admin"])
    page.route("**/schedules", fired)
    page.goto(f"{server.url}/#/schedules")
    card = page.get_by_role("article", name="minutely")
    expect(card.locator(".badge").first).to_have_text("late")
    expect(card).to_contain_text("no process with the tool has fired it")
    expect(card).to_contain_text("1 fired, 1 skipped, 3 missed")
    card.get_by_text("Next times, log and arguments").click()
    expect(card.locator(".more .badge")).to_have_text(["fired", "skipped", "missed"])
    expect(card.locator(".more")).to_contain_text("has not ended <img")
    assert page.evaluate("window.pwned") is None
    card.get_by_role("link", name="call").first.click()
    expect(page.locator("header .badge").first).to_have_text("completed")
