"""Undo in the console: a confirmation lists what will be undone, and what cannot be and why."""

from __future__ import annotations

import re

from tests.browser.kit import Console, Server, expect


def test_a_call_is_undone_after_a_confirmation(console: Console, server: Server) -> None:
    server.call("reserve", {"seat": "1A"}, thread="undo", id="undo-1", wait=True)
    server.call("echo", thread="undo", id="undo-2", wait=True)
    page = console.open("#/runs/undo-1?thread=undo")
    page.get_by_role("button", name="Undo", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("region", name="Will be undone, in this order")).to_contain_text("reserve")
    dialog.get_by_role("button", name="Undo 1").click()
    expect(dialog.get_by_role("region", name="Undone", exact=True)).to_contain_text("it was undone")
    expect(dialog.get_by_role("button", name="Undo 1")).to_have_count(0)
    other = console.open("#/runs/undo-2?thread=undo")
    expect(other.get_by_role("button", name="Run again")).to_be_visible()
    expect(other.get_by_role("button", name="Undo", exact=True)).to_have_count(0)


def test_an_undo_that_failed_is_tried_again(console: Console, server: Server) -> None:
    server.call("reserve", {"seat": "stuck"}, thread="undo", id="undo-3", wait=True)
    page = console.open("#/runs/undo-3?thread=undo")
    page.get_by_role("button", name="Undo", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Undo 1").click()
    failed = dialog.get_by_role("region", name="The undo failed")
    expect(failed).to_contain_text("the seat is taken")
    dialog.get_by_role("button", name="Try again").click()
    expect(failed.get_by_role("link")).to_have_attribute("href", re.compile("undo-[0-9a-f]+-2"))


def test_a_turn_is_undone(console: Console, server: Server) -> None:
    asked = server.http.post(
        "/agents/undo-turn/messages", json={"message": "reserve it", "agent": "helper", "wait": True}
    )
    assert asked.status_code == 200
    page = console.open("#/threads/undo-turn")
    page.get_by_role("button", name="Undo", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("region", name="Will be undone, in this order")).to_contain_text("reserve")
    expect(dialog.get_by_role("region", name="Cannot be undone")).to_contain_text("has no undo")
    dialog.get_by_role("button", name="Undo 1").click()
    expect(dialog.get_by_role("region", name="Undone", exact=True)).to_contain_text("reserve")
    page.keyboard.press("Escape")
    server.http.post("/agents/undo-turn/messages", json={"message": "thanks", "agent": "helper", "wait": True})
    expect(page.locator(".chat")).to_contain_text("Undone since the last turn: reserve")
