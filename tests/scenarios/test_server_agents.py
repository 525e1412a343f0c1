"""Agents behind HTTP: one turn streamed, waited for or left running; history, state, events across turns, stop; and a crash."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.cli_kit import Command, Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import TOOLS, Api, Sse, read_sse, served

from clicket import Policy, tool
from clicket.errors import UsageError
from clicket.model.ids import alias_of
from clicket.ports import Keep
from clicket.server import create_app

TURN = [[["add", {"a": 1, "b": 2}]], "The sum is 3."]


def script(folder: Path, answers: Any, name: str = "answers.json") -> str:
    (folder / name).write_text(json.dumps(answers))
    return f"script:{folder / name}"


class Gate:
    """A tool that waits to be let through, and can say that it was reached."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

        @tool
        async def gate() -> str:
            """Wait."""
            self.reached.set()
            await self.open.wait()
            return "through"

        self.tool = gate


@asynccontextmanager
async def talking(folder: Path, answers: Any = TURN, tools: Any = TOOLS, **options: Any) -> AsyncIterator[Api]:
    model = script(folder, {"answers": answers, "repeat": True})
    agents = options.pop("agents", {"helper": {"model": model}})
    async with served(tools, agents=agents, **options) as it:
        yield it


async def say(it: Api, message: str = "hello", thread: str = "t", headers: Any = None, **body: Any) -> httpx2.Response:
    return await it.post(f"/agents/{thread}/messages", json={"message": message, **body}, headers=headers)


