"""The approver page in a real browser: it keeps its own content policy, its form is accepted, and axe finds nothing serious."""

from __future__ import annotations

import json
from base64 import b64encode
from importlib.resources import files
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect
from tests.kit.waiting import eventually_sync
from tests.scenarios.server_kit import add, serving_in_thread

from clicket import Policy
from clicket.telemetry.webhooks.sender import Answer, HttpSender

_AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()


@pytest.mark.parametrize(("language", "button", "done"), [("en-US", "Deny", "Denied."), ("zh-CN", "批准", "已批准")])
def test_a_person_decides(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, language: str, button: str, done: str
) -> None:
    sent: list[dict[str, Any]] = []

    async def send(self: HttpSender, endpoint: Any, id: str, at: float, body: bytes) -> Answer:
        sent.append(json.loads(body))
        return Answer(status=204)

    monkeypatch.setattr(HttpSender, "send", send)
    secret = "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode()
    hook = {"url": "https://people.example/", "secret": secret, "events": ["approval.requested"]}
    settings = {"webhooks": [hook], "public_url": "http://127.0.0.1", "secret_key": "a key of sixteen characters"}
    with serving_in_thread([add], policy=Policy(ask=["add"]), **settings) as url:
        call = httpx2.post(f"{url}/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}}).json()
        [notice] = eventually_sync(lambda: list(sent))
        context = browser.new_context(locale=language, bypass_csp=False)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(url + notice["data"]["link"].removeprefix("http://127.0.0.1"))
        assert page.evaluate("getComputedStyle(document.body).maxWidth") == "704px"  # its style is not blocked
        page.get_by_role("textbox").fill("reason 理由")
        page.get_by_role("button", name=button).click()
        expect(page.get_by_text(done)).to_be_visible()
        assert complaints == []
        assert context.cookies() == []
        context.close()
        approval = httpx2.get(f"{url}/calls/{call['id']}").json()["approval"]
        assert (approval["approved"], approval["reason"]) == (language == "zh-CN", "reason 理由")


def test_a_person_changes_the_arguments_or_answers(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    async def send(self: HttpSender, endpoint: Any, id: str, at: float, body: bytes) -> Answer:
        sent.append(json.loads(body))
        return Answer(status=204)

    monkeypatch.setattr(HttpSender, "send", send)
    secret = "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode()
    hook = {"url": "https://people.example/", "secret": secret, "link_allows": ["edit", "respond"]}
    settings = {"webhooks": [hook], "public_url": "http://127.0.0.1", "secret_key": "a key of sixteen characters"}
    with serving_in_thread([add], policy=Policy(ask=["add"]), **settings) as url:
        ids = [
            httpx2.post(f"{url}/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}}).json()["id"] for _ in "12"
        ]
        asked = eventually_sync(lambda: sent if len(sent) == 2 else [])
        links = {each["data"]["call"]["id"]: each["data"]["link"].removeprefix("http://127.0.0.1") for each in asked}
        context = browser.new_context(locale="en-US")
        page = context.new_page()
        page.goto(url + links[ids[0]])
        page.get_by_text("Approve with other arguments").click()
        page.get_by_label("Arguments (JSON)").fill('{"a": 1, "b": "x"}')
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("alert")).to_contain_text("b")
        assert page.get_by_label("Arguments (JSON)").input_value() == '{"a": 1, "b": "x"}'
        page.get_by_label("Arguments (JSON)").fill('{"a": 1, "b": 40}')
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Approved.")).to_be_visible()
        page.goto(url + links[ids[1]])
        page.get_by_text("Answer in the tool's place").click()
        page.get_by_label("Result (JSON").fill("42")
        page.get_by_role("button", name="Answer").click()
        expect(page.get_by_text("Answered.")).to_be_visible()
        context.close()
        first, second = (_ended(url, id) for id in ids)
        assert (first["output"], first["approval"]["edited"]) == (41, True)
        assert (second["output"], second["approval"]["responded"]) == (42, True)
        assert second["metadata"]["answered_by"].startswith("link:people.example")


def _ended(url: str, id: str) -> dict[str, Any]:
    def looked() -> dict[str, Any]:
        found: dict[str, Any] = httpx2.get(f"{url}/calls/{id}").json()
        return found if found["ended_at"] else {}

    ended: dict[str, Any] = eventually_sync(looked)
    return ended


def test_axe_finds_nothing_serious(browser: Browser) -> None:
    from clicket.kernel import State
    from clicket.model import fold
    from clicket.model.event import Event
    from clicket.server.approval_html import Tried, decision_page
    from clicket.telemetry.webhooks.approval_links import Link
    from clicket.telemetry.webhooks.facts import Question

    created = {"tool": "pay", "thread": "t1", "caller": "", "arguments": {"amount": 1}}
    asked = {"purpose": "recovery", "reason": "why", "timeout": None}
    events = [
        Event("c1", 1, 1.0, "created", State.PENDING, created),
        Event("c1", 2, 2.0, "approval_requested", State.PENDING, asked),
    ]
    page = browser.new_context().new_page()
    question = Question(call="c1", thread="t1", caller="", seen="0" * 64)
    link = Link(id="msg_1", endpoint="people", question=question, expires_at=3.0, allows=("edit", "respond"))
    tried = Tried(problem="/amount must be a number", arguments="{}", output="nonsense")
    page.set_content(decision_page(fold(events), link, "en", tried).decode())
    page.evaluate(_AXE)
    result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    assert [each["id"] for each in result["violations"] if each["impact"] in ("serious", "critical")] == []
    page.context.close()
