"""The other screens: approvals, tools, threads, the overview, a notebook and a search."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route
from tests.browser.kit import Console, Server, expect
from tests.kit.pictures import png
from tests.kit.waiting import eventually_sync


def test_an_approval_with_edited_arguments(console: Console, server: Server) -> None:
    page = console.open("#/runs")
    expect(page.get_by_role("link", name="Action required")).to_have_count(0)
    server.call("pay", {"to": "ann", "cents": 500}, thread="asks", id="pay-1")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    page.get_by_role("link", name="Action required").click()
    card = page.locator("article").filter(has_text="asks")
    expect(card).to_contain_text("payments need a person")
    expect(card.locator(".countdown")).to_contain_text("left")
    card.get_by_label("cents").fill("300")
    expect(card.locator("table.changes")).to_contain_text("500")
    card.get_by_label("Reason").fill("less is enough")
    card.get_by_role("button", name="Approve with these arguments").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(page).to_have_title(re.compile("^Action required"))
    page.goto(f"{server.url}/#/runs/pay-1?thread=asks")
    expect(page.locator("table.changes")).to_contain_text("300")
    page.get_by_role("tab", name="Result").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text("paid 300 to ann")


def test_a_denial_has_a_reason_and_invalid_edits_are_shown_at_their_field(console: Console, server: Server) -> None:
    server.call("pay", {"to": "bob", "cents": 900}, thread="denied", id="pay-2")
    page = console.open("#/runs/pay-2?thread=denied")
    page.get_by_label("cents").fill("1.5")
    page.get_by_role("button", name="Approve with these arguments").click()
    console.expect_errors("422")
    expect(page.locator(".field.wrong")).to_contain_text("integer")
    page.get_by_label("Reason").fill("too much")
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".error-panel")).to_contain_text("approval_denied")
    assert server.record("pay-2", "denied")["approval"]["reason"] == "too much"


def test_unknown_outcomes_are_settled(console: Console, server: Server) -> None:
    page = console.open("#/inbox")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    for id in ("charge-1", "charge-2"):
        server.call("charge", {"cents": 100}, thread=id, id=id, wait=True)
    card = page.locator("article").filter(has_text="charge-1")
    expect(card).to_contain_text(server.record("charge-1", "charge-1")["idempotency_key"])
    card.get_by_label("It happened").check()
    card.get_by_label("Result as JSON").fill("{nonsense")
    card.get_by_label("Note").fill("on the statement")
    card.get_by_role("button", name="Settle").click()
    expect(card.locator(".field.wrong")).to_contain_text("JSON")
    card.get_by_label("Result as JSON").fill('{"receipt": 7}')
    card.get_by_role("button", name="Settle").click()
    expect(page.locator("article")).to_have_count(1)
    found = server.record("charge-1", "charge-1")
    assert (found["resolution"]["output"], found["resolution"]["note"]) == ({"receipt": 7}, "on the statement")
    assert found["state"] == "failed"

    page.goto(f"{server.url}/#/runs/charge-2?thread=charge-2")
    expect(page.get_by_text("Did the effect happen?")).to_be_visible()
    body = {"happened": False, "note": "not on the statement", "rerun": True}
    server.http.post("/calls/charge-2/resolve", json=body)
    settled = page.get_by_role("region", name="Settlement")
    expect(settled).to_contain_text("not on the statement")
    expect(page.get_by_text("Did the effect happen?")).to_have_count(0)
    settled.get_by_role("link").click()
    expect(page.get_by_role("link", name="charge-2", exact=True).first).to_be_visible()
    page.get_by_role("link", name="Action required").click()
    again = page.locator("article")
    again.get_by_label("It did not happen").check()
    expect(again.get_by_label("Run it again")).to_be_visible()
    again.get_by_role("button", name="Settle").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


def test_a_failed_tool_is_reset_in_its_thread(console: Console, server: Server) -> None:
    for _ in range(2):
        server.call("broken", thread="shaky", wait=True)
    page = console.open("#/tools?thread=shaky")
    card = page.locator(".card").filter(has_text="broken")
    expect(card.locator(".badge")).to_have_text("failed")
    expect(card).to_contain_text("2 failures in a row")
    card.click()
    page.get_by_role("button", name="Reset").click()
    expect(card.locator(".badge")).to_have_text("available")
    page.get_by_label("Reason").fill("on holiday")
    page.get_by_role("button", name="Take out of service").click()
    expect(card.locator(".badge")).to_have_text("maintenance")
    states = server.http.get("/agents/shaky/tool-states").json()["data"]["toolStates"]
    assert (states["broken"]["status"], "on holiday" in states["broken"]["reason"]) == ("maintenance", True)


def test_a_tool_is_tried_with_a_form_of_its_schema(console: Console, server: Server) -> None:
    page = console.open("#/tools/echo")
    page.get_by_label("text").fill("tried")
    page.get_by_label("count").fill("3")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("[role=status] a").click()
    expect(page.get_by_role("region", name="Arguments")).to_contain_text('"count": 3')
    page.goto(f"{server.url}/#/tools/echo")
    page.get_by_role("tab", name="Schema").click()
    expect(page.get_by_role("region", name="Schema")).to_contain_text('"default": "hello"')


def test_a_chat_turn_with_a_tool_call(console: Console, server: Server) -> None:
    page = console.open("#/threads")
    page.get_by_placeholder("New conversation").fill("talk")
    page.get_by_role("button", name="Open").click()
    page.get_by_label("Agent", exact=True).select_option("helper")
    page.get_by_label("Write to the agent").fill("good morning")
    page.get_by_label("Write to the agent").press("Enter")
    messages = page.get_by_role("log")
    expect(messages.locator('[data-role="user"]')).to_contain_text("good morning")
    expect(messages.locator(".step")).to_contain_text("echo")
    answers = messages.locator('[data-role="assistant"]')
    expect(answers).to_have_count(1)
    expect(answers).to_contain_text("The tool said")
    expect(messages).to_contain_text(re.compile("Turn 1 · finished · 2 steps · [0-9,]+ tokens"))
    expect(page.locator(".thread-list a").filter(has_text="talk")).to_contain_text("helper")
    messages.locator(".step summary").click()
    messages.get_by_role("link", name="Open the run").click()
    expect(page.get_by_role("heading", name="echo")).to_be_visible()
    page.get_by_role("link", name="helper · 1").click()
    expect(page.get_by_role("heading", name="agent:helper")).to_be_visible()
    expect(page.get_by_text("Tool calls")).to_be_visible()


def test_a_conversation_is_forked_and_a_cut_turn_goes_on(console: Console, server: Server) -> None:
    said = {"message": "good morning", "agent": "helper", "wait": True}
    assert server.http.post("/agents/forked/messages", json=said).status_code == 200
    page = console.open("#/threads/forked")
    page.get_by_role("button", name="Fork here").click()
    expect(page.get_by_text("Fork after turn 1 of")).to_be_visible()
    assert "forked-fork-" in page.url
    expect(page.locator(".message[data-role=assistant]").last).to_be_visible()
    cut = server.http.post("/agents/forked/fork", json={"agent": "helper", "after": 0, "step": 1}).json()["thread"]
    page = console.open(f"#/threads/{cut}?agent=helper")
    expect(page.get_by_text("Fork after turn 0 and step 1 of the next one, of")).to_be_visible()
    page.get_by_role("button", name="Continue the turn").click()
    expect(page.get_by_role("button", name="Continue the turn")).to_have_count(0)
    expect(page.locator(".turn-foot")).to_have_count(1)


def test_pictures_and_files_of_a_conversation(console: Console, server: Server) -> None:
    uploaded = server.http.post("/artifacts", content=png(20, 10), headers={"content-type": "application/octet-stream"})
    message = ["draw this, larger", {"artifact": uploaded.json()["id"], "name": "small.png"}]
    body = {"message": message, "agent": "helper", "wait": True}
    assert server.http.post("/agents/drawn/messages", json=body).status_code == 200
    page = console.open("#/threads/drawn")
    asked = page.get_by_role("log").locator('[data-role="user"]')
    expect(asked.locator(".text")).to_have_text("draw this, larger")
    small = asked.get_by_role("img", name="small.png")
    expect(small).to_be_visible()
    assert small.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [20, 10]
    step = page.get_by_role("log").locator(".step")
    step.locator("summary").click()
    drawn = step.get_by_role("img")
    expect(drawn).to_be_visible()
    assert drawn.evaluate("image => image.naturalWidth") == 40
    with page.expect_download() as saved:
        step.get_by_role("button", name="points.csv").click()
    assert saved.value.suggested_filename == "points.csv"
    step.get_by_role("link", name="Open the run").click()
    page.get_by_role("tab", name="Result").click()
    expect(
        page.get_by_role("region", name="Result").or_(page.locator(".files")).get_by_role("img").first
    ).to_be_visible()


def test_a_model_that_breaks_off_and_the_next_one(console: Console, server: Server) -> None:
    page = console.open("#/threads")
    page.get_by_placeholder("New conversation").fill("broken")
    page.get_by_role("button", name="Open").click()
    page.get_by_label("Agent", exact=True).select_option("careful")
    page.get_by_label("Write to the agent").fill("pay ann")
    page.get_by_label("Write to the agent").press("Enter")
    messages = page.get_by_role("log")
    expect(messages.locator(".step")).to_contain_text("pay")
    expect(messages.locator('[data-role="fallback"]')).to_contain_text("first: unavailable → second")
    expect(messages).not_to_contain_text("Half an answer")
    (waiting,) = server.http.get("/calls", params={"thread": "broken", "tool": "pay"}).json()["items"]
    assert server.http.post(f"/calls/{waiting['id']}/approve", params={"thread": "broken"}).status_code == 200
    expect(messages.locator('[data-role="assistant"]')).to_have_text(re.compile("paid"))


def test_the_result_of_a_background_call_is_no_message_of_the_user(console: Console, server: Server) -> None:
    ask = {"message": "report on ferries", "agent": "helper", "wait": True}
    assert server.http.post("/agents/behind/messages", json=ask).status_code == 200
    eventually_sync(lambda: server.http.get("/calls", params={"tool": "report", "state": "completed"}).json()["items"])
    server.http.post("/agents/behind/messages", json={**ask, "message": "and now?"})
    page = console.open("#/threads/behind")
    messages = page.get_by_role("log")
    expect(messages.locator(".step .badge").first).to_have_text("in the background")
    expect(messages.locator('[data-role="news"]')).to_contain_text("the report on ferries")
    expect(messages.locator('[data-role="user"]')).to_have_text(
        [re.compile("report on ferries"), re.compile("and now")]
    )
    messages.locator('[data-role="news"]').get_by_role("link", name="Open the run").click()
    expect(page.get_by_role("heading", name="report")).to_be_visible()


@pytest.mark.parametrize(
    ("ended", "said", "badge"),
    [
        ("length", "The answer is cut off", "answer cut off"),
        ("refusal", "The model declined to answer.", "declined"),
        ("empty", "The model answered without any text.", "empty answer"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_success(
    console: Console, server: Server, ended: str, said: str, badge: str
) -> None:
    page = console.open(f"#/threads/ended-{ended}")
    page.get_by_label("Write to the agent").fill(f"end as {ended}")
    page.get_by_label("Write to the agent").press("Enter")
    turn = page.locator(".turn")
    expect(turn.locator(".cut")).to_contain_text(said)
    expect(turn.locator(".turn-foot")).to_contain_text(f"Turn 1 · {badge}")
    expect(page.locator("header .badge")).to_have_text(badge)
    page.get_by_label("Write to the agent").fill("good morning")
    page.get_by_label("Write to the agent").press("Enter")
    expect(turn.nth(1).locator(".turn-foot")).to_contain_text("Turn 2 · finished")
    expect(turn.nth(1).locator(".cut")).to_have_count(0)
    expect(page.locator("header .badge")).to_have_text("finished")


def write(page: Page, message: str) -> None:
    page.get_by_label("Write to the agent").fill(message)
    page.get_by_label("Write to the agent").press("Enter")


def test_what_checks_decide_is_said_in_words(console: Console, server: Server) -> None:
    page = console.open("#/threads/checked")
    page.get_by_label("Agent", exact=True).select_option("guarded")
    turns, live = page.locator(".turn"), page.get_by_role("log").locator("> .message, > p.hint")
    write(page, "damn it")
    refused = turns.nth(0)
    expect(refused.locator('[data-role="user"]')).to_contain_text("damn it")
    expect(refused.locator(".cut")).to_contain_text("Ask politely.")
    expect(refused.locator(".turn-foot")).to_contain_text("Turn 1 · refused · 0 steps")
    write(page, "strict, ask ann@example.com")
    asks = live.filter(has_text="sums asks a person about the answer: May it go on?")
    expect(asks).to_be_visible()
    expect(live.filter(has_text="pii changed the message.")).to_be_visible()
    expect(page.get_by_role("log")).not_to_contain_text("euros")
    asks.get_by_role("link").click()
    expect(page.get_by_role("heading", name="check:sums")).to_be_visible()
    page.get_by_label("text").fill('{"euros": 7}')
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Decision")).to_be_visible()
    page.go_back()
    page.get_by_label("Agent", exact=True).select_option("guarded")
    expect(turns.nth(1).locator("p.hint")).to_have_text("Models read: strict, ask [email]")
    expect(turns.nth(1).get_by_role("region", name="Answer")).to_have_text('{\n  "euros": 7\n}')
    expect(turns.nth(1).locator(".turn-foot")).to_contain_text("Turn 2 · finished")


def test_a_refused_answer_is_void(console: Console, server: Server) -> None:
    page = console.open("#/threads/strict")
    page.get_by_label("Agent", exact=True).select_option("guarded")
    write(page, "strict")
    turn = page.locator(".turn")
    expect(turn.get_by_role("region", name="Answer")).to_have_text('{\n  "euros": 1\n}')
    expect(turn.locator(".turn-foot")).to_contain_text("Turn 1 · finished · 2 steps")


def test_the_pieces_of_a_step_that_begins_again_are_dropped(console: Console, server: Server) -> None:
    def event(type: str, step: int = 1, **data: Any) -> str:
        body = {"type": type, "thread": "crashed", "turn": 1, "at": 1.0, "step": step, "id": "", "data": data}
        return f"event: {type}\ndata: {json.dumps(body)}\n\n"

    def piece(text: str, **more: Any) -> str:
        return event("delta", kind="text", text=text, **more)

    stream = [
        event("message", 0, role="user", text="hello"),
        piece("A whole first", branch="a"), piece("Lost"), piece(" answer", branch="a"), piece(" words"),
        event("restart", why="the turn was interrupted"),
        piece("Half of"), event("retry", error="overloaded"), piece("All "), piece("of it"),
        event("thought", text="hm"), event("message", role="assistant", text="All of it."), piece("late"),
    ]  # fmt: skip
    sent: list[str] = []

    def answer(route: Route) -> None:
        sent.append(route.request.url)
        status = 200 if len(sent) == 1 else 204  # no content: the page does not ask again
        route.fulfill(status=status, content_type="text/event-stream", body="".join(stream) if status == 200 else "")

    page = console.open("#/threads")
    page.route("**/agents/crashed/events*", answer)
    page.goto(f"{server.url}/#/threads/crashed")
    messages = page.get_by_role("log")
    expect(messages.locator('[data-role="assistant"] .prose')).to_have_text(["A whole first answer", "All of it."])
    expect(messages.locator("p.hint")).to_have_text(
        [
            "The answer begins again: the turn was interrupted",
            "The answer begins again: overloaded",
        ]
    )
    order = messages.locator("details.thought, [data-role=assistant]")
    expect(order.nth(1)).to_have_class("thought")


def test_the_plan_of_an_agent(console: Console, server: Server) -> None:
    server.http.post("/agents/planned/messages", json={"message": "two steps", "agent": "planner", "wait": True})
    page = console.open("#/threads/planned")
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("Two steps")
    expect(plan.locator("li .badge")).to_have_text(["completed", "completed"])


def test_a_notebook_with_a_plot_and_a_table(console: Console, server: Server) -> None:
    task = (
        "```python\nprint('in a cell')\nx = 6 * 7\n```\n```python\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n```\n"
        "```python\nimport pandas as pd\npd.DataFrame({'n': [1, 2]})\n```"
    )
    server.call("code_interpreter", {"task": task}, thread="notes", id="notes-1")
    page = console.open("#/runs/notes-1?thread=notes")
    cells = page.locator(".notebook .cell")
    expect(cells.nth(0)).to_contain_text("in a cell")
    expect(page.locator("header .badge").first).to_have_text("completed")
    assert page.locator(".notebook img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    frame = page.frame_locator(".notebook iframe")
    expect(frame.locator("table")).to_contain_text("2")
    assert page.locator(".notebook iframe").get_attribute("sandbox") == ""
    expect(page.locator(".notebook")).to_contain_text("Isolation")
    with page.expect_download() as download:
        page.get_by_role("button", name=".ipynb").click()
    assert download.value.suggested_filename == "notes-1.ipynb"


def test_the_citations_of_a_search_in_their_documents(console: Console, server: Server) -> None:
    question = "Where did the designer of the Tarn Point lighthouse teach?"
    server.call("deep_search", {"query": question}, thread="finds", id="finds-1", wait=True)
    page = console.open("#/runs/finds-1?thread=finds")
    view = page.locator(".search-view")
    expect(view.locator(".rounds > li").first).to_contain_text("Round 1")
    expect(view.locator("mark").first).to_contain_text("Agnes Holloway")
    view.locator("button.cite").first.click()
    expect(view.locator('mark[data-chosen="true"]')).to_have_count(1)


def test_the_overview_counts_outcomes(console: Console, server: Server) -> None:
    server.call("echo", wait=True)
    server.call("broken", wait=True)
    page = console.open("#/overview")
    expect(page.locator(".tiles")).to_contain_text("ready")
    expect(page.locator(".chart").first).to_contain_text("completed")
    expect(page.locator('.chart rect[data-tone="completed"]').first).to_be_attached()
    expect(page.get_by_role("row").filter(has_text="echo")).to_contain_text("100 %")