async def told(it: Api, message: str, thread: str = "t", headers: Any = None, **body: Any) -> list[Sse]:
    """A turn as it is streamed, to its end."""
    asked = {"message": message, **body}
    async with it.stream("POST", f"/agents/{thread}/messages", json=asked, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [event async for event in read_sse(response)]


def with_id(events: list[Sse]) -> list[Sse]:
    return [event for event in events if "id" in event]


async def replayed(it: Api, until: str, thread: str = "t", **query: Any) -> list[Sse]:
    """What `/events` says up to the event of that id."""
    headers = query.pop("headers", None)
    async with it.stream("GET", f"/agents/{thread}/events", params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [event async for event in read_sse(response, until=lambda event: event.get("id") == until)]


# One turn.


async def test_a_turn_is_streamed(tmp_path: Path) -> None:
    async with talking(tmp_path) as it:
        events = await told(it, "add 1 and 2")
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


async def test_how_the_answer_comes_is_asked_for(tmp_path: Path) -> None:
    async with talking(tmp_path) as it:
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
        both = await told(it, "hello", headers={"accept": "text/event-stream, application/json"})
        assert both[-1]["event"] == "final"
        assert (await told(it, "hello", wait=True, stream=True))[-1]["data"]["turn"] == 6


async def test_wait_that_runs_out_and_a_thread_that_is_busy(tmp_path: Path) -> None:
    gate = Gate()
    async with talking(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
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


async def test_who_leaves_does_not_stop_the_turn(tmp_path: Path) -> None:
    gate = Gate()
    async with talking(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        async with it.stream("POST", "/agents/t/messages", json={"message": "go"}) as response:
            async for event in read_sse(response):
                if event["event"] == "tool_started":
                    break
        await eventually(lambda: not it.parts.event_streams.open)
        gate.open.set()
        result = await it.parts.agents["helper"].wait("t", 1)
        assert (result.text, result.stopped) == ("done", "finished")


async def test_a_turn_that_fails_is_told(tmp_path: Path) -> None:
    agents = {"helper": {"model": script(tmp_path, ["only once"], "once.json"), "model_retries": 0}}
    async with talking(tmp_path, agents=agents) as it:
        assert (await say(it, wait=True)).json()["state"] == "finished"
        failed = await say(it, wait=True)
        assert failed.status_code == 200
        assert (failed.json()["state"], failed.json()["stopped"]) == ("error", None)
        assert "had them all" in failed.json()["error"]
        events = await told(it, "again")
        assert events[-1]["event"] == "error"
        assert "had them all" in events[-1]["data"]["data"]["message"]
        assert (await it.get("/agents/t")).json()["state"] == "error"


async def test_stop(tmp_path: Path) -> None:
    gate = Gate()
    async with talking(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        assert (await it.post("/agents/t/stop")).json() == {"stopped": False}
        running = asyncio.create_task(say(it, wait=True))
        await gate.reached.wait()
        assert (await it.post("/agents/t/stop", json={"reason": "enough"})).json() == {"stopped": True}
        result = (await running).json()
        assert (result["stopped"], result["state"], result["text"]) == ("cancelled", "idle", "Terminated: Cancelled")
        roles = [message["role"] for message in result["messages"]]
        assert roles == ["user", "assistant", "tool"], "the call that was cut off has its answer"


async def test_approval_in_the_middle(tmp_path: Path) -> None:
    async with talking(tmp_path, policy=Policy(ask=["add"])) as it:
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


# Looking.


async def test_history_is_paged(tmp_path: Path) -> None:
    async with talking(tmp_path, ["yes"]) as it:
        empty = await it.get("/agents/never/messages")
        assert (empty.status_code, empty.json()) == (
            200,
            {"agent": "helper", "thread": "never", "messages": [], "turns": [], "after": None},
        )
        for number in range(3):
            await say(it, f"message {number}", wait=True)
        first = (await it.get("/agents/t/messages", params={"limit": 2})).json()
        assert [turn["turn"] for turn in first["turns"]] == [1, 2]
        assert first["messages"] == [message for turn in first["turns"] for message in turn["messages"]]
        assert first["turns"][0]["messages"] == [
            {"role": "user", "content": "message 0"}, {"role": "assistant", "content": "yes"},
        ]  # fmt: skip
        rest = (await it.get("/agents/t/messages", params={"limit": 2, "after": first["after"]})).json()
        assert ([turn["turn"] for turn in rest["turns"]], rest["after"]) == ([3], None)


async def test_the_state_of_a_thread(tmp_path: Path) -> None:
    async with talking(tmp_path) as it:
        fresh = (await it.get("/agents/t")).json()
        assert (fresh["state"], fresh["turns"], fresh["agent"], fresh["thread"]) == ("idle", 0, "helper", "t")
        await say(it, wait=True)
        after = (await it.get("/agents/t")).json()
        assert (after["state"], after["turns"], after["text"], after["stopped"]) == ("finished", 1, TURN[1], "finished")
        assert after["usage"]["output_tokens"] > 0


async def test_events_are_told_again_and_go_on_across_turns(tmp_path: Path) -> None:
    async with talking(tmp_path) as it:
        first, second = with_id(await told(it, "one")), with_id(await told(it, "two"))
        last = second[-1]["id"]
        assert await replayed(it, last) == second, "without a word about where: the last turn"
        assert await replayed(it, last, after="0") == first + second
        assert await replayed(it, last, after="1") == second, "the number of a turn: what comes after it"
        middle = first[3]["id"]
        assert await replayed(it, last, after=middle) == first[4:] + second
        assert await replayed(it, last, headers={"last-event-id": middle}) == first[4:] + second
        bad = await it.get("/agents/t/events", params={"after": "soon"})
        assert (bad.status_code, bad.json()["code"]) == (400, "invalid_query")
        assert (await it.get("/agents/t/events", headers={"last-event-id": "x"})).status_code == 400


async def test_turns_that_were_swept_are_passed_over(tmp_path: Path) -> None:
    """Calls are kept for a day, threads for a month: who comes back later is told what is still on record, and goes on."""
    async with talking(tmp_path) as it:
        first = with_id(await told(it, "one"))
        await told(it, "two")
        await told(it, "three")
        await it.runtime.store.sweep(Keep(calls=0), 1_000)
        fourth = with_id(await told(it, "four"))
        assert await replayed(it, fourth[-1]["id"], after=first[2]["id"]) == fourth
        assert len((await it.get("/agents/t/messages")).json()["turns"]) == 4


async def test_a_page_that_is_loaded_again_misses_nothing(tmp_path: Path) -> None:
    """It reads the history, then the events after its last turn: of the one under way from its beginning, and of the next."""
    gate = Gate()
    async with talking(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        gate.open.set()
        await say(it, "one", wait=True)
        gate.open.clear()
        gate.reached.clear()
        begun = asyncio.create_task(told(it, "two"))
        await gate.reached.wait()
        page = (await it.get("/agents/t/messages")).json()
        known = page["turns"][-1]["turn"]
        seen: list[Sse] = []
        async with it.stream("GET", "/agents/t/events", params={"after": known}) as response:
            async for event in read_sse(response):
                seen.append(event)
                if event["event"] == "tool_started" and event["data"]["turn"] == 2:
                    gate.open.set()
                if event["event"] == "final" and event["data"]["turn"] == 2:
                    assert with_id(seen) == with_id(await begun)
                    await say(it, "three", wait=0)
                if event["event"] == "final" and event["data"]["turn"] == 3:
                    break
        assert {event["data"]["turn"] for event in seen} == {2, 3}
        ids = [event["id"] for event in with_id(seen)]
        assert len(set(ids)) == len(ids)


async def test_a_silent_stream_says_that_it_lives(tmp_path: Path) -> None:
    async with talking(tmp_path, options={"heartbeat": 0.05}) as it, it.stream("GET", "/agents/t/events") as response:
        async for line in response.aiter_lines():
            if line == ": heartbeat":
                return


async def test_streams_end_when_the_server_leaves(tmp_path: Path) -> None:
    async with talking(tmp_path) as it, it.stream("GET", "/agents/t/events") as response:
        await eventually(lambda: it.parts.event_streams.open)
        it.parts.shutdown.begin()
        assert [event["event"] async for event in read_sse(response)] == ["shutdown"]


# Several servers over one store.


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
    elif request.param == "redis":
        with redis_server(tmp_path) as redis:
            yield redis.url
    else:
        with postgres_server() as postgres:
            yield postgres.url()


async def test_a_turn_is_watched_and_stopped_from_another_server(shared: str, tmp_path: Path) -> None:
    gate, store = Gate(), shared
    answers = [[["gate", {}]], "done"]
    async with (
        talking(tmp_path, answers, [gate.tool], store=store) as one,
        talking(tmp_path, answers, [gate.tool], store=store) as two,
    ):
        here = asyncio.create_task(told(one, "go"))
        await gate.reached.wait()
        assert (await two.get("/agents/t")).json()["state"] == "running"
        busy = await say(two, "me too", wait=True)
        assert (busy.status_code, busy.json()["code"]) == (409, "agent_busy")
        there = asyncio.create_task(replayed(two, "1-4.2"))
        assert (await two.post("/agents/t/stop", json={"reason": "enough"})).json() == {"stopped": True}
        events = with_id(await here)
        assert events[-1]["data"]["data"]["stopped"] == "cancelled"
        assert await there == events
        gate.open.set()
        assert (await say(two, "again", wait=True)).json()["turn"] == 2
        assert [turn["turn"] for turn in (await one.get("/agents/t/messages")).json()["turns"]] == [1, 2]


async def test_who_waits_while_the_server_leaves_is_told_so(tmp_path: Path) -> None:
    gate = Gate()
    async with talking(
        tmp_path, [[["gate", {}]], "done"], [gate.tool], store=sqlite_url(tmp_path), close_timeout=0.1
    ) as it:
        waiting = asyncio.create_task(say(it, wait=True))
        await gate.reached.wait()
        it.parts.shutdown.begin()
        await it.runtime.close()
        response = await waiting
        assert (response.status_code, response.json()["code"]) == (503, "shutting_down")
    gate.open.set()
    async with talking(tmp_path, [[["gate", {}]], "done"], [gate.tool], store=sqlite_url(tmp_path)) as it:
        while (await it.get("/agents/t")).json()["turns"] == 0:
            pass
        assert (await it.get("/agents/t")).json()["text"] == "done", "it went on at the next start"


# Which agent.


async def test_several_agents(tmp_path: Path) -> None:
    one, two = script(tmp_path, {"answers": ["I am one"], "repeat": True}, "1"), script(tmp_path, ["I am two"], "2")
    agents = {"one": {"model": one}, "two": {"model": two, "max_steps": 7}}
    async with talking(tmp_path, agents=agents) as it:
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
        listed = (await it.get("/agents")).json()["agents"]
        assert [(each["name"], each["kind"], each["default"]) for each in listed] == [
            ("one", "react", False), ("two", "react", False),
        ]  # fmt: skip
        assert listed[1]["limits"]["max_steps"] == 7
    async with talking(tmp_path, agents=agents, default_agent="one") as it:
        assert (await say(it, wait=True)).json()["agent"] == "one"
        assert [each["default"] for each in (await it.get("/agents")).json()["agents"]] == [True, False]


async def test_without_any_agent_it_says_how_to_get_one() -> None:
    async with served() as it:
        for response in (
            await say(it), await it.get("/agents/t"), await it.get("/agents/t/messages"), await it.get("/agents/t/events"),
            await it.post("/agents/t/stop"),
        ):  # fmt: skip
            assert (response.status_code, response.json()["code"]) == (404, "no_agent")
            assert "[agents." in response.json()["detail"]
            assert "clicket.toml" in response.json()["detail"]
        assert (await it.get("/agents")).json() == {"agents": []}
        assert (await it.get("/agents/t/tool-states")).status_code == 200


def test_a_mistake_is_told_before_anything_starts() -> None:
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
    async with talking(tmp_path) as it:
        response = await it.post("/agents/t/messages", json=body)
        assert (response.status_code, response.json()["code"]) == (status, code)
        assert (await it.get("/agents/t")).json()["turns"] == 0


async def test_strange_names_of_threads(tmp_path: Path) -> None:
    async with talking(tmp_path, ["yes"]) as it:
        for name in ("a%2Fb", "%E2%80%A8", "%2e%2e", "-", "a%3Fb", "%F0%9F%90%8E", "x" * 512):
            said = await say(it, thread=name, wait=True)
            assert said.status_code == 200, (name, said.text)
            assert (await it.get(f"/agents/{name}")).json()["turns"] == 1
        for name in ("x" * 513, "%00"):
            assert (await say(it, thread=name, wait=True)).status_code == 400


async def test_a_message_as_vendors_write_it_is_a_message(tmp_path: Path) -> None:
    async with talking(tmp_path, ["yes"] * 2) as it:
        for body in ({"role": "user", "content": "hello", "wait": True}, {"content": "hello", "wait": True}):
            said = await it.post("/agents/t/messages", json=body)
            assert (said.status_code, said.json()["text"]) == (200, "yes")
        for wrong in (
            {"agent": "content"}, {"role": "system", "content": "x"}, {"content": 7}, {"message": "x", "content": "y"},
        ):  # fmt: skip
            assert (await it.post("/agents/t/messages", json=wrong)).status_code == 422
        for text in (b'{"content" ', b'["content"]', b'{"content":' + b"[" * 5_000, b'{"content":"\xff"}'):
            head = {"content-type": "application/json"}
            assert (await it.post("/agents/t/messages", content=text, headers=head)).status_code in (400, 422)


# A process that dies.


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    gate = str(tmp_path / "gate")
    answers = [
        [["base_tool", {"data": "x"}]],
        [["waiter", {"gate": gate}], ["base_tool", {"data": "y"}]],
        "All is done.",
    ]
    agents = {"helper": {"model": script(tmp_path, answers)}}
    place = Place(
        tmp_path, sqlite_url(tmp_path), "tests.scenarios.server_tools:TOOLS",
        CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="1", CLICKET_AGENTS=json.dumps(agents),
    )  # fmt: skip
    yield place
    place.close()


def serve(place: Place) -> tuple[Command, str]:
    server = place.start("--json", "serve", "--port", "0")
    ready = server.wait_for("ready")
    assert ready["agents"] == ["helper"]
    return server, ready["url"]


def test_a_turn_that_kill_9_cut_off_goes_on_at_the_next_start(place: Place) -> None:
    server, url = serve(place)
    began = httpx2.post(f"{url}/agents/t/messages", json={"message": "work", "wait": 0})
    assert began.status_code == 202
    server.until(lambda: _started(url, "helper.1.2.1"))
    server.kill()
    place.touch("gate")
    again, url = serve(place)
    last = again.until(lambda: _over(url))
    assert last["text"] == "All is done.", "nobody asked for it: it was taken up at the start"
    [turn] = httpx2.get(f"{url}/agents/t/messages").json()["turns"]
    results = [message for message in turn["messages"] if message["role"] == "tool"]
    assert [("outcome_unknown" in each["content"], each.get("failed", False)) for each in results] == [
        (False, False), (True, True), (False, False),
    ], "a waiter is not idempotent: it was not run again, and the model was told so"  # fmt: skip
    runs = httpx2.get(f"{url}/calls", params={"thread": "t"}).json()["items"]
    assert sorted((alias_of(call["id"]), call["attempts"]) for call in runs) == [
        ("helper.1.1.1", 1), ("helper.1.2.1", 1), ("helper.1.2.2", 1),
    ]  # fmt: skip
    with httpx2.stream("GET", f"{url}/agents/t/events", params={"after": "0"}) as response:
        ids = []
        for line in response.iter_lines():
            if line.startswith("id: "):
                ids.append(line[4:])
            if line == "event: final":
                break
    assert len(set(ids)) == len(ids)
    assert ids[0] == "1-1.1", "told from the beginning, also what the other process did"
    again.signal(signal.SIGTERM)
    assert again.ended() == 0


def test_a_worker_goes_on_with_a_turn_that_kill_9_cut_off(place: Place) -> None:
    server, url = serve(place)
    assert httpx2.post(f"{url}/agents/t/messages", json={"message": "work", "wait": 0}).status_code == 202
    server.until(lambda: _started(url, "helper.1.2.1"))
    server.kill()
    place.touch("gate")
    worker = place.start("worker", "--json")
    worker.wait_for("ended", tool="agent:helper", state="completed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def _started(url: str, id: str) -> bool:
    found = httpx2.get(f"{url}/calls/{id}", params={"thread": "t"})
    return found.status_code == 200 and found.json()["state"] in ("running", "streaming")


def _over(url: str) -> Any:
    state = httpx2.get(f"{url}/agents/t").json()
    return state if state["turns"] == 1 else None


def test_a_turn_is_handed_back_when_the_server_leaves(place: Place) -> None:
    server, url = serve(place)
    with httpx2.stream("POST", f"{url}/agents/t/messages", json={"message": "work"}, timeout=60) as response:
        lines = response.iter_lines()
        while "waiter" not in next(lines):
            pass
        server.until(lambda: _started(url, "helper.1.2.1"))
        server.signal(signal.SIGTERM)
        rest = list(lines)
    assert "event: shutdown" in rest
    assert "event: error" not in rest, "it has not failed: it goes on elsewhere"
    assert server.ended() == 0
    place.touch("gate")
    again, url = serve(place)
    assert again.until(lambda: _over(url))["text"] == "All is done."
