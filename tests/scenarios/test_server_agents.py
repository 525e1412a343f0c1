"""Agents behind HTTP: one turn streamed, waited for or left running; stop and approval; the choice of an agent; bad requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_server_kit import TURN, Gate, say, script, served_agent, streamed, with_id
from tests.scenarios.kit import make
from tests.scenarios.server_kit import Api, key_for, read_sse, served

from clicket import Policy
from clicket.agents import Limits
from clicket.errors import UsageError
from clicket.server import create_app

# One turn.


async def test_a_turn_is_streamed(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        events = await streamed(it, "add 1 and 2")
        kinds = [event["event"] for event in events if event["event"] not in ("delta", "usage")]
        assert kinds == "state message tool_started tool_result message state final".split()
        assert (
            "".join(e["data"]["data"]["text"] for e in events if e["event"] == "delta" and e["data"]["step"] == 2)
            == TURN[1]
        )
        final = events[-1]["data"]
        assert (final["data"]["text"], final["data"]["stopped"], final["turn"]) == (TURN[1], "finished", 1)
        ids = [event["id"] for event in with_id(events)]
        assert len(set(ids)) == len(ids)
        assert all("id" not in event for event in events if event["event"] == "delta")


async def test_the_format_of_the_answer_is_negotiated(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        as_json = await say(it, headers={"accept": "application/json"})
        assert as_json.status_code == 200
        result = as_json.json()
        assert (result["text"], result["state"], result["stopped"], result["steps"], result["turn"]) == (
            TURN[1], "finished", "finished", 2, 1,
        )  # fmt: skip
        assert [message["role"] for message in result["messages"]] == ["user", "assistant", "tool", "assistant"]
        second = (await say(it, wait=True)).json()
        assert (second["turn"], second["begins"], len(second["messages"])) == (2, 4, 8)
        assert (await say(it, wait=20)).json()["turn"] == 3
        assert (await say(it, stream=False)).status_code == 202
        await it.parts.agents["helper"].wait("t", 4)
        both = await streamed(it, "hello", headers={"accept": "text/event-stream, application/json"})
        assert both[-1]["event"] == "final"
        assert (await streamed(it, "hello", wait=True, stream=True))[-1]["data"]["turn"] == 6


LIMITS: dict[str, float] = {
    "max_steps": 6, "max_calls": 6, "max_tokens": 600, "max_cost": 0.6, "max_seconds": 60.5, "max_repeats": 6,
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(Limits)])
async def test_a_request_can_lower_each_limit_and_raise_none(tmp_path: Path, name: str) -> None:
    model = script(tmp_path, {"answers": ["done"], "repeat": True}, "own.json")
    async with served_agent(tmp_path, agents={"helper": {"model": model, **LIMITS}}) as it:
        most, raised = LIMITS[name], LIMITS[name] + 1
        for more in ({}, {"when": "next"}, {"wait": 0}):
            refused = await say(it, limits={name: raised}, **more)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
            for part in (f"limits: {name} is {raised:g}", f"the agent allows {most:g}", f"at most {most:g}"):
                assert part in refused.json()["detail"]
        assert (await it.get("/agents/t")).json()["turns"] == 0
        assert (await it.get("/agents/t/queue")).json()["items"] == []
        assert (await say(it, limits={name: -1})).status_code == 422
        ended = await say(it, limits={name: most, "max_steps": 1}, wait=True)
        assert ended.json()["stopped"] == "finished", ended.text
        record = await it.runtime.get("turn-1", thread="agent:helper/t")
        begun = next(event.data["entry"] for event in record.events if event.data.get("entry", {}).get("e") == "begun")
        assert begun["limits"] == {**LIMITS, "max_steps": 1}


async def test_a_limit_that_the_agent_does_not_have_can_be_set(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        result = (await say(it, limits={"max_calls": 0, "max_cost": None}, wait=True)).json()
        assert (result["stopped"], result["calls"]) == ("budget", 0)
        assert (await say(it, limits={"max_tokens": 10_000}, wait=True)).json()["stopped"] == "finished"
        assert (await say(it, limits={"max_stepz": 1})).status_code == 422


async def test_wait_that_runs_out_and_a_thread_that_is_busy(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        begun = await say(it, thread="a b", wait=0.01)
        assert begun.status_code == 202
        assert begun.headers["location"] == "/agents/a%20b"
        assert begun.json() == {"agent": "helper", "thread": "a b", "turn": 1, "state": "running"}
        await gate.reached.wait()
        for body in ({}, {"wait": True}, {"stream": False}):
            busy = await say(it, thread="a b", **body)
            assert (busy.status_code, busy.json()["code"]) == (409, "agent_busy")
        assert (await it.get(begun.headers["location"])).json()["state"] == "running"
        assert (await say(it, thread="other", wait=0)).status_code == 202, "other threads are free"
        gate.open.set()
        await it.parts.agents["helper"].wait("a b", 1)
        assert (await it.get("/agents/a%20b")).json()["text"] == "done"


async def test_a_client_that_disconnects_does_not_stop_the_turn(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        async with it.stream("POST", "/agents/t/messages", json={"message": "go"}) as response:
            async for event in read_sse(response):
                if event["event"] == "tool_started":
                    break
        await eventually(lambda: not it.parts.event_streams.open)
        gate.open.set()
        result = await it.parts.agents["helper"].wait("t", 1)
        assert (result.text, result.stopped) == ("done", "finished")


async def test_a_turn_that_fails_is_reported(tmp_path: Path) -> None:
    agents = {"helper": {"model": script(tmp_path, ["only once"], "once.json"), "model_retries": 0}}
    async with served_agent(tmp_path, agents=agents) as it:
        assert (await say(it, wait=True)).json()["state"] == "finished"
        failed = await say(it, wait=True)
        assert failed.status_code == 200
        assert (failed.json()["state"], failed.json()["stopped"]) == ("error", None)
        assert "had them all" in failed.json()["error"]
        events = await streamed(it, "again")
        assert events[-1]["event"] == "error"
        assert "had them all" in events[-1]["data"]["data"]["message"]
        assert (await it.get("/agents/t")).json()["state"] == "error"


async def test_stop(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        assert (await it.post("/agents/t/stop")).json() == {"stopped": False}
        running = asyncio.create_task(say(it, wait=True))
        await gate.reached.wait()
        assert (await it.post("/agents/t/stop", json={"reason": "enough"})).json() == {"stopped": True}
        result = (await running).json()
        assert (result["stopped"], result["state"], result["text"]) == ("cancelled", "idle", "Terminated: Cancelled")
        roles = [message["role"] for message in result["messages"]]
        assert roles == ["user", "assistant", "tool"], "the interrupted call has an answer"


async def test_a_message_that_waits_is_its_senders(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        ann, bob = await key_for(it, "ann", "read", "call"), await key_for(it, "bob", "read", "call")
        reader = await key_for(it, "reader", "read")
        await say(it, wait=0, headers=ann)
        await gate.reached.wait()
        assert (await say(it, "later", when="next", id="m", headers=ann)).status_code == 202
        seen = (await it.get("/agents/t/queue", headers=ann)).json()
        assert (seen["agent"], seen["thread"]) == ("helper", "t")
        (message,) = seen["items"]
        assert message.pop("at") > 0
        assert message == {"id": "m", "text": "later", "when": "next", "thread": "t", "files": []}
        assert (await it.get("/agents/t/queue", headers=bob)).json()["items"] == []
        assert (await it.delete("/agents/t/messages/m", headers=bob)).json() == {"removed": False}
        assert (await it.delete("/agents/t/messages/m", headers=reader)).status_code == 403
        assert (await it.get("/agents/t/queue?agent=none", headers=ann)).status_code == 404
        assert (await it.delete("/agents/t/messages/m", headers=ann)).json() == {"removed": True}
        assert (await it.get("/agents/t/queue", headers=ann)).json()["items"] == []
        gate.open.set()


async def test_approval_in_the_middle(tmp_path: Path) -> None:
    async with served_agent(tmp_path, policy=Policy(ask=["add"])) as it:
        assert (await say(it, wait=0)).status_code == 202
        waiting = await eventually_waiting(it)
        assert (await it.post(f"/calls/{waiting}/approve", params={"thread": "t"})).status_code == 200
        await it.parts.agents["helper"].wait("t", 1)
        assert (await it.get("/agents/t")).json()["text"] == TURN[1]


async def eventually_waiting(it: Api) -> str:
    while True:
        found: list[str] = (await it.get("/agents/t")).json()["waiting_for"]
        if found:
            return found[0]


# Which agent.


async def test_several_agents(tmp_path: Path) -> None:
    one, two = script(tmp_path, {"answers": ["I am one"], "repeat": True}, "1"), script(tmp_path, ["I am two"], "2")
    agents = {"one": {"model": one}, "two": {"model": two, "max_steps": 7}}
    async with served_agent(tmp_path, agents=agents) as it:
        unsaid = await say(it, wait=True)
        assert (unsaid.status_code, unsaid.json()["code"]) == (409, "conflict")
        assert "default_agent" in unsaid.json()["detail"]
        assert (await say(it, agent="one", wait=True)).json()["text"] == "I am one"
        begun = await say(it, agent="two", wait=0)
        assert begun.headers["location"] == "/agents/t?agent=two"
        await it.parts.agents["two"].wait("t", 1)
        assert (await it.get(begun.headers["location"])).json()["text"] == "I am two"
        assert (await it.get("/agents/t/messages", params={"agent": "one"})).json()["turns"][0]["text"] == "I am one"
        wrong = await say(it, agent="ome")
        assert (wrong.status_code, wrong.json()["code"]) == (404, "not_found")
        assert "Did you mean 'one'" in wrong.json()["detail"]
        listed = (await it.get("/agents")).json()["items"]
        assert [(each["name"], each["kind"], each["default"]) for each in listed] == [
            ("one", "react", False), ("two", "react", False),
        ]  # fmt: skip
        assert listed[1]["limits"]["max_steps"] == 7
    async with served_agent(tmp_path, agents=agents, default_agent="one") as it:
        assert (await say(it, wait=True)).json()["agent"] == "one"
        assert [each["default"] for each in (await it.get("/agents")).json()["items"]] == [True, False]


async def test_without_any_agent_it_says_how_to_get_one() -> None:
    async with served() as it:
        for response in (
            await say(it), await it.get("/agents/t"), await it.get("/agents/t/messages"), await it.get("/agents/t/events"),
            await it.post("/agents/t/stop"),
        ):  # fmt: skip
            assert (response.status_code, response.json()["code"]) == (404, "no_agent")
            assert "[agents." in response.json()["detail"]
            assert "clicket.toml" in response.json()["detail"]
        assert (await it.get("/agents")).json() == {"items": []}
        assert (await it.get("/agents/t/tool-states")).status_code == 200


def test_a_mistake_is_reported_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="Did you mean 'model'"):
        create_app(make(agents={"helper": {"modle": "openai:x"}}))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_input"),
        ({"message": ""}, 422, "invalid_input"),
        ({"message": " \n "}, 422, "invalid_input"),
        ({"message": "a\x00b"}, 422, "invalid_input"),
        ({"message": 1}, 422, "invalid_input"),
        ({"message": "x", "mesage": "y"}, 422, "invalid_input"),
        ({"message": "x", "wait": -1}, 422, "invalid_input"),
        ({"message": "x", "turn": 1.5}, 422, "invalid_input"),
        ({"message": "x" * (512 * 1024 + 1)}, 413, "too_large"),
    ],
)
async def test_what_is_no_message(tmp_path: Path, body: Any, status: int, code: str) -> None:
    async with served_agent(tmp_path) as it:
        response = await it.post("/agents/t/messages", json=body)
        assert (response.status_code, response.json()["code"]) == (status, code)
        assert (await it.get("/agents/t")).json()["turns"] == 0


async def test_strange_names_of_threads(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["yes"]) as it:
        for name in ("a%2Fb", "%E2%80%A8", "%2e%2e", "-", "a%3Fb", "%F0%9F%90%8E", "x" * 512):
            response = await say(it, thread=name, wait=True)
            assert response.status_code == 200, (name, response.text)
            assert (await it.get(f"/agents/{name}")).json()["turns"] == 1
        for name in ("x" * 513, "%00"):
            assert (await say(it, thread=name, wait=True)).status_code == 400


async def test_a_message_as_vendors_write_it_is_a_message(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["yes"] * 2) as it:
        for body in ({"role": "user", "content": "hello", "wait": True}, {"content": "hello", "wait": True}):
            response = await it.post("/agents/t/messages", json=body)
            assert (response.status_code, response.json()["text"]) == (200, "yes")
        for wrong in (
            {"agent": "content"}, {"role": "system", "content": "x"}, {"content": 7}, {"message": "x", "content": "y"},
        ):  # fmt: skip
            assert (await it.post("/agents/t/messages", json=wrong)).status_code == 422
        for text in (b'{"content" ', b'["content"]', b'{"content":' + b"[" * 5_000, b'{"content":"\xff"}'):
            head = {"content-type": "application/json"}
            assert (await it.post("/agents/t/messages", content=text, headers=head)).status_code in (400, 422)
