"""The screens of calls: the table, one call, and its actions."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.kit import Console, Server, expect


def test_a_new_call_appears_and_ends_without_a_reload(console: Console, server: Server, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    page = console.open("#/runs?thread=live")
    expect(page.get_by_text("No call matches")).to_be_visible()
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".page-head")).to_contain_text("Ended calls are kept for ")
    server.call("slow", {"until": str(enough)}, thread="live", id="live-1")
    row = page.get_by_role("row").filter(has_text="slow")
    expect(row.locator(".badge")).to_have_text("streaming")
    expect(row).to_contain_text(re.compile("step [0-9]+"))
    enough.touch()
    expect(row.locator(".badge")).to_have_text("completed")


def test_filters_are_in_the_address_and_survive_a_reload(console: Console, server: Server) -> None:
    server.call("broken", thread="filters", wait=True)
    server.call("echo", thread="filters", wait=True)
    page = console.open("#/runs?thread=filters")
    rows = page.locator(".scroller [role=row]")
    expect(rows).to_have_count(2)
    page.get_by_role("combobox", name="State").select_option("failed")
    expect(rows).to_have_count(1)
    assert "state=failed" in page.url
    assert "thread=filters" in page.url
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("tool_error")
    page.get_by_role("button", name="Clear filters").click()
    expect(page).to_have_url(re.compile("#/runs$"))
    page.get_by_role("combobox", name="Error").select_option("tool_error")
    expect(rows.first).to_contain_text("tool_error")


def test_the_keyboard_moves_selects_opens_and_searches(console: Console, server: Server) -> None:
    for number in range(3):
        server.call("echo", {"count": number}, thread="keys", id=f"key-{number}", wait=True)
    page = console.open("#/runs?thread=keys")
    expect(page.locator(".scroller [role=row]")).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 selected")
    page.keyboard.press("/")
    search = page.locator(".search input")
    expect(search).to_be_focused()
    page.keyboard.type("key-2")
    page.keyboard.press("Enter")
    expect(page.locator(".scroller [role=row]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next or previous run")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="echo")).to_be_visible()
    assert "key-2" in page.url


def test_a_key_right_after_a_dialog_was_closed_is_not_lost(console: Console, server: Server) -> None:
    server.call("echo", thread="quick", id="quick-1", wait=True)
    page = console.open("#/runs?thread=quick")
    expect(page.locator(".scroller [role=row]")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate(
        """() => {
            document.querySelector("dialog").close();
            for (const key of ["j", "Enter"])
                document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        }"""
    )
    expect(page.get_by_role("heading", name="echo")).to_be_visible()


def test_a_key_right_after_a_screen_appeared_is_not_lost(console: Console) -> None:
    page = console.open("#/tools")
    expect(page.locator(".connection")).to_have_text("live")
    page.evaluate(
        """() => {
            new MutationObserver((_, observer) => {
                if (!document.querySelector(".search input")) return;
                observer.disconnect();
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }));
            }).observe(document.body, { childList: true, subtree: true });
            location.hash = "/runs";
        }"""
    )
    expect(page.locator(".search input")).to_be_focused()


def test_selected_calls_are_cancelled_together(console: Console, server: Server) -> None:
    for number in range(3):
        server.call("slow", thread="bulk", id=f"bulk-{number}")
    page = console.open("#/runs?thread=bulk&state=active")
    boxes = page.locator(".scroller input[type=checkbox]")
    expect(boxes).to_have_count(3)
    boxes.first.check()
    page.get_by_role("button", name="Select all that match").click()
    page.get_by_role("toolbar").get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("No call matches")).to_be_visible()
    assert {server.record(f"bulk-{n}", "bulk")["state"] for n in range(3)} == {"cancelled"}


def test_columns_are_remembered(console: Console, server: Server) -> None:
    server.call("echo", wait=True)
    page = console.open("#/runs")
    page.get_by_text("Columns").click()
    page.get_by_role("checkbox", name="Caller").check()
    expect(page.get_by_role("columnheader", name="Caller")).to_be_visible()
    page.reload()
    expect(page.get_by_role("columnheader", name="Caller")).to_be_visible()


def test_a_running_call_is_followed_and_cancelled(console: Console, server: Server) -> None:
    server.call("slow", thread="one", id="one-1")
    page = console.open("#/runs/one-1?thread=one")
    page.get_by_role("tab", name=re.compile("Output")).click()
    output = page.get_by_role("region", name="Output")
    expect(output).to_contain_text("line 3")
    expect(output).to_contain_text("line 8")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("header .badge").first).to_have_text("cancelled")
    expect(page.locator(".error-panel")).to_contain_text("cancelled in the console")
    assert server.record("one-1", "one")["state"] == "cancelled"


def test_the_waterfall_and_the_taken_path_of_a_retry(console: Console, server: Server) -> None:
    server.call("unsteady", thread="retry", id="retry-1", wait=True)
    page = console.open("#/runs/retry-1?thread=retry")
    lines = page.locator(".waterfall [role=rowheader]")
    expect(lines.last).to_have_text("persist")
    # A call that got its slot more than 2 ms after it was created shows that wait, too.
    assert [line for line in lines.all_text_contents() if line != "queue"] == [
        "find", "authorize", "validate", "attempt 1", "waits to retry", "attempt 2", "process", "persist"
    ]  # fmt: skip
    diagram = page.locator(".diagram")
    expect(diagram.locator('[data-taken="true"]')).to_have_count(5)
    expect(diagram.locator('[data-visited="true"]')).to_have_count(5)
    expect(diagram.locator('[data-current="true"]')).to_have_text("completed")
    page.get_by_role("tab", name=re.compile("Events")).click()
    expect(page.get_by_role("cell", name="attempt_started")).to_have_count(2)


def test_run_again_with_other_arguments(console: Console, server: Server) -> None:
    server.call("echo", {"text": "old"}, thread="again", id="again-1", wait=True)
    page = console.open("#/runs/again-1?thread=again")
    page.get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("text").fill("new")
    dialog.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("Again of")).to_be_visible()
    page.get_by_role("tab", name="Result").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text('"new"')


def test_an_error_shows_its_code_message_and_traceback(console: Console, server: Server) -> None:
    made = server.call("broken", thread="errors", wait=True)
    page = console.open(f"#/runs/{made['call_id']}?thread=errors")
    panel = page.locator(".error-panel")
    expect(panel).to_contain_text("tool_error")
    expect(panel).to_contain_text("the index is being rebuilt")
    panel.locator("summary").click()
    expect(panel).to_contain_text("raise ValueError")


def test_a_call_is_saved_as_one_file_that_needs_nothing(console: Console, server: Server, tmp_path: Path) -> None:
    server.call("echo", {"text": "kept"}, thread="saved", id="saved-1", wait=True)
    page = console.open("#/runs/saved-1?thread=saved")
    expect(page.locator(".waterfall")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as HTML").click()
    target = tmp_path / "saved.html"
    download.value.save_as(target)
    text = target.read_text()
    assert "<script" not in text
    assert "saved-1" in text
    assert "http:" not in text.partition("<style>")[0]
    page.goto(f"file://{target}")
    console.expect_errors("foreign: file://")
    expect(page.get_by_role("heading", name="echo")).to_be_visible()
    expect(page.locator(".waterfall .bar").first).to_be_visible()


def test_copies_of_a_call_have_no_key(console: Console, server: Server) -> None:
    server.call("echo", {"text": "it's"}, thread="copy", id="copy-1", wait=True)
    page = console.open("#/runs/copy-1?thread=copy", permissions=["clipboard-read", "clipboard-write"])
    copied: dict[str, str] = {}
    last = ""
    for name in ("Python", "curl", "Command line"):
        page.get_by_text("Copy as").click()
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_text("Copied").first).to_be_visible()
        # "Copied" may still be the one of the copy before.
        page.wait_for_function("last => navigator.clipboard.readText().then(text => text !== last)", arg=last)
        copied[name] = last = page.evaluate("navigator.clipboard.readText()")
    assert copied["Python"] == 'result = await rt.call("echo", {"text": "it\'s"}, thread="copy")'
    assert copied["curl"].startswith(f"curl {server.url}/calls")
    assert "ck_" not in copied["curl"]
    assert copied["Command line"] == """clicket call 'echo' '{"text":"it'\\''s"}' --thread 'copy'"""
