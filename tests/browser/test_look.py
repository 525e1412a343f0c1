"""Every screen in every form: themes, languages, widths; and axe, which checks accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tests.browser.evaluations import keep_evaluations
from tests.browser.kit import Console, Server, expect, serving

_AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
_SCREENS = {
    "runs": "#/runs",
    "run": "#/runs/look-1?thread=look",
    "failed": "#/runs/look-2?thread=look",
    "inbox": "#/inbox",
    "tools": "#/tools?thread=look",
    "tool": "#/tools/pay?thread=look",
    "threads": "#/threads/look-chat",
    "overview": "#/overview",
    "asks two": "#/runs/look-4?thread=look",
    "outside": "#/runs/look-5?thread=look",
    "checked": "#/runs/look-6?thread=look",
    "schedules": "#/schedules",
    "spend": "#/spend?by=thread",
    "grants": "#/grants",
    "notices": "#/notices",
    "evals": "#/evals",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("look")
    store = f"sqlite:///{folder / 'calls.db'}"
    with serving(store) as started:
        keep_evaluations(store)
        started.call("unsteady", thread="look", id="look-1", wait=True)
        started.call("broken", thread="look", id="look-2", wait=True)
        started.call("broken", thread="look", wait=True)
        started.call("pay", {"to": "ann", "cents": 5}, thread="look", id="look-3")
        started.call("wire", {"to": "ann", "cents": 5}, thread="look", id="look-4")
        started.call("render", {"token_file": str(folder / "token")}, thread="look", id="look-5")
        started.call("charge_checked", {"found": False}, thread="look", id="look-6", wait=True)
        started.call("lookup", {"company": "ACME"}, thread="look", wait=True)
        started.call("pay", {"to": "bob", "cents": 7}, thread="look-granted", id="look-7")
        started.http.post(
            "/calls/look-7/approve", json={"grant": {"uses": 3, "seconds": 600, "arguments": {"type": "object"}}}
        )
        started.http.put("/schedules/nightly", json={"cron": "0 2 * * *", "tool": "echo", "timezone": "Asia/Shanghai"})
        started.http.put("/schedules/paused", json={"cron": "* * * * *", "tool": "echo"})
        started.http.post("/schedules/paused/pause")
        started.http.post("/agents/look-chat/messages", json={"message": "hello", "agent": "helper", "wait": True})
        yield started


def _settled(page: Page) -> None:
    expect(page.locator("main h1:visible").first).to_be_visible()
    page.wait_for_function("!document.body.innerText.includes('Loading')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(console: Console, theme: Any) -> None:
    page = console.open("#/runs", color_scheme=theme, reduced_motion="reduce")
    page.evaluate(_AXE)
    rules = {} if theme == "light" else {"runOnly": ["color-contrast"]}  # all that colours change
    found = []
    for name, path in _SCREENS.items():
        page.evaluate("path => { location.hash = path.slice(1) }", path)
        _settled(page)
        page.wait_for_timeout(250)
        result = page.evaluate("rules => axe.run({ resultTypes: ['violations'], ...rules })", rules)
        found += [
            f"{name}: {each['id']} {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]
    assert found == []
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_no_screen_scrolls_sideways_at_400_pixels(console: Console) -> None:
    page = console.open("#/runs", width=400, height=800)
    for path in _SCREENS.values():
        page.goto(f"{console.url}/{path}")
        _settled(page)
        assert page.evaluate("document.documentElement.scrollWidth <= 400"), path
        assert page.evaluate(
            "document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth"
        ), path


def test_a_wall_of_4k(console: Console) -> None:
    page = console.open("#/runs/look-1?thread=look", width=3840, height=2160)
    _settled(page)
    expect(page.locator(".waterfall")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_in_chinese(console: Console) -> None:
    page = console.open("#/runs", locale="zh-CN")
    expect(page.get_by_role("heading", name="调用")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    row = page.get_by_role("row").filter(has_text="unsteady")
    expect(row).to_contain_text("已完成")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="时间线")).to_be_visible()
    page.get_by_role("button", name="切换到英文").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_the_theme_is_chosen_and_remembered(console: Console) -> None:
    page = console.open("#/runs", color_scheme="light")
    background = (
        "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.documentElement).backgroundColor"
    )
    light = page.evaluate(background)
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(background) != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_page_is_usable_by_keyboard_alone(console: Console) -> None:
    page = console.open("#/inbox")
    _settled(page)
    expect(page.get_by_label("cents")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    reached = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.innerText || document.activeElement.labels?.[0]?.innerText || ''")
        )
    assert {"Approve", "Deny", "Answer in the tool's place"} <= {text.strip() for text in reached}


def test_the_new_screens_by_keys_and_in_chinese(console: Console) -> None:
    page = console.open("#/runs", locale="zh-CN")
    _settled(page)
    for key, title in (("6", "计划"), ("7", "花费"), ("8", "授权"), ("9", "通知")):
        page.locator("main").focus()
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    page.goto(f"{console.url}/#/schedules")
    page.get_by_role("article", name="nightly").get_by_role("button", name="删除").press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("nightly")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("article", name="nightly")).to_contain_text("Asia/Shanghai")
