"""Calls over HTTP: create, wait, read, list, cancel and approve. Refusals are problems, outcomes are results."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate
from tests.scenarios.kit import assert_sound, make
from tests.scenarios.server_kit import Api, served

import clicket
from clicket import Policy, State, ToolContext, tool
from clicket.agents import Agent, Limits, Turn
from clicket.model.record import WaitingFor
from clicket.testing import ScriptedModel

PROBLEM = "application/problem+json"


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:clicket:problem:{code}")
    assert body["detail"]
    return body


async def test_a_call_that_is_waited_for(store: str) -> None:
    async with served(store=store) as it:
        answer = await it.call("add", {"a": 1, "b": 2}, thread="t1")
        result = answer.json()
        assert answer.status_code == 200
        assert (result["output"], result["success"], result["state"]) == (3, True, "completed")
        record = (await it.get(f"/calls/{result['call_id']}", params={"thread": "t1"})).json()
        assert record["arguments"] == {"a": 1, "b": 2}
        assert [event["seq"] for event in record["events"]] == list(range(1, len(record["events"]) + 1))
        assert list(record["stages"]) == ["find", "authorize", "validate", "execute", "process", "persist"]
        assert_sound(await it.runtime.get(result["call_id"]))


async def test_a_failed_call_is_an_outcome(store: str) -> None:
    async with served(store=store) as it:
        answer = await it.call("fail", {"message": "out of luck"})
        assert answer.status_code == 200
        assert answer.json()["success"] is False
        assert answer.json()["error"]["code"] == "tool_error"


async def test_without_wait_a_call_is_answered_when_it_is_durable(store: str) -> None:
    go = asyncio.Event()

    @tool
    async def slow() -> str:
        await go.wait()
        return "done"

    async with served([slow], store) as it:
        answer = await it.post("/calls", json={"tool": "slow", "thread": "t 1", "id": "a/b?c"})
        assert answer.status_code == 202
        assert answer.headers["location"] == "/calls/a%2Fb%3Fc?thread=t%201"
        assert answer.json()["id"] == "a/b?c"
        assert (await it.get(answer.headers["location"])).json()["state"] in ("pending", "initializing", "running")
        go.set()
        shown = await eventually(lambda: _ended(it, answer.headers["location"]))
        assert shown["output"] == "done"
        assert (await it.get("/calls/a%2Fb%3Fc/result")).text == "done"


async def _ended(it: Api, location: str) -> Any:
    record = (await it.get(location)).json()
    return record if record["ended_at"] else None


async def test_calls_are_listed_by_all_that_they_can_wait_for() -> None:
    async with served() as it:
        later = {"tool": "add", "arguments": {"a": 1, "b": 2}, "id": "later", "not_before": 9e9}
        assert (await it.post("/calls", json=later)).status_code == 202
        for what in get_args(WaitingFor):
            listed = await it.get("/calls", params={"waiting_for": what})
            assert listed.status_code == 200, listed.text
            assert [call["id"] for call in listed.json()["items"]] == (["later"] if what == "time" else [])
        chosen = {"action": "cancel", "filter": {"waiting_for": "time"}}
        assert (await it.post("/bulk", json=chosen)).json()["done"] == 1
        for wrong in ("slot", "dep:", "time:db"):
            problem(await it.get("/calls", params={"waiting_for": wrong}), 400, "invalid_query")
            assert (
                await it.post("/bulk", json={"action": "cancel", "filter": {"waiting_for": wrong}})
            ).status_code == 422


async def test_turns_are_listed_by_what_they_wait_for_that_has_a_name(tmp_path: Path) -> None:
    """A turn was run with a dep and a model; the process that serves the store has neither."""
    store = f"sqlite:///{tmp_path / 'calls.db'}"
    gate = Gate()

    async def drive(turn: Turn) -> tuple[str, str]:
        await gate()
        return "finished", ""

    async with make([], store, close_timeout=0.0) as rt:
        agent = Agent(rt, drive, name="react", limits=Limits())  # type: ignore[arg-type]  # a plain str will do
        await agent.begin("go", thread="a", deps={"db/1 @x": 7})
        await agent.begin("go", thread="b", model=ScriptedModel([], name="special"))
        await gate.reached.wait()
    async with served([], store=store) as it:
        Agent(it.runtime, drive, name="react", limits=Limits())  # type: ignore[arg-type]
        await it.runtime.recover()

        async def listed(what: str) -> list[str]:
            return [each["thread"] for each in (await it.get("/calls", params={"waiting_for": what})).json()["items"]]

        async def both() -> bool:
            return [await listed("dep:db/1 @x"), await listed("model:special")] == [
                ["agent:react/a"],
                ["agent:react/b"],
            ]

        await eventually(both)
        assert await listed("dep:db") == []


def test_all_that_the_code_waits_for_is_a_filter() -> None:
    """`wait_for` writes what a call waits for into its row, and `history` filters by that."""
    source = "\n".join(path.read_text() for path in Path(clicket.__file__).parent.rglob("*.py"))
    written = re.findall(r"\bwait_for\((?:(?:call\.)?entry, )?\s*\"(\w+)\"", source)
    assert set(written) | {"approval"} == set(get_args(WaitingFor))


async def test_wait_runs_out_and_the_call_goes_on(store: str) -> None:
    go = asyncio.Event()

    @tool
    async def slow() -> str:
        await go.wait()
        return "done"

    async with served([slow], store) as it:
        answer = await it.post("/calls", json={"tool": "slow", "id": "x", "wait": 0.05})
        assert answer.status_code == 202
        assert answer.headers["location"] == "/calls/x"
        go.set()
        again = await it.post("/calls", json={"tool": "slow", "id": "x", "wait": 20})
        assert again.status_code == 200
        assert again.json()["output"] == "done"
        assert len((await it.get("/calls")).json()["items"]) == 1


@pytest.mark.parametrize("wait", [True, 0, False])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"tool": "ad", "arguments": {}}, 404, "tool_not_found"),
        ({"tool": "add", "arguments": {"a": 1}}, 422, "invalid_input"),
        ({"tool": "fail", "arguments": {}}, 403, "permission_denied"),
    ],
)
async def test_refusals_are_problems(body: dict[str, Any], status: int, code: str, wait: Any) -> None:
    async with served(policy=Policy(deny=["fail"])) as it:
        found = problem(await it.post("/calls", json={**body, "wait": wait}), status, code)
        record = (await it.get(f"/calls/{found['call_id']}")).json()
        assert record["error"]["code"] == code
        if code == "invalid_input":
            assert found["errors"]
        if code == "tool_not_found":
            assert "Did you mean 'add'" in found["detail"]


async def test_a_tool_that_is_unavailable_is_an_outcome() -> None:
    @tool(depends_on="add")
    async def later() -> int:
        return 1

    @tool
    async def add() -> int:
        return 1

    async with served([add, later]) as it:
        answer = await it.call("later", {})
        assert answer.status_code == 200
        assert answer.json()["error"]["code"] == "tool_unavailable"


async def test_same_id_same_call_other_arguments_conflict(store: str) -> None:
    async with served(store=store) as it:
        first = (await it.call("add", {"a": 1, "b": 2}, id="one")).json()
        assert (await it.call("add", {"a": 1, "b": 2}, id="one")).json()["call_id"] == first["call_id"]
        problem(await it.call("add", {"a": 1, "b": 3}, id="one"), 409, "conflict")
        by_header = await it.call("add", {"a": 1, "b": 2}, headers={"idempotency-key": "one"})
        assert by_header.json()["output"] == 3
        problem(await it.call("add", {"a": 1, "b": 2}, id="two", headers={"idempotency-key": "one"}), 409, "conflict")
        assert len((await it.get("/calls", params={"thread": "default"})).json()["items"]) == 1


async def test_a_full_queue_is_too_many_requests() -> None:
    go = asyncio.Event()

    @tool
    async def slow() -> None:
        await go.wait()

    async with served([slow], max_concurrency=1, max_queue=1) as it:
        for _ in range(2):
            assert (await it.post("/calls", json={"tool": "slow"})).status_code == 202
        refused = await it.post("/calls", json={"tool": "slow"})
        problem(refused, 429, "queue_full")
        assert refused.headers["retry-after"] == "1"
        go.set()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"[]", 422, "invalid_input"),
        (b'{"tool": "echo", "tool": "add"}', 422, "invalid_input"),
        (b'{"tool": "echo", "wait": true, "arguments": {"value": 1, "value": 2}}', 422, "invalid_input"),
        (b'{"tool": "echo", "wait": true, "arguments": {"value": NaN}}', 422, "invalid_input"),
        (b'{"tool": "echo", "wait": true, "arguments": {"value": 1e400}}', 422, "invalid_input"),
        (b'{"tool": "echo", "metadata": {"a": 1, "a": 2}}', 422, "invalid_input"),
        (b'{"tool": "echo", "arguments": {"value": "\\ud800"}, "wait": true}', 422, "invalid_input"),
        (
            b'{"tool": "echo", "arguments": {"value": ' + b"[" * 200 + b"]" * 200 + b'}, "wait": true}',
            422,
            "invalid_input",
        ),
        (b'{"tool": "echo", "arguments": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422, "invalid_input"),
        (b'{"tool": "echo", "arguments": [1], "wait": true}', 422, "invalid_input"),
        (b'{"tool": "echo", "arguments": "{}", "wait": true}', 422, "invalid_input"),
        (b'{"tool": "echo", "surprise": 1}', 422, "invalid_input"),
        (b'{"arguments": {}}', 422, "invalid_input"),
        (b'{"tool": "echo", "wait": -1}', 422, "invalid_input"),
        (b'{"tool": "echo", "thread": ""}', 422, "invalid_input"),
        (b'{"tool": "echo", "timeout": 0}', 422, "invalid_input"),
        (b'{"tool": "\xff"}', 400, "invalid_json"),
        (b"", 400, "invalid_json"),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, bytes) else None,
)
async def test_bad_bodies(body: bytes, status: int, code: str) -> None:
    async with served() as it:
        answer = await it.post("/calls", content=body, headers={"content-type": "application/json"})
        problem(answer, status, code)
        assert (await it.get("/healthz")).status_code == 200


async def test_only_json_is_taken() -> None:
    async with served() as it:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            answer = await it.post("/calls", content=b'{"tool": "echo"}', headers={"content-type": kind})
            problem(answer, 415, "unsupported_media_type")
        assert (await it.get("/calls")).json()["items"] == []


async def test_lists_are_paged_and_filtered(store: str) -> None:
    async with served(store=store) as it:
        for number in range(5):
            await it.call("add", {"a": number, "b": 0}, thread=f"t{number % 2}")
        await it.call("fail", {}, thread="t0")
        seen, cursor = [], None
        while True:
            page = (await it.get("/calls", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
            seen += [item["id"] for item in page["items"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert len(set(seen)) == len(seen) == 6
        assert len((await it.get("/calls", params={"thread": "t0"})).json()["items"]) == 4
        assert [i["tool"] for i in (await it.get("/calls", params={"state": "failed"})).json()["items"]] == ["fail"]
        whole = (await it.get("/calls", params={"full": "true", "tool": "fail"})).json()["items"][0]
        assert whole["events"]
        assert whole["success"] is False
        assert "events" not in (await it.get("/calls", params={"tool": "fail"})).json()["items"][0]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=1&limit=2",
        "state=done",
        "cursor=x",
        "sort=up",
        "since=nan",
        "full=1",
        "a=%ff",
    ],
)
async def test_bad_queries(query: str) -> None:
    async with served() as it:
        answer = await it.get(f"/calls?{query}")
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] in ("invalid_query", "usage")


async def test_cancel(store: str) -> None:
    started = asyncio.Event()

    @tool
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    async with served([slow], store) as it:
        made = (await it.post("/calls", json={"tool": "slow"})).json()
        await started.wait()
        answer = await it.post(f"/calls/{made['id']}/cancel", json={"reason": "enough"})
        assert answer.json() == {"id": made["id"], "thread": "default", "cancelled": True, "state": "cancelled"}
        again = await it.post(f"/calls/{made['id']}/cancel")
        assert again.json()["cancelled"] is False
        problem(await it.post("/calls/nobody/cancel"), 404, "not_found")
        problem(await it.get(f"/calls/{made['id']}/result"), 404, "not_found")


async def test_approve_and_deny(store: str) -> None:
    async with served(store=store, policy=Policy(ask=["add"])) as it:
        ids = [
            (await it.post("/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}})).json()["id"] for _ in "123"
        ]
        waiting = (await it.get("/calls", params={"waiting_for": "approval"})).json()["items"]
        assert {item["id"] for item in waiting} == set(ids)
        problem(await it.get(f"/calls/{ids[0]}/result"), 409, "not_ended")
        assert (await it.post(f"/calls/{ids[0]}/approve")).json()["approved"] is True
        assert (await it.post(f"/calls/{ids[1]}/deny", json={"reason": "no"})).json()["approved"] is False
        bad = await it.post(f"/calls/{ids[2]}/approve", json={"arguments": {"a": "x"}})
        problem(bad, 422, "invalid_input")
        edited = await it.post(f"/calls/{ids[2]}/approve", json={"arguments": {"a": 20, "b": 2}})
        assert edited.status_code == 200
        problem(await it.post(f"/calls/{ids[0]}/approve"), 409, "not_waiting")
        assert (await it.runtime.handle(ids[0])) is not None
        results = [await (await it.runtime.handle(id)).result() for id in ids]
        assert [result.output for result in results] == [3, None, 22]
        assert results[1].error is not None
        assert results[1].error.code == "approval_denied"


@pytest.mark.parametrize("cancel", [False, True])
async def test_a_client_that_leaves(store: str, cancel: bool) -> None:
    """Its call continues, unless the client asked for cancellation."""
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "done"

    async with served([slow], store) as it:
        body = json.dumps({"tool": "slow", "id": "x", "wait": True, "cancel_on_disconnect": cancel}).encode()
        _, writer = await asyncio.open_connection(it.served.host, it.served.port)
        head = f"POST /calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await started.wait()
        writer.transport.abort()
        if cancel:
            assert (await (await it.runtime.handle("x")).result()).state is State.CANCELLED
        else:
            assert (await it.get("/healthz")).status_code == 200
            assert (await it.runtime.state("x")) is State.RUNNING
            go.set()
            assert (await (await it.runtime.handle("x")).result()).output == "done"


async def test_ids_that_two_threads_used() -> None:
    async with served() as it:
        for thread in ("t1", "t2"):
            await it.call("add", {"a": 1, "b": 1}, id="same", thread=thread)
        problem(await it.get("/calls/same"), 409, "conflict")
        assert (await it.get("/calls/same", params={"thread": "t2"})).json()["thread"] == "t2"


async def test_tools_and_their_figures() -> None:
    async with served() as it:
        await it.call("add", {"a": 1, "b": 1}, thread="t1")
        tools = (await it.get("/tools", params={"thread": "t1"})).json()
        assert {each["name"] for each in tools["items"]} == {"add", "echo", "fail", "count", "long"}
        assert {each["name"]: each["available"] for each in tools["standings"]}["add"] is True
        one = (await it.get("/tools/add")).json()
        assert one["tool"]["input_schema"]["required"] == ["a", "b"]
        assert one["figures"]["success"] == 1
        problem(await it.get("/tools/ad"), 404, "tool_not_found")
        report = (await it.get("/report")).json()
        assert report["tools"]["add"]["total"] == 1
        assert 'clicket_tool_executions_total{state="completed",tool="add"} 1.0' in (await it.get("/metrics")).text


async def test_the_cache() -> None:
    runs = []

    @tool(cache=60)
    async def heavy() -> int:
        runs.append(1)
        return 7

    async with served([heavy]) as it:
        for _ in range(2):
            assert (await it.call("heavy")).json()["output"] == 7
        assert (await it.get("/cache/stats")).json()["hits"] == 1
        (item,) = (await it.get("/cache/items")).json()["items"]
        assert (item["tool"], item["access_count"], item["size"]) == ("heavy", 1, 1)
        assert (await it.get("/cache/items", params={"tag": "other"})).json() == {"items": [], "cursor": None}
        problem(await it.get("/cache/items", params={"cursor": "x"}), 400, "invalid_query")
        assert (await it.delete("/cache", params={"max_age": "60"})).json()["removed"] == 0
        cleared = (await it.delete("/cache", params={"tag": "tool:heavy"})).json()
        assert cleared == {"removed": 1, "tag": "tool:heavy", "max_age": None}
        await it.call("heavy")
        assert len(runs) == 2


async def test_unknown_paths_and_methods_are_problems() -> None:
    async with served() as it:
        problem(await it.get("/nowhere"), 404, "not_found")
        refused = await it.put("/calls")
        problem(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD, POST"
        assert (await it.head("/healthz")).status_code == 200


async def test_an_error_of_ours_is_a_problem_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as it:

        async def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a secret detail")

        monkeypatch.setattr(it.runtime, "history", broken)
        answer = await it.get("/calls")
        problem(answer, 500, "internal")
        assert "secret" not in answer.text
        assert "a secret detail" in caplog.text


async def test_progress_and_metadata_are_on_record() -> None:
    @tool
    async def steps(ctx: ToolContext) -> None:
        ctx.progress(1, 2, "half")

    async with served([steps]) as it:
        made = (await it.call("steps", None, metadata={"who": "me"}, priority=3, request_id="r")).json()
        record = (await it.get(f"/calls/{made['call_id']}")).json()
        assert record["progress"]["percentage"] == 100
        assert (record["metadata"]["who"], record["priority"], record["request_id"]) == ("me", 3, "r")
