"""Text that tries to be code, from every source: nothing executes, nothing is loaded, and nothing breaks the layout."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page
from tests.browser.console_server import HOSTILE
from tests.browser.kit import Console, Server, expect

_LONG = "W" * 400
_BIDI = "\u202eevil\u202c \u0000-free \u200bzero\u2066"
_THREAD = f"{HOSTILE}/../{_LONG[:80]}"


def _unharmed(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    assert page.locator("img[src=x], script:not([src*='console/app.js']), main iframe[src]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), "the page scrolls sideways"


def test_names_results_and_errors_of_calls(console: Console, server: Server) -> None:
    ids = [f"{HOSTILE}-1", f"{HOSTILE}-2", "long-" + _LONG]
    server.call(f"{HOSTILE}"[:120], {}, thread=_THREAD, id=ids[0], wait=True)
    server.call("hostile", {"kind": "error"}, thread=_THREAD, id=ids[1], wait=True)
    server.call("hostile", {"kind": "result"}, thread=_THREAD, id=ids[2], wait=True, metadata={HOSTILE[:60]: HOSTILE})
    server.call("evil", {}, thread=_BIDI.replace("\u0000", ""), wait=True)
    for width in (1280, 400):
        page = console.open(f"#/runs?thread={quote(_THREAD, safe='')}", width=width)
        expect(page.locator(".scroller [role=row]")).to_have_count(3)
        _unharmed(page)
        for id in ids:
            page.goto(f"{server.url}/#/runs/{quote(id, safe='')}?thread={quote(_THREAD, safe='')}")
            expect(page.locator(".waterfall")).to_be_visible()
            for tab in page.get_by_role("tab").all():
                tab.click()
            _unharmed(page)


def test_descriptions_threads_and_an_address_that_is_hostile_itself(console: Console, server: Server) -> None:
    page = console.open("#/tools/evil")
    expect(page.locator(".tool-view")).to_contain_text("<script>")
    _unharmed(page)
    page.goto(f"{server.url}/#/threads")
    expect(page.locator(".thread-list")).to_be_visible()
    _unharmed(page)
    for path in (
        f"#/threads/{quote(_THREAD, safe='')}",
        f"#/{quote(HOSTILE, safe='')}",
        "#/runs/%E0%A4%A",
        f"#/tools/{quote(HOSTILE, safe='')}",
    ):
        console.expect_errors("404")
        page.goto(f"{server.url}/{path}")
        expect(page.get_by_role("navigation")).to_be_visible()
        _unharmed(page)


def test_decisions_costs_schedules_and_notices(console: Console, server: Server, tmp_path: Path) -> None:
    """Also what people write: reasons, answers, schemas of grants; and the names of settings."""
    http, thread = server.http, quote(_THREAD, safe="")
    for id, verb, body in (
        ("people-2", "respond", {"reason": HOSTILE, "output": {HOSTILE: HOSTILE}}),
        (
            "people-1",
            "approve",
            {"reason": HOSTILE, "grant": {"uses": 1, "thread": _THREAD, "arguments": {"title": HOSTILE}}},
        ),
    ):
        server.call("pay", {"to": HOSTILE, "cents": 1}, thread=_THREAD, id=id)
        answer = http.post(f"/calls/{id}/{verb}", params={"thread": _THREAD}, json=body)
        assert answer.status_code == 200, answer.text
    server.call("pay", {"to": HOSTILE, "cents": 2}, thread=f"{_THREAD}-2", id="people-3")
    server.call("wire", {"to": HOSTILE, "cents": 2}, thread=_THREAD, id="people-4")
    server.call("render", {"token_file": str(tmp_path / "token")}, thread=_THREAD, id="people-5")
    server.call("charge_checked", {"found": False}, thread=_THREAD, id="people-6", wait=True)
    server.call("lookup", {"company": HOSTILE}, thread=_THREAD, id="people-7", wait=True)
    made = {
        "cron": "0 0 1 1 *",
        "tool": "echo",
        "arguments": {"text": HOSTILE},
        "thread": _THREAD,
        "metadata": {HOSTILE[:60]: HOSTILE},
    }
    assert http.put("/schedules/x", json=made).status_code == 200
    screens = ["inbox", "grants", "notices", "schedules", "spend?by=thread", "spend?by=run"]
    screens += [f"runs/people-{number}?thread={thread}" for number in (1, 2, 4, 5, 6, 7)]
    page = console.open("#/runs", width=400)
    for screen in screens:
        page.goto(f"{server.url}/#/{screen}")
        page.reload()
        expect(page.locator("main :is(article, .panel)").first).to_be_visible()
        page.locator("main details").evaluate_all("all => { for (const each of all) each.open = true }")
        _unharmed(page)


def test_markdown_of_an_agent(console: Console, server: Server) -> None:
    server.http.post("/agents/md/messages", json={"message": "hostile, please", "agent": "helper", "wait": True})
    page = console.open("#/threads/md")
    answer = page.locator('[data-role="assistant"]')
    expect(answer).to_contain_text("<script>window.pwned=1</script>")
    assert answer.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))") == [
        "https://example.com/x"
    ]
    assert answer.locator("img, iframe").count() == 0
    _unharmed(page)


def test_html_and_pictures_of_a_program(console: Console, server: Server) -> None:
    task = (
        "class Html:\n    def _repr_html_(self):\n"
        "        return '<b>shown</b><script>parent.pwned=1</script><img src=https://example.com/x onerror=parent.pwned=1>"
        "<style>body{background:url(https://example.com/y)}</style><a href=https://example.com>far</a>'\n"
        "class Svg:\n    def _repr_svg_(self):\n"
        '        return \'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.pwned=1">'
        "<script>pwned=1</script></svg>'\n"
        "display(Html())\ndisplay(Svg())"
    )
    server.call("code_interpreter", {"task": task}, thread="html", id="html-1", wait=True)
    page = console.open("#/runs/html-1?thread=html")
    expect(page.frame_locator(".notebook iframe").locator("b")).to_have_text("shown")
    assert page.locator(".notebook img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 9
    _unharmed(page)
    assert page.locator(".notebook iframe").get_attribute("sandbox") == ""
