"""Threads of agents behind HTTP: history, state, events across turns, and several servers over one store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.agent_server_kit import TURN, Gate, replayed, say, served_agent, streamed, with_id
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Sse, read_sse

from clicket.ports import Keep

# Reading.


async def test_history_is_paged(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["yes"]) as it:
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
    async with served_agent(tmp_path) as it:
        fresh = (await it.get("/agents/t")).json()
        assert (fresh["state"], fresh["turns"], fresh["agent"], fresh["thread"]) == ("idle", 0, "helper", "t")
        await say(it, wait=True)
        after = (await it.get("/agents/t")).json()
        assert (after["state"], after["turns"], after["text"], after["stopped"]) == ("finished", 1, TURN[1], "finished")
        assert after["usage"]["output_tokens"] > 0


async def test_events_are_replayed_and_continue_across_turns(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it:
        first, second = with_id(await streamed(it, "one")), with_id(await streamed(it, "two"))
        last = second[-1]["id"]
        assert await replayed(it, last) == second, "without a position: the last turn"
        assert await replayed(it, last, after="0") == first + second
        assert await replayed(it, last, after="1") == second, "the number of a turn: the events after it"
        middle = first[3]["id"]
        assert await replayed(it, last, after=middle) == first[4:] + second
        assert await replayed(it, last, headers={"last-event-id": middle}) == first[4:] + second
        bad = await it.get("/agents/t/events", params={"after": "soon"})
        assert (bad.status_code, bad.json()["code"]) == (400, "invalid_query")
        assert (await it.get("/agents/t/events", headers={"last-event-id": "x"})).status_code == 400


async def test_turns_that_were_swept_are_passed_over(tmp_path: Path) -> None:
    """Calls are kept for a day, threads for a month: a late reader gets the events that are still stored, and continues."""
    async with served_agent(tmp_path) as it:
        first = with_id(await streamed(it, "one"))
        await streamed(it, "two")
        await streamed(it, "three")
        await it.runtime.store.sweep(Keep(calls=0), 1_000)
        fourth = with_id(await streamed(it, "four"))
        assert await replayed(it, fourth[-1]["id"], after=first[2]["id"]) == fourth
        assert len((await it.get("/agents/t/messages")).json()["turns"]) == 4


async def test_a_page_that_is_loaded_again_misses_nothing(tmp_path: Path) -> None:
    """It reads the history, then the events after its last turn: the running turn from its beginning, and the next turn."""
    gate = Gate()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool]) as it:
        gate.open.set()
        await say(it, "one", wait=True)
        gate.open.clear()
        gate.reached.clear()
        begun = asyncio.create_task(streamed(it, "two"))
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
    async with (
        served_agent(tmp_path, options={"heartbeat": 0.05}) as it,
        it.stream("GET", "/agents/t/events") as response,
    ):
        async for line in response.aiter_lines():
            if line == ": heartbeat":
                return


async def test_streams_end_when_the_server_leaves(tmp_path: Path) -> None:
    async with served_agent(tmp_path) as it, it.stream("GET", "/agents/t/events") as response:
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
        served_agent(tmp_path, answers, [gate.tool], store=store) as one,
        served_agent(tmp_path, answers, [gate.tool], store=store) as two,
    ):
        here = asyncio.create_task(streamed(one, "go"))
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


async def test_a_waiting_request_gets_a_reply_when_the_server_stops(tmp_path: Path) -> None:
    gate = Gate()
    async with served_agent(
        tmp_path, [[["gate", {}]], "done"], [gate.tool], store=sqlite_url(tmp_path), close_timeout=0.1
    ) as it:
        waiting = asyncio.create_task(say(it, wait=True))
        await gate.reached.wait()
        it.parts.shutdown.begin()
        await it.runtime.close()
        response = await waiting
        assert (response.status_code, response.json()["code"]) == (503, "shutting_down")
    gate.open.set()
    async with served_agent(tmp_path, [[["gate", {}]], "done"], [gate.tool], store=sqlite_url(tmp_path)) as it:
        while (await it.get("/agents/t")).json()["turns"] == 0:
            pass
        assert (await it.get("/agents/t")).json()["text"] == "done", "it resumed at the next start"
