"""Ten thousand calls: the table stays fast, because only the visible rows are drawn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.browser.kit import Console, Server, expect, serving

_CALLS = 10_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("memory://", seed=_CALLS) as started:
        yield started


def test_ten_thousand_calls_are_scrolled_through(console: Console, server: Server) -> None:
    page = console.open("#/runs")
    rows = page.locator(".scroller [role=row]")
    expect(rows.first).to_be_visible()
    scroller = page.locator(".scroller")
    page.wait_for_function(
        f"""() => {{
            const scroller = document.querySelector(".scroller");
            scroller.scrollTop = scroller.scrollHeight;
            return Number(document.querySelector("[role=table]").getAttribute("aria-rowcount")) > {_CALLS};
        }}""",
    )
    scroller.evaluate("element => { element.scrollTop = element.scrollHeight }")
    expect(page.locator(f'.scroller [aria-rowindex="{_CALLS + 1}"]')).to_be_visible()
    assert rows.count() < 80
    # A new call does not move the rows that the user is reading.
    shown = page.locator(f'.scroller [aria-rowindex="{_CALLS + 1}"] .id span').get_attribute("title")
    server.call("echo", thread="new", wait=True)
    moved = page.locator(f'.scroller [aria-rowindex="{_CALLS + 2}"] .id span')
    expect(moved).to_have_attribute("title", shown or "")
    expect(moved).to_be_in_viewport()
