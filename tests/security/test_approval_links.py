"""The approver page: a link decides one question about one call, once, and gives nothing else, whatever is tried with it."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

from clicket import Policy, Rule, State, tool
from clicket.errors import UsageError
from clicket.runtime.settings import Settings
from clicket.telemetry.webhooks.sender import Answer, HttpSender

KEY = "a secret key of at least sixteen characters"
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e\x1b[31m&lt;'
FORM = {"content-type": "application/x-www-form-urlencoded"}


@tool(sensitive=["token"])
async def pay(amount: int, note: str = "", token: str = "") -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def other(amount: int) -> str:
    """Another one."""
    return "other"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What an endpoint got."""
    got: list[dict[str, Any]] = []

    async def send(self: HttpSender, endpoint: Any, id: str, at: float, body: bytes) -> Answer:
        got.append(json.loads(body))
        return Answer(status=204)

    monkeypatch.setattr(HttpSender, "send", send)
    return got


def settings(**more: Any) -> dict[str, Any]:
    secret = "whsec_" + b64encode(b"the secret of approval link test").decode()
    hook = {"url": "https://people.example/hook", "secret": secret, "events": ["approval.requested"], "name": "people"}
    return {"webhooks": [hook], "public_url": "http://127.0.0.1", "secret_key": KEY, **more}


@asynccontextmanager
async def asking(store: str = "memory://", **more: Any) -> AsyncIterator[Api]:
    policy = Policy(ask=["pay", "other"])
    async with served([pay, other], store, policy=policy, **settings(**more)) as it:
        yield it


async def ask(it: Api, sent: list[dict[str, Any]], name: str = "pay", **arguments: Any) -> tuple[str, str]:
    """A call that waits, and the path of its link."""
    before = len(sent)
    handle = await it.runtime.submit(name, {"amount": 1, **arguments}, thread="t1")
    await eventually(lambda: len(sent) > before)
    link = sent[-1]["data"]["link"]
    assert link.startswith("http://127.0.0.1/approvals/msg_")
    return handle.id, link.removeprefix("http://127.0.0.1")


async def decide(it: Api, path: str, decision: str = "approve", reason: str = "") -> Any:
    return await it.post(path, data={"decision": decision, "reason": reason})


async def test_a_link_approves_once_without_a_key(sent: list[dict[str, Any]], tmp_path: Path) -> None:
    async with asking(sqlite_url(tmp_path)) as it:
        await key_for(it, "a", "admin")  # from now on every other request needs a key
        id, path = await ask(it, sent)
        for _ in range(3):  # a mail scanner opens it, too
            page = await it.get(path)
            assert page.status_code == 200
        assert (await it.client.head(path)).status_code == 200
        assert await it.runtime.state(id) is State.PENDING
        done = await decide(it, path, reason="fine with me")
        assert (done.status_code, "Approved" in done.text) == (200, True)
        assert (await (await it.runtime.handle(id)).result()).output == "paid 1"
        record = await it.runtime.get(id)
        assert record.approval is not None
        assert (record.approval["by"], record.approval["reason"]) == ("link:people", "fine with me")
        for again in (await decide(it, path), await decide(it, path, "deny"), await it.get(path)):
            assert (again.status_code, "was used already" in again.text) == (410, True)
        token = path.rpartition("/")[2]
        for route in ("/calls", f"/calls/{id}", "/whoami", "/notices"):
            for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}, {}):
                assert (await it.get(route, headers=headers)).status_code == 401


