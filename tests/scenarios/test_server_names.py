"""Several calls with one id: every route lets the client choose one, and lists the choices that it may see."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.scenarios.server_kit import key_for, served

from clicket import Policy

TOKEN = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2


def id_of(headers: dict[str, str]) -> str:
    return headers["authorization"].split("_")[1]


async def test_admin_names_the_caller_on_every_route(store: str) -> None:
    async with served(store=store) as it:
        keys = [await key_for(it, name, "read", "call") for name in "ab"]
        admin = await key_for(it, "root", "admin")
        for number, key in enumerate(keys):
            await it.call("echo", {"value": number}, thread="t", id="x", headers=key)
        routes = (
            ("GET", ""),
            ("GET", "/result"),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("POST", "/approve"),
            ("POST", "/deny"),
        )
        for method, more in routes:
            path = f"/calls/x{more}"
            refused = await it.request(method, path, params={"thread": "t"}, headers=admin)
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict"), path
            assert "pass caller=" in refused.json()["detail"]
            for number, key in enumerate(keys):
                assert id_of(key) in refused.json()["detail"]
                params = {"thread": "t", "caller": id_of(key)}
                answer = await it.request(method, path, params=params, headers=admin)
                if more in ("/approve", "/deny"):
                    assert answer.json()["code"] == "not_waiting"
                else:
                    assert answer.status_code == 200, (path, answer.text)
                if not more:
                    assert answer.json()["output"] == number
                if more == "/result":
                    assert answer.json() == number
                unseen = await it.request(method, path, params={"thread": "t", "caller": "nobody"}, headers=admin)
                assert unseen.status_code == 404


async def test_thread_and_caller_are_required_only_where_they_differ() -> None:
    async with served() as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        admin = await key_for(it, "root", "admin")
        for thread in ("t1", "t2"):
            await it.call("echo", {}, thread=thread, id="x", headers=a)
        for headers in (a, admin):
            detail = (await it.get("/calls/x", headers=headers)).json()["detail"]
            assert "pass thread= to say which" in detail
        await it.call("echo", {}, thread="t3", id="x", headers=b)
        assert "thread= and caller=" in (await it.get("/calls/x", headers=admin)).json()["detail"]
        mine = (await it.get("/calls/x", headers=a)).json()["detail"]
        assert "t3" not in mine
        assert id_of(b) not in mine
        own = {"thread": "t1", "caller": id_of(a)}
        assert (await it.get("/calls/x", params=own, headers=a)).status_code == 200, "a key may use its own name"
        assert (await it.get("/calls/x", params={"caller": id_of(a)}, headers=b)).status_code == 403


async def test_scope_approve_names_the_caller_of_what_waits(store: str) -> None:
    async with served(store=store, policy=Policy(ask=["add"])) as it:
        keys = [await key_for(it, name, "read", "call") for name in "ab"]
        boss = await key_for(it, "boss", "approve")
        for number, key in enumerate(keys):
            body: dict[str, Any] = {"tool": "add", "arguments": {"a": number, "b": 0}, "thread": "t", "id": "w"}
            assert (await it.post("/calls", json=body, headers=key)).status_code == 202
            await it.call("echo", {}, thread="t", id="quiet", headers=key)
        for path in ("/calls/w/approve", "/calls/w/deny"):
            refused = await it.post(path, headers=boss)
            assert refused.status_code == 409
            assert "pass caller=" in refused.json()["detail"]
        params = {"caller": id_of(keys[1])}
        assert (await it.get("/calls/w", params=params, headers=boss)).json()["arguments"] == {"a": 1, "b": 0}
        waiting = await it.get("/calls", params={**params, "waiting_for": "approval"}, headers=boss)
        assert [item["caller"] for item in waiting.json()["items"]] == [id_of(keys[1])]
        assert (await it.get("/calls", params=params, headers=boss)).status_code == 403
        assert (await it.get("/calls/quiet", params=params, headers=boss)).status_code == 404
        assert (await it.post("/calls/w/deny", params=params, headers=boss)).json()["approved"] is False
        blind = await it.post("/calls/w/approve", headers=boss)
        assert blind.status_code == 409, "one is left, but it may not be the one that the approver saw"
        assert id_of(keys[1]) not in blind.json()["detail"], "an approver may not see a call that does not wait"
        params = {"caller": id_of(keys[0])}
        assert (await it.post("/calls/w/approve", params=params, headers=boss)).json()["approved"] is True
        states = [(await it.get("/calls/w", headers=key)).json()["success"] for key in keys]
        assert states[1] is False


async def test_sentences_are_about_what_is_wrong() -> None:
    async with served() as it:
        cursor = await it.get("/calls", params={"cursor": "garbage"})
        assert (cursor.status_code, cursor.json()["code"]) == (400, "invalid_query")
        assert all(each in cursor.json()["detail"] for each in ("cursor", "garbage"))
        for path, body in (
            ("/calls", b"{}"),
            ("/calls", b'{"tool":"add","tool":"add"}'),
            ("/agents/t/tool-states/reset", b'{"toolname":1}'),
        ):
            refused = await it.post(path, content=body, headers={"content-type": "application/json"})
            assert refused.status_code == 422
            assert "(arguments)" not in refused.text, refused.text
        assert (await it.post("/calls", json={})).json()["detail"].startswith("(body): ")
        judged = await it.call("add", [1])
        assert "(arguments)" in judged.json()["detail"], "the error names the arguments"


async def test_an_empty_last_event_id_is_none(store: str) -> None:
    async with served(store=store) as it:
        await it.call("count", {}, id="c")
        whole = await it.get("/calls/c/events")
        again = await it.get("/calls/c/events", headers={"last-event-id": ""})
        assert (again.status_code, again.text) == (200, whole.text)


async def test_the_access_log_hides_what_looks_like_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with served() as it:
        await it.get(f"/calls/{TOKEN}")
        await it.call("add", {"a": 1, "b": 1}, id=f"{TOKEN}-made")
        await it.get("/calls/plain")
    lines = [record for record in caplog.records if record.name == "clicket.access"]
    assert [getattr(line, "call_id", None) for line in lines][-1] == "plain"
    for line in lines:
        assert TOKEN not in line.getMessage()
        assert TOKEN not in str(vars(line))
