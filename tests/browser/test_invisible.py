"""Invisible characters in the console: marked wherever a person reads, escaped wherever a person edits, and unchanged in what is sent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page
from tests.browser.kit import Console, Server, expect
from tests.security.test_invisible_characters import ALL, LETTERS

from clicket.adapters.mcp.app_pages import result_page

_IBAN = f"DE89{ALL}3704"
_THREAD = f"t{ALL}"
_RAW = """characters => {
  const found = [], wanted = new RegExp(`[${characters}]`, "u"), attributes = ["title", "aria-label", "alt", "placeholder"];
  for (const each of document.querySelectorAll("*")) {
    const texts = [...each.childNodes].filter(node => node.nodeType === 3).map(node => node.data);
    texts.push(...attributes.map(name => each.getAttribute(name) ?? ""));
    // A filter keeps what its user wrote; the list below it shows the marks.
    if (["INPUT", "TEXTAREA"].includes(each.tagName) && !each.closest(".filters")) texts.push(each.value);
    if (texts.some(text => wanted.test(text))) found.push(each.outerHTML.slice(0, 200));
  }
  return wanted.test(document.title) ? [...found, "the title"] : found;
}"""


def _shows_none(page: Page) -> None:
    page.locator("main details").evaluate_all("all => { for (const each of all) each.open = true }")
    assert page.evaluate(_RAW, ALL) == []


def test_a_person_reads_what_is_approved(console: Console, server: Server) -> None:
    call = f"invisible-{ALL}"
    server.call("pay", {"to": _IBAN, "cents": 500}, thread=_THREAD, id=call)
    page = console.open("#/inbox")
    card = page.locator("article").filter(has=page.locator("mark.invisible"))
    expect(card.get_by_text("This text has invisible characters.")).to_be_visible()
    expect(card.locator("mark.invisible", has_text="⟨U+202E⟩").first).to_be_visible()
    expect(card).to_contain_text("DE89⟨U+202A⟩")
    assert json.loads(card.locator("textarea").first.input_value()) == _IBAN
    _shows_none(page)
    card.get_by_role("button", name="Edit as JSON").click()
    assert json.loads(card.get_by_label("Arguments (JSON)").input_value())["to"] == _IBAN
    _shows_none(page)
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(card).to_have_count(0)
    record = server.record(quote(call, safe=""), _THREAD)
    assert (record["arguments"]["to"], record["approval"]["edited"]) == (_IBAN, False)


def test_every_screen_marks_them(console: Console, server: Server) -> None:
    call, where = f"shown-{ALL}", f"thread={quote(_THREAD, safe='')}"
    server.call(
        "echo", {"text": f"{_IBAN} {LETTERS}"}, thread=_THREAD, id=call, wait=True, metadata={f"m{ALL}"[:60]: ALL}
    )
    page = console.open(f"#/runs?{where}")
    for screen in (
        f"runs?{where}",
        f"runs/{quote(call, safe='')}?{where}",
        "threads",
        f"threads/{quote(_THREAD, safe='')}",
    ):
        page.goto(f"{server.url}/#/{screen}")
        page.reload()
        expect(page.locator("main mark.invisible").first).to_be_visible()
        for tab in page.get_by_role("tab").all():
            tab.click()
            _shows_none(page)
        _shows_none(page)
    page.goto(f"{server.url}/#/runs/{quote(call, safe='')}?{where}")
    expect(page.locator("main")).to_contain_text(LETTERS[:40])


def test_the_result_page_of_mcp_apps_marks_them(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(result_page())
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": "ui/notifications/tool-result"}
    message |= {"params": {"content": [{"type": "text", "text": f"{_IBAN}\n{LETTERS}"}]}}
    page.evaluate("message => window.postMessage(message, '*')", message)
    expect(page.locator("#state")).to_have_text("completed")
    shown = page.locator("#result").evaluate("each => each.textContent")
    assert shown == f"DE89{''.join(f'⟨U+{ord(each):04X}⟩' for each in ALL)}3704\n{LETTERS}"
    page.close()