async def test_a_call_of_a_key_is_decided_by_its_link(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        key, other = await key_for(it, "caller", "call", "read"), await key_for(it, "other", "call", "read")
        for headers in (key, other):  # both calls have the same id
            made = await it.post(
                "/calls", json={"tool": "pay", "arguments": {"amount": 1}, "id": "same"}, headers=headers
            )
            assert made.status_code == 202
        await eventually(lambda: len(sent) == 2)
        id = (await it.get("/whoami", headers=key)).json()["id"]
        mine = next(each for each in sent if each["data"]["call"]["caller"] == id)
        path = mine["data"]["link"].removeprefix("http://127.0.0.1")
        assert (await it.post("/calls/same/approve", headers=key)).status_code == 403
        assert (await decide(it, path)).status_code == 200
        states = [(await it.get("/calls/same", headers=headers)).json()["waiting_for"] for headers in (key, other)]
        assert states == [None, "approval"]


async def test_a_link_denies_with_a_reason(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        assert "Denied" in (await decide(it, path, "deny", "too dear")).text
        result = await (await it.runtime.handle(id)).result()
        assert result.error is not None
        assert "too dear" in result.error.message


def other_end(text: str) -> str:
    """The text with another last character."""
    return f"{text[:-1]}{'1' if text[-1] == '0' else '0'}"


async def test_a_link_cannot_be_changed_or_moved(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        first, one = await ask(it, sent)
        second, two = await ask(it, sent, "other")
        (id1, _, sign1), (id2, _, sign2) = (path.rpartition("/")[2].partition(".") for path in (one, two))
        wrong = [
            f"{id1}.{sign2}", f"{id2}.{sign1}", f"{id1}.{sign1[:-1]}", f"{id1}.{sign1}0", id1, f"{id1}.", f".{sign1}", "x", "%00",
            f"{id1}.{other_end(sign1)}", f"{other_end(id1)}.{sign1}", f"{id1}.{sign1.upper()}", "a" * 500,
            f"msg_..%2f..%2fcalls.{sign1}", f"{id1}.é{sign1}",
        ]  # fmt: skip
        for token in wrong:
            shown, done = await it.get(f"/approvals/{token}"), await decide(it, f"/approvals/{token}")
            assert (shown.status_code, done.status_code) == (404, 404), token
            assert "not valid" in done.text
        for id in (first, second):
            assert (await it.runtime.get(id)).waiting_for == "approval"


async def test_the_store_cannot_move_a_link(sent: list[dict[str, Any]]) -> None:
    """A program that can write documents, and has no key, makes no link of its own."""
    async with asking() as it:
        _, one = await ask(it, sent)
        second, two = await ask(it, sent, "other")
        store = it.runtime.store
        [mine, his] = [one.rpartition("/")[2].partition(".")[0], two.rpartition("/")[2].partition(".")[0]]
        target = await store.document("notice.link", his)
        assert target is not None
        moved = msgspec.json.decode(target.body)
        for change in ({**moved, "id": mine}, {**moved, "id": mine, "expires_at": 1e12}):
            await store.put_document("notice.link", mine, msgspec.json.encode(change), None)
            assert (await decide(it, one)).status_code == 404
        assert (await it.runtime.get(second)).waiting_for == "approval"


async def test_a_link_of_another_key_is_not_valid(sent: list[dict[str, Any]], tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with asking(url) as it:
        id, path = await ask(it, sent)
    async with asking(url, secret_key="quite another key of sixteen characters") as it:
        assert (await it.get(path)).status_code == 404
        assert (await decide(it, path)).status_code == 404
    async with asking(url, secret_key=f"a new key that seals from now on, {KEY}") as it:
        assert (await decide(it, path)).status_code == 200
        assert (await (await it.runtime.handle(id)).result()).state is State.COMPLETED


async def test_a_link_expires(sent: list[dict[str, Any]]) -> None:
    async with asking(approval_link_timeout=0.3) as it:
        id, path = await ask(it, sent)

        async def expired() -> bool:
            return (await it.get(path)).status_code == 410

        await eventually(expired)
        answer = await decide(it, path)
        assert (answer.status_code, "has expired" in answer.text) == (410, True)
        assert (await it.runtime.get(id)).waiting_for == "approval"


async def test_a_question_that_is_over_is_not_decided_again(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        await it.runtime.deny(id)
        await (await it.runtime.handle(id)).result()
        assert (await it.get(path)).status_code == 410
        answer = await decide(it, path)
        assert (answer.status_code, "not wait for a decision any more" in answer.text) == (410, True)


async def test_a_decision_that_a_crash_cut_off_can_only_be_repeated(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        token = path.rpartition("/")[2]
        await it.runtime.notices.links.decide(token, "deny", "no")  # the process died before it was in the call
        assert (await decide(it, path, "approve")).status_code == 410
        assert (await it.get(path)).status_code == 410
        assert (await it.runtime.get(id)).waiting_for == "approval"
        assert (await decide(it, path, "deny", "another reason")).status_code == 200
        record = await it.runtime.get(id)
        assert record.approval is not None
        assert record.approval["reason"] == "no"


async def test_hostile_text_is_only_text(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        _, path = await ask(it, sent, note=HOSTILE, token="hunter2-hunter2-hunter2")
        page = await it.get(path)
        text = page.text
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "&lt;script&gt;" in text
        assert "hunter2" not in text
        assert re.findall(r"<(\w+)[^>]*\bon\w+=", text) == []
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "unsafe" not in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        assert "set-cookie" not in page.headers
        done = await decide(it, path, "deny", HOSTILE + "x" * 5_000)
        assert done.status_code == 200


async def test_the_page_speaks_chinese(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        _, path = await ask(it, sent)
        for accepted, word in (
            ("zh-CN,en;q=0.5", "批准"),
            ("en,zh;q=0.9", "Approve"),
            ("fr", "Approve"),
            (";;q=x", "Approve"),
        ):
            assert word in (await it.get(path, headers={"accept-language": accepted})).text
        assert "已批准" in (await it.post(path, data={"decision": "approve"}, headers={"accept-language": "zh"})).text


async def test_forms_that_say_nothing_decide_nothing(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        bodies: list[dict[str, Any]] = [
            {}, {"data": {"decision": "maybe"}}, {"json": {"decision": "approve"}}, {"content": b"\xff\x00=&&", "headers": FORM},
            {"content": b"decision=approve&decision=deny", "headers": FORM}, {"params": {"decision": "approve"}},
        ]  # fmt: skip
        for body in bodies:
            answer = await it.post(path, **body)
            assert answer.status_code == 400, body
        assert (await it.post(path, content=b"x" * 100_000, headers=FORM)).status_code == 413
        assert (await it.get(path, headers={"host": "evil.example"})).status_code == 403
        foreign = await it.post(path, data={"decision": "approve"}, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert (await it.runtime.get(id)).waiting_for == "approval"


@asynccontextmanager
async def allowing(
    *allows: str, store: str = "memory://", policy: Policy | None = None, tools: Any = (pay, other)
) -> AsyncIterator[Api]:
    given = settings()
    given["webhooks"] = [{**given["webhooks"][0], "link_allows": list(allows)}]
    async with served(tools, store, policy=policy or Policy(ask=["pay", "other"]), **given) as it:
        yield it


async def test_a_link_changes_nothing_that_it_does_not_allow(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        page = (await it.get(path)).text
        assert 'name="arguments"' not in page
        assert 'name="output"' not in page
        answer = await it.post(path, data={"decision": "respond", "output": '"mine"'})
        assert answer.status_code == 400
        assert (await it.post(path, data={"decision": "approve", "arguments": '{"amount": 999}'})).status_code == 200
        result = await (await it.runtime.handle(id)).result()
        assert result.output == "paid 1"


async def test_a_link_approves_with_other_arguments(sent: list[dict[str, Any]], tmp_path: Path) -> None:
    async with allowing("edit", store=sqlite_url(tmp_path)) as it:
        token = "hunter2-hunter2-hunter2"
        id, path = await ask(it, sent, note=HOSTILE, token=token)
        page = (await it.get(path)).text
        assert (token in page, "<script" in page, "\u202e" in page) == (False, False, False)
        shown = html.unescape(re.findall(r"<textarea class=\"json\"[^>]*>(.*?)</textarea>", page, re.DOTALL)[0])
        arguments = json.loads(shown)  # it can be read back, whatever is in it
        assert arguments["note"] == HOSTILE
        for wrong in ("{", "[]", '{"amount": "x"}', '{"amount": 1, "amount": 2}', '{"amount": 1, "nothing": 1}', "NaN"):
            refused = await it.post(path, data={"decision": "approve", "arguments": wrong, "reason": "why"})
            assert refused.status_code == 422, wrong
            assert html.escape(wrong) in refused.text
            assert (await it.runtime.get(id)).waiting_for == "approval"
        changed = {**arguments, "amount": 7}
        assert (await it.post(path, data={"decision": "respond", "output": "1"})).status_code == 400
        done = await it.post(path, data={"decision": "approve", "arguments": json.dumps(changed)})
        assert (done.status_code, "Approved" in done.text) == (200, True)
        assert (await (await it.runtime.handle(id)).result()).output == "paid 7"
        record = await it.runtime.get(id)
        assert record.approval is not None
        assert (record.approval["edited"], record.approval["by"]) == (True, "link:people")
        assert (await it.post(path, data={"decision": "approve", "arguments": json.dumps(changed)})).status_code == 410
    assert all(token.encode() not in file.read_bytes() for file in tmp_path.iterdir())


async def test_arguments_that_were_not_changed_are_no_edit(sent: list[dict[str, Any]]) -> None:
    async with allowing("edit") as it:
        id, path = await ask(it, sent, note=HOSTILE, token="hunter2-hunter2-hunter2")
        page = (await it.get(path)).text
        shown = html.unescape(re.findall(r"<textarea class=\"json\"[^>]*>(.*?)</textarea>", page, re.DOTALL)[0])
        sent_back = shown.replace("\n", "\r\n")  # as browsers send it
        assert (await it.post(path, data={"decision": "approve", "arguments": sent_back})).status_code == 200
        record = await it.runtime.get(id)
        assert record.approval is not None
        assert record.approval["edited"] is False


async def test_a_link_answers_in_the_tools_place(sent: list[dict[str, Any]]) -> None:
    async with allowing("respond") as it:
        id, path = await ask(it, sent)
        for wrong in ("", "not json", "{"):
            assert (await it.post(path, data={"decision": "respond", "output": wrong})).status_code == 422
        assert (await it.post(path, data={"decision": "respond", "output": '"by hand"'})).status_code == 200
        result = await (await it.runtime.handle(id)).result()
        assert (result.output, result.metadata["answered_by"]) == ("by hand", "link:people")
        assert (await it.post(path, data={"decision": "respond", "output": '"by hand"'})).status_code == 410


async def test_a_cut_off_decision_is_repeated_with_the_same_content_only(sent: list[dict[str, Any]]) -> None:
    async with allowing("edit", "respond") as it:
        id, path = await ask(it, sent)
        links, token = it.runtime.notices.links, path.rpartition("/")[2]
        await links.decide(token, "respond", "no", '"mine"')  # the process died before it was in the call
        stored = await it.runtime.store.document("notice.link", token.partition(".")[0])
        assert stored is not None
        assert b"mine" not in stored.body
        for other in ({"decision": "respond", "output": '"other"'}, {"decision": "approve"}, {"decision": "deny"}):
            assert (await it.post(path, data=other)).status_code == 410
        assert (await it.runtime.get(id)).waiting_for == "approval"
        assert (await it.post(path, data={"decision": "respond", "output": '"mine"'})).status_code == 200
        assert (await (await it.runtime.handle(id)).result()).output == "mine"


async def test_what_a_link_allows_is_signed(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        id, path = await ask(it, sent)
        store, name = it.runtime.store, path.rpartition("/")[2].partition(".")[0]
        document = await store.document("notice.link", name)
        assert document is not None
        wider = {**msgspec.json.decode(document.body), "allows": ["edit", "respond"]}
        await store.put_document("notice.link", name, msgspec.json.encode(wider), None)
        assert (await it.post(path, data={"decision": "respond", "output": "1"})).status_code == 404
        assert (await it.runtime.get(id)).waiting_for == "approval"


async def test_of_two_approvers_one_link_is_one(sent: list[dict[str, Any]]) -> None:
    policy = Policy(rules=[Rule(verdict="ask", tools=["pay"], approvers=2)])
    async with allowing("edit", policy=policy) as it:
        id, path = await ask(it, sent)
        page = (await it.get(path)).text
        assert 'name="arguments"' not in page  # all approvers must see the same
        assert "0 / 2" in page
        done = await decide(it, path)
        assert "Another person must approve it" in done.text
        assert (await it.runtime.get(id)).waiting_for == "approval"
        await it.runtime.approve(id, by="ann")
        assert (await (await it.runtime.handle(id)).result()).output == "paid 1"


async def test_no_token_in_the_store_or_the_log(
    sent: list[dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with asking(sqlite_url(tmp_path)) as it:
        _, path = await ask(it, sent)
        await it.get(path)
        await decide(it, path)
    sign = path.partition(".")[2]
    ours = [record for record in caplog.records if record.name.startswith("clicket")]
    assert ours
    assert all(sign not in record.getMessage() for record in ours)
    assert all(sign.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_links_need_a_key_to_be_signed_with() -> None:
    with pytest.raises(UsageError, match="public_url needs secret_key"):
        Settings(public_url="https://clicket.example")


async def test_notices_are_of_admins(sent: list[dict[str, Any]]) -> None:
    async with asking() as it:
        await ask(it, sent)
        admin = await key_for(it, "root", "admin")
        [notice] = (await it.get("/notices", headers=admin)).json()["items"]
        id = notice["id"]
        whole = (await it.get(f"/notices/{id}", headers=admin)).json()
        assert whole["payload"]["type"] == "approval.requested"
        assert "link" not in json.dumps(whole["payload"])
        for scope in ("read", "call", "approve"):
            headers = await key_for(it, scope, scope)
            answers = [await it.get(path, headers=headers) for path in ("/notices", f"/notices/{id}")]
            answers.append(await it.post(f"/notices/{id}/replay", headers=headers))
            assert [answer.status_code for answer in answers] == [403] * 3
        assert (await it.post(f"/notices/{id}/replay", headers=admin)).status_code == 200
        await eventually(lambda: len(sent) == 2)
        assert sent[0] == sent[1]
        assert (await it.post("/notices/msg_x/replay", headers=admin)).status_code == 404
