"""AG-UI and A2A: what one key cannot do to another's threads and tasks, forged answers, self-approval, and requests that are too much."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.protocols.a2a_kit import VERSION, rpc
from tests.protocols.kit import Run, read_run, run, shop, user
from tests.scenarios.agent_server_kit import Gate, script
from tests.scenarios.server_kit import Api, key_for, served

from clicket import Policy, tool
from clicket.errors import NotFound
from clicket.runtime.calls.external_calls import complete_own
from clicket.server import keys


def resume(made: Run, **payload: Any) -> list[dict[str, Any]]:
    return [{"interruptId": made.interrupts[0]["id"], "status": "resolved", "payload": payload}]


async def test_threads_and_runs_of_another_key_are_not_there(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"], self_approval=True)) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read", "approve")
        mine = await run(it, user("pay 5"), headers=ann)
        assert mine[-1]["outcome"]["type"] == "interrupt"
        looked = await run(it, id="look", headers=bob)
        assert looked.types == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"], "bob's thread of this name is empty"
        stolen = await run(it, id="r1", headers=bob)
        assert not stolen.of("TOOL_CALL_START"), "nor is the run's id known"
        forged = await run(it, id="f", headers=bob, resume=resume(mine, approved=True))
        assert (forged.types, forged[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "not_waiting")
        call = (await it.get(f"/calls/{mine.interrupts[0]['id']}", headers=ann)).json()
        assert call["waiting_for"] == "approval"


async def test_tasks_of_another_key_are_not_there(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read", "approve")
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "pay"}], "contextId": "c"}}
        task = (await rpc(it, "SendMessage", body, headers=ann))["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        answer = {"messageId": "x", "role": "ROLE_USER", "parts": [{"text": "approve"}], "taskId": task["id"]}
        for method, params in (
            ("GetTask", {"id": task["id"]}),
            ("CancelTask", {"id": task["id"]}),
            ("SubscribeToTask", {"id": task["id"]}),
            ("SendMessage", {"message": answer}),
            ("SendStreamingMessage", {"message": answer}),
        ):
            error = (await rpc(it, method, params, headers=bob))["error"]
            assert (error["code"], "there is no task" in error["message"]) == (-32001, True), method
        assert (await rpc(it, "ListTasks", {"contextId": "c"}, headers=bob))["result"]["tasks"] == []
        own = (await rpc(it, "SendMessage", body, headers=bob))["result"]["task"]
        assert own["id"] == task["id"], "each key has its own contexts"
        assert len((await rpc(it, "ListTasks", headers=bob))["result"]["tasks"]) == 1


async def test_nobody_approves_their_own_calls_and_only_approvers_approve(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"])) as it:
        plain, both = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read", "approve")
        for headers, code in ((plain, "missing_scope"), (both, "permission_denied")):
            made = await run(it, user("pay 5"), headers=headers)
            for payload in ({"approved": True}, {"approved": True, "response": "x"}):
                refused = await run(it, id=f"a{len(payload)}", headers=headers, resume=resume(made, **payload))
                assert (refused.types, refused[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], code)
            call = (await it.get(f"/calls/{made.interrupts[0]['id']}", headers=headers)).json()
            assert call["waiting_for"] == "approval", "nothing was decided"
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "pay"}]}}
        task = (await rpc(it, "SendMessage", body, headers=plain))["result"]["task"]
        answer = {"messageId": "x", "role": "ROLE_USER", "parts": [{"text": "approve"}], "taskId": task["id"]}
        error = (await rpc(it, "SendMessage", {"message": answer}, headers=plain))["error"]
        assert (error["code"], "scope approve" in error["message"]) == (-32000, True)


def answer_to(task: Any, id: str, **part: Any) -> dict[str, Any]:
    return {"message": {"messageId": id, "role": "ROLE_USER", "parts": [part], "taskId": task["id"]}}


def amounts(task: Any) -> list[int]:
    """What the task asks about, once for each question."""
    return [part["data"]["arguments"]["amount"] for part in task["status"]["message"]["parts"][1:]]


PAYMENTS = [[["pay", {"amount": 5}]], [["pay", {"amount": 900}]], "Paid."]
FIRST = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "pay"}]}}


async def test_an_answer_is_about_the_question_that_was_shown(tmp_path: Path) -> None:
    async with shop(tmp_path, PAYMENTS) as it:
        task = (await rpc(it, "SendMessage", FIRST))["result"]["task"]
        shown = task["status"]["message"]["parts"][1]["data"]
        assert await it.runtime.approve(shown["callId"], by="another person")
        await until_asked(it, 900)
        late = await rpc(it, "SendMessage", answer_to(task, "m2", data={"approved": True, "hash": shown["hash"]}))
        assert late["error"]["code"] == -32602
        for _ in range(2):  # the message counts once, although its sender knows the question by now
            asked = (await rpc(it, "SendMessage", answer_to(task, "m3", text="approve")))["result"]["task"]
            assert (asked["status"]["state"], amounts(asked)) == ("TASK_STATE_INPUT_REQUIRED", [900])
        done = (await rpc(it, "SendMessage", answer_to(task, "m4", text="approve")))["result"]["task"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


async def until_asked(it: Api, amount: int) -> None:
    async def asked() -> bool:
        waiting = (await it.runtime.history(waiting_for="approval")).items
        return [record.arguments for record in waiting] == [{"amount": amount}]

    await eventually(asked)


async def test_a_message_that_is_sent_many_times_at_once_decides_once(tmp_path: Path) -> None:
    async with shop(tmp_path, PAYMENTS) as it:
        task = (await rpc(it, "SendMessage", FIRST))["result"]["task"]
        await asyncio.gather(*(rpc(it, "SendMessage", answer_to(task, "m2", text="approve")) for _ in range(4)))
        await until_asked(it, 900)
        again = (await rpc(it, "SendMessage", answer_to(task, "m2", text="approve")))["result"]["task"]
        assert amounts(again) == [900]


async def test_a_message_is_written_down_before_it_is_applied(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"])) as it:
        me = await key_for(it, "me", "call", "read", "approve")
        task = (await rpc(it, "SendMessage", FIRST, headers=me))["result"]["task"]
        answer = answer_to(task, "m2", text="approve")
        assert "another person" in (await rpc(it, "SendMessage", answer, headers=me))["error"]["message"]
        again = (await rpc(it, "SendMessage", answer, headers=me))["result"]["task"]
        assert amounts(again) == [5]


async def test_a_key_that_may_not_read_gets_what_its_run_makes_and_nothing_else(tmp_path: Path) -> None:
    async with shop(tmp_path, [[["pay", {"amount": 5}]], "Paid."], policy=None) as it:
        key, text = await keys.create(it.runtime.store, name="ann", scopes=("call",), now=1.0)
        await key_for(it, "other", "read")
        calls = {"authorization": f"Bearer {text}"}
        assert (await run(it, user("a secret"), headers=calls)).text == "Paid."
        second = await run(it, user("next", "u2"), id="r2", headers=calls)
        assert (second.text, second.of("MESSAGES_SNAPSHOT")) == ("Paid.", [])
        body = {"threadId": "t", "runId": "look", "messages": []}
        refused = await it.post("/ag-ui/helper", json=body, headers=calls)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
        admin = await key_for(it, "root", "admin")
        seen = await run_as(it, key.id, admin, runId="look")
        assert "a secret" in str(seen.of("MESSAGES_SNAPSHOT"))


async def test_a_key_that_may_not_read_does_not_follow_a_turn_that_it_began_elsewhere(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        calls = await key_for(it, "ann", "call")
        begun = {**FIRST["message"], "contextId": "t"}
        await rpc(it, "SendMessage", {"message": begun}, headers=calls)
        refused = await it.post("/ag-ui/helper", json={"threadId": "t", "runId": "look", "messages": []}, headers=calls)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")


async def test_an_admin_in_another_callers_name_does_not_approve_either(tmp_path: Path) -> None:
    async with shop(tmp_path, policy=Policy(ask=["pay"])) as it:
        key, _ = await keys.create(it.runtime.store, name="ann", scopes=("call",), now=1.0)
        admin = await key_for(it, "root", "admin")
        made = await run_as(it, key.id, admin, messages=[user("pay 5")])
        refused = await run_as(it, key.id, admin, runId="r2", resume=resume(made, approved=True))
        assert (refused.types, refused[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "permission_denied")


async def run_as(it: Api, caller: str, headers: Any, **more: Any) -> Run:
    body = {"threadId": "t", "runId": "r1", "messages": [], **more}
    async with it.stream("POST", f"/ag-ui/helper?caller={caller}", json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return Run([event async for event in read_run(response)])


async def test_only_the_caller_completes_a_tool_of_its_program_and_nothing_else(tmp_path: Path) -> None:
    answers = [[["pick", {}], ["pay", {"amount": 5}]], "Done."]
    async with shop(tmp_path, answers) as it:
        key, text = await keys.create(it.runtime.store, name="ann", scopes=("call", "read"), now=1.0)
        await key_for(it, "other", "read")
        ann, tools = {"authorization": f"Bearer {text}"}, [{"name": "pick", "description": "Pick."}]
        made = await run(it, user("go"), headers=ann, tools=tools)
        [pick] = [e for e in made.of("TOOL_CALL_START") if e["toolCallName"] == "pick"]
        call = pick["metadata"]["clicket"]["callId"]
        owner, stranger = it.runtime.acting_for(key.id, {"call"}), it.runtime.acting_for("stranger", {"call"})
        for view, id in ((stranger, call), (owner, made.interrupts[0]["id"]), (owner, "nonsense")):
            with pytest.raises(NotFound):
                await complete_own(view, id, "forged", thread="t")
        assert await complete_own(owner, call, "red", thread="t") == call


async def test_scopes(tmp_path: Path) -> None:
    async with shop(tmp_path) as it:
        reads, calls = await key_for(it, "r", "read"), await key_for(it, "c", "call")
        body = {"threadId": "t", "runId": "r", "messages": [user("x")]}
        refused = await it.post("/ag-ui/helper", json=body, headers=reads)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "pay"}]}
        assert (await rpc(it, "SendMessage", {"message": message}, headers=reads))["error"]["code"] == -32000
        assert (await rpc(it, "ListTasks", headers=calls))["error"]["code"] == -32000
        assert (await rpc(it, "ListTasks", headers=reads))["result"]["tasks"] == []


async def test_requests_that_are_too_much_or_of_wrong_types(tmp_path: Path) -> None:
    async with shop(tmp_path, options={"max_body_size": 100_000}) as it:
        good = {"threadId": "t", "runId": "r", "messages": [user("x")]}
        for path in ("/ag-ui/helper", "/a2a/helper"):
            huge = await it.post(path, json={**good, "state": "x" * 200_000}, headers=VERSION)
            assert (huge.status_code, huge.json()["code"]) == (413, "too_large")
            plain = await it.post(path, content=b"{}", headers={"content-type": "text/plain"})
            assert plain.status_code == 415
        wrong: list[dict[str, Any]] = [
            {"threadId": ""},
            {"threadId": 5},
            {"threadId": "x" * 513},
            {"threadId": "a\x00b"},
            {"runId": ""},
            {"runId": "x" * 201},
            {"messages": None},
            {"messages": {}},
            {"messages": ["x"]},
            {"messages": [{"role": "user"}]},
            {"messages": [{"id": "u", "role": "robot", "content": "x"}]},
            {"messages": [{"id": "u", "role": "user", "content": 5}]},
            {"messages": [{"id": "u", "role": "user", "content": "  "}]},
            {"messages": [{"id": "u", "role": "user", "content": [{"type": "image", "source": {}}]}]},
            {"messages": [{"id": "u", "role": "tool", "content": "x"}]},
            {"tools": "x"},
            {"tools": [{"name": 1}]},
            {"context": [{"value": "x"}]},
            {"resume": [{"interruptId": "x"}]},
            {"resume": [{"interruptId": "x", "status": "maybe"}]},
        ]
        for more in wrong:
            refused = await it.post("/ag-ui/helper", json={**good, **more})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input"), (more, refused.text)
        twice = b'{"threadId": "t", "threadId": "u", "runId": "r", "messages": []}'
        ambiguous = await it.post("/ag-ui/helper", content=twice, headers={"content-type": "application/json"})
        assert ambiguous.status_code == 422
        deep = b'{"threadId": "t", "runId": "r", "messages": [], "state": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
        assert (
            await it.post("/ag-ui/helper", content=deep, headers={"content-type": "application/json"})
        ).status_code in (400, 422)
        assert (await it.get("/agents/t")).json()["turns"] == 0


async def test_a_revoked_key_ends_its_streams(tmp_path: Path) -> None:
    gate = Gate()
    async with shop(tmp_path, [[["gate", {}]], "done"], tools=[gate.tool]) as it:
        key, text = await keys.create(it.runtime.store, name="ann", scopes=("call", "read"), now=1.0)
        headers = {"authorization": f"Bearer {text}", **VERSION}
        await key_for(it, "other", "read")
        following = asyncio.ensure_future(run(it, user("go"), headers=headers))
        await gate.reached.wait()
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "turn-1:t"}}
        subscribed = asyncio.ensure_future(_read_all(it, body, headers))
        await eventually(lambda: len(it.parts.event_streams.open) == 2)
        await keys.revoke(it.runtime.store, key.id, now=2.0)
        made = await following
        assert (made[-1]["type"], made[-1]["code"]) == ("RUN_ERROR", "unauthorized")
        last = (await subscribed)[-1]
        assert json.loads(last[6:])["error"]["code"] == -32000
        gate.open.set()


async def _read_all(it: Api, body: Any, headers: Any) -> list[str]:
    async with it.stream("POST", "/a2a/helper", json=body, headers=headers) as response:
        return [line async for line in response.aiter_lines() if line.startswith("data: ")]


async def test_a_reader_that_stops_reading_is_dropped_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Each of the calls has a result of 200 kB: together more than the sockets take."""

    @tool(max_result_size=300_000)
    async def long() -> str:
        """A long result."""
        return "x" * 200_000

    answers = [[["long", {}]] * 5] * 8 + ["done"]
    agents = {"helper": {"model": script(tmp_path, answers), "max_observation": 300_000, "max_repeats": False}}
    options = {"stall_timeout": 0.3, "heartbeat": 0.1}
    async with served([long], agents=agents, options=options) as it:
        body = json.dumps({"threadId": "t", "runId": "r1", "messages": [user("go")]}).encode()
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(raw, (it.served.host, it.served.port))
            head = f"POST /ag-ui/helper HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            await loop.sock_sendall(raw, head.encode() + b"\r\n\r\n" + body)
            await eventually(lambda: it.parts.event_streams.dropped == 1)
        done = await it.parts.agents["helper"].wait("t", 1)
        assert done is not None
        assert done.text == "done"
