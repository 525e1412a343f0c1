"""Evaluations in the console: their runs, and a run as a grid of cases and agents."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from tests.browser.evaluations import CASES, keep_evaluations
from tests.browser.kit import Console, Server, expect, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = f"sqlite:///{tmp_path_factory.mktemp('evals') / 'calls.db'}"
    with serving(store) as started:
        keep_evaluations(store)
        started.http.post("/agents/look-chat/messages", json={"message": "hello", "agent": "helper", "wait": True})
        yield started


def test_a_run_with_failures_is_found_read_and_followed_to_its_thread(console: Console) -> None:
    page = console.open("#/runs")
    page.get_by_role("link", name="Evaluations").click()
    rows = page.get_by_role("row").filter(has_text="shop")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("bbbbbbbbbb")
    expect(rows.first).to_contain_text("20 of 24")
    expect(rows.last).to_contain_text("22 of 24")
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="order-2", exact=True))
    expect(row.locator(".badge")).to_have_text(["passed", "newly failed"])
    expect(row).to_contain_text('pay({"order":2}) is missing')
    names = page.get_by_role("rowheader")
    expect(names).to_have_count(len(CASES) + 1)
    expect(names.nth(9)).to_have_text("order-10")  # after order-9

    opener = row.get_by_role("link", name="Trial of order-2 with candidate")
    expect(opener).to_have_attribute("aria-expanded", "false")
    opener.focus()
    page.keyboard.press("Enter")
    trial = page.get_by_role("region", name="Trial of order-2 with candidate")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(trial).to_contain_text("Pay order 2.")
    step = trial.get_by_role("list", name="Tool calls in order").get_by_role("listitem")
    expect(step).to_have_count(1)
    expect(step).to_contain_text('{"order":999}')
    step.locator("summary").click()
    expect(step.get_by_role("region", name="Result")).to_contain_text("not_recorded")
    expect(trial.get_by_role("row").filter(has_text="calls_in_order")).to_contain_text("failed")
    page.reload()
    expect(trial).to_contain_text("Pay order 2.")
    trial.get_by_role("link", name="look-chat").click()
    expect(page.get_by_role("region", name="Conversation")).to_contain_text("hello")


def test_trials_are_filtered_by_their_outcome(console: Console) -> None:
    page = console.open("#/evals")
    page.get_by_role("row").filter(has_text="bbbbbbbbbb").get_by_role("link").click()
    page.get_by_label("Outcome").select_option("newly_failed")
    expect(page.get_by_role("rowheader")).to_have_text(["order-2", "order-7"])
    page.get_by_label("Outcome").select_option("newly_passed")
    expect(page.get_by_text("No trial has this outcome.")).to_be_visible()


def test_a_key_without_admin_has_no_evaluations(console: Console, server: Server) -> None:
    document = server.http.get("/openapi.json").json()
    assert "/evals" in document["paths"]
    page = console.open("#/runs")
    page.route("**/whoami", lambda route: route.fulfill(json={**server.http.get("/whoami").json(), "scopes": ["read"]}))
    page.reload()
    expect(page.get_by_role("link", name="Threads")).to_be_visible()
    expect(page.get_by_role("link", name="Evaluations")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_run_with_an_open_trial(console: Console, server: Server, theme: Any) -> None:
    run = server.http.get("/evals").json()["items"][0]["run"]
    page = console.open(f"#/evals/shop/{run}?case=order-2&agent=candidate", color_scheme=theme, reduced_motion="reduce")
    expect(page.get_by_role("region", name="Trial of order-2 with candidate")).to_contain_text("Pay order 2.")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth")
