"""Event streams: recorded events, then live ones; resumed without loss or repetition. Slow readers do not affect others."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import TOOLS, Api, Sse, read_sse, served

from clicket import ToolContext, tool
from clicket.server import event_log


async def all_events(it: Api, path: str, **headers: str) -> list[Sse]:
    async with it.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        return [event async for event in read_sse(response)]


class Gate:
    """A tool that emits when the test asks for it."""

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)
        self.count = 4

        @tool(name="gate")
        async def gate(ctx: ToolContext) -> str:
            for number in range(self.count):
                await self.go.acquire()
                ctx.emit(f"{number}")
            await self.go.acquire()
            return "end"

        self.tool = gate

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            self.go.release()


async def test_an_ended_call_is_replayed(store: str) -> None:
    async with served(store=store) as it:
        made = (await it.call("count", {"to": 3})).json()
        events = await all_events(it, f"/calls/{made['call_id']}/events")
        record = (await it.get(f"/calls/{made['call_id']}")).json()
        assert [event["data"] for event in events] == record["events"]
        assert [int(event["id"]) for event in events] == list(range(1, len(events) + 1))
        assert [event["event"] for event in events] == [event["type"] for event in record["events"]]
        rest = await all_events(it, f"/calls/{made['call_id']}/events", **{"last-event-id": "5"})
        assert [event["data"] for event in rest] == record["events"][5:]
        assert await all_events(it, f"/calls/{made['call_id']}/events?after=5") == rest
        over = await it.get(f"/calls/{made['call_id']}/events", headers={"last-event-id": str(len(events))})
        assert over.status_code == 204
        assert (await it.get(f"/calls/{made['call_id']}/events", headers={"last-event-id": "x"})).status_code == 400
        assert (await it.get("/calls/nobody/events")).status_code == 404


async def test_a_live_call_is_followed_and_resumed(store: str) -> None:
    gate = Gate()
    async with served([gate.tool], store) as it:
        made = (await it.post("/calls", json={"tool": "gate"})).json()
        url = f"/calls/{made['id']}/events"
        gate.open(2)
        async with it.stream("GET", url) as response:
            first = [
                event async for event in read_sse(response, until=lambda e: e["data"]["data"].get("content") == "1")
            ]
        gate.open(3)
        rest = await all_events(it, url, **{"last-event-id": first[-1]["id"]})
        assert [int(event["id"]) for event in first + rest] == list(range(1, len(first + rest) + 1))
        assert rest[-1]["data"]["state"] == "completed"
        assert first + rest == await all_events(it, url)


async def test_a_reader_that_reconnects_again_and_again_sees_each_event_once(store: str) -> None:
    gate = Gate()
    gate.count = 30
    async with served([gate.tool], store) as it:
        made = (await it.post("/calls", json={"tool": "gate"})).json()
        seen: list[Sse] = []
        while not seen or seen[-1]["data"]["state"] != "completed":
            gate.open(3)
            headers = {"last-event-id": seen[-1]["id"]} if seen else {}
            async with it.stream("GET", f"/calls/{made['id']}/events", headers=headers) as response:
                async for event in read_sse(response):
                    seen.append(event)
                    if len(seen) % 3 == 0:
                        break
        assert [int(event["id"]) for event in seen] == list(range(1, len(seen) + 1))
        assert seen == await all_events(it, f"/calls/{made['id']}/events")


async def test_an_event_is_encoded_once_for_all_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    from clicket.server import event_feeds

    made: list[Any] = []

    def counted(*args: Any) -> bytes:
        made.append(args)
        return frame(*args)

    frame = event_feeds.frame
    monkeypatch.setattr(event_feeds, "frame", counted)
    gate = Gate()
    async with served([gate.tool]) as it:
        id = (await it.post("/calls", json={"tool": "gate"})).json()["id"]
        reading = [asyncio.create_task(all_events(it, f"/calls/{id}/events")) for _ in range(20)]
        await eventually(lambda: len(it.parts.event_streams.open) == 20)
        gate.open(5)
        streams = await asyncio.gather(*reading)
        assert all(stream == streams[0] for stream in streams)
        assert len(made) == len(streams[0])
        assert not it.parts.event_streams.open


async def test_a_silent_stream_says_that_it_lives() -> None:
    gate = Gate()
    async with served([gate.tool], options={"heartbeat": 0.05}) as it:
        id = (await it.post("/calls", json={"tool": "gate"})).json()["id"]
        comments: list[str] = []
        async with it.stream("GET", f"/calls/{id}/events") as response:
            reading = asyncio.create_task(_drain(read_sse(response, comments=comments)))
            await eventually(lambda: comments.count("heartbeat") >= 3)
            gate.open(5)
            await reading
        assert (await it.get(f"/calls/{id}")).json()["state"] == "completed"


async def _drain(events: Any) -> None:
    async for _ in events:
        pass


async def test_a_reader_that_vanishes_is_let_go_of() -> None:
    gate = Gate()
    async with served([gate.tool]) as it:
        id = (await it.post("/calls", json={"tool": "gate"})).json()["id"]
        writers = []
        for path in (f"/calls/{id}/events", "/events"):
            reader, writer = await asyncio.open_connection(it.served.host, it.served.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await reader.readuntil(b": stream")
            writers.append(writer)
        assert len(it.parts.event_streams.open) == 2
        for writer in writers:
            writer.transport.abort()
        await eventually(lambda: not it.parts.event_streams.open)
        gate.open(5)


async def test_a_reader_that_stops_reading_is_dropped_and_others_are_not() -> None:
    options = {"stall_timeout": 0.5, "heartbeat": 0.5, "event_log_bytes": 4_000_000}
    async with served(options=options) as it:
        stack = ExitStack()
        for _ in range(3):
            raw = stack.enter_context(socket.socket())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.setblocking(False)
            with suppress(BlockingIOError):
                raw.connect((it.served.host, it.served.port))
            await asyncio.get_running_loop().sock_sendall(raw, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: len(it.parts.event_streams.open) == 3)
        seen: list[str] = []

        async def read() -> None:
            async with it.stream("GET", "/events") as response:
                async for event in read_sse(response, until=lambda e: e["data"].get("call_id") == "last"):
                    seen.append(event["data"]["call_id"])  # noqa: PERF401  # it is looked at meanwhile

        good = asyncio.create_task(read())
        await eventually(lambda: len(it.parts.event_streams.open) == 4)
        for number in range(30):  # more than the kernel buffers
            await it.runtime.call("echo", {"value": "x" * 400_000}, id=str(number))
            await eventually(lambda number=number: str(number) in seen)
        assert it.parts.event_log.size <= 4_000_000
        await eventually(lambda: it.parts.event_streams.dropped == 3)
        await eventually(lambda: len(it.parts.event_streams.open) == 1)
        await it.call("add", {"a": 1, "b": 1}, id="last")
        await good
        stack.close()


async def test_all_calls_from_now_on_and_after_a_break(store: str) -> None:
    async with served(store=store) as it:
        await it.call("add", {"a": 1, "b": 1}, id="before")
        async with it.stream("GET", "/events") as response:
            made = asyncio.create_task(it.call("add", {"a": 1, "b": 1}, id="one", thread="t1"))
            first = [
                event async for event in read_sse(response, until=lambda e: e["data"]["type"] == "attempt_started")
            ]
            await made
        await it.call("add", {"a": 1, "b": 1}, id="two")
        async with it.stream("GET", "/events", headers={"last-event-id": first[-1]["id"]}) as response:

            def over(event: Sse) -> bool:
                return bool(event["data"]["call_id"] == "two" and event["data"]["state"] == "completed")

            rest = [event async for event in read_sse(response, until=over)]
        seen = [(event["data"]["call_id"], event["data"]["seq"]) for event in first + rest]
        expected = [("one", seq) for seq in range(1, 1 + sum(id == "one" for id, _ in seen))]
        assert [each for each in seen if each[0] == "one"] == expected
        assert len(set(seen)) == len(seen)
        assert {id for id, _ in seen} == {"one", "two"}
        assert first[0]["data"]["thread"] == "t1"


async def test_what_is_not_kept_any_more_is_a_gap() -> None:
    async with served(options={"event_log_events": 20}) as it:
        async with it.stream("GET", "/events") as response:
            made = asyncio.create_task(it.call("add", {"a": 1, "b": 1}))
            first = [event async for event in read_sse(response, until=lambda e: True)]
            await made
        for _ in range(3):
            await it.call("add", {"a": 1, "b": 1})
        for last in (first[0]["id"], "0badcafe-3", "nonsense"):
            async with it.stream("GET", "/events", headers={"last-event-id": last}) as response:
                events = [event async for event in read_sse(response, until=lambda e: e["event"] != "gap")]
                assert events[0]["event"] == "gap"
                assert len(events) == 2
            async with it.stream("GET", "/events", headers={"last-event-id": events[0]["id"]}) as response:
                again = [event async for event in read_sse(response, until=lambda e: True)]
                assert again == events[1:], "after a gap a client continues without another one"


async def test_lines_of_json() -> None:
    async with served(options={"event_log_events": 30, "heartbeat": 0.2}) as it:
        headers = {"accept": "application/x-ndjson"}

        async def lines(query: str, count: int, **options: Any) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            async with asyncio.timeout(PATIENCE), it.stream("GET", f"/events{query}", **options) as response:
                assert response.headers["content-type"] == "application/x-ndjson"
                await it.call("add", {"a": 1, "b": 1}, thread="t1")
                async for line in response.aiter_lines():
                    found.append(json.loads(line))
                    if len(found) == count:
                        break
            return found

        first, *events = await lines("?thread=t1", 5, headers=headers)
        assert (first["type"], [event["seq"] for event in events]) == ("stream", [1, 2, 3, 4])
        assert {event["thread"] for event in events} == {"t1"}
        from_start = await lines(f"?format=jsonl&after={first['cursor']}", 3)
        assert [event["cursor"] for event in from_start[1:]] == [event["cursor"] for event in events[:2]], (
            "no event is missing"
        )
        resumed = await lines(f"?format=jsonl&after={events[1]['cursor']}&state=completed", 2)
        assert [event.get("state") for event in resumed] == [None, "completed"]
        gap = (await lines("?format=jsonl&after=0badcafe-3&types=created", 2))[1]
        assert (gap["type"], bool(gap["cursor"]), bool(gap["detail"])) == ("gap", True, True)
        beats = await lines("?format=jsonl&tool=none", 2)
        assert [line["type"] for line in beats] == ["stream", "heartbeat"]
        bad = await it.get("/events?state=completed,done")
        assert (bad.status_code, bad.json()["code"]) == (400, "invalid_query")


async def test_calls_of_another_process_are_seen_once(tmp_path: Any) -> None:
    store, gate = sqlite_url(tmp_path), Gate()
    tools = [*TOOLS, gate.tool]
    async with served(store=store) as it, served(tools, store) as other:
        await other.call("add", {"a": 1, "b": 1}, id="before")
        seen: list[tuple[str, int]] = []
        async with (
            asyncio.timeout(PATIENCE),
            it.stream("GET", "/events") as response,
            aclosing(read_sse(response)) as stream,
        ):

            async def until(id: str, **facts: Any) -> None:
                async for event in stream:
                    data = event["data"]
                    seen.append((data["call_id"], data["seq"]))
                    if data["call_id"] == id and facts.items() <= data.items():
                        return

            await other.post("/calls", json={"tool": "gate", "id": "there"})
            await it.call("add", {"a": 1, "b": 1}, id="here")
            await until("there", type="attempt_started")
            gate.open(5)
            await until("there", state="completed")
            await other.call("add", {"a": 1, "b": 1}, id="after")  # one more poll: no event is sent again
            await until("after", state="completed")
        assert len(set(seen)) == len(seen)
        assert {id for id, _ in seen} == {"here", "there", "after"}
        for name in ("here", "there", "after"):
            assert [seq for id, seq in seen if id == name] == list(range(1, 1 + sum(id == name for id, _ in seen)))


async def test_a_call_that_another_process_runs_is_followed(tmp_path: Any) -> None:
    store, gate = sqlite_url(tmp_path), Gate()
    async with served([gate.tool], store) as it, served((), store) as watcher:
        id = (await it.post("/calls", json={"tool": "gate"})).json()["id"]
        reading = asyncio.create_task(all_events(watcher, f"/calls/{id}/events"))
        await eventually(lambda: len(watcher.parts.event_streams.open) == 1)
        gate.open(5)
        events = await reading
        assert events == await all_events(it, f"/calls/{id}/events")
        assert events[-1]["data"]["state"] == "completed"


async def test_streams_say_goodbye_when_the_server_leaves() -> None:
    gate = Gate()
    async with served([gate.tool], close_timeout=0.2) as it:
        id = (await it.post("/calls", json={"tool": "gate"})).json()["id"]
        tasks = [asyncio.create_task(all_events(it, path)) for path in (f"/calls/{id}/events", "/events")]
        await eventually(lambda: len(it.parts.event_streams.open) == 2)
        it.parts.shutdown.begin()
        assert (await it.get("/readyz")).status_code == 503
        assert (await it.get("/healthz")).status_code == 200
        refused = await it.get("/calls")
        assert refused.status_code == 503
        assert refused.json()["code"] == "shutting_down"
        for stream in await asyncio.gather(*tasks):
            assert stream[-1]["event"] == "shutdown"


async def test_a_server_that_leaves_does_not_complain_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It polls for events of other processes while a client reads, and for a while after; not while it waits for its calls."""
    monkeypatch.setattr(event_log, "_POLL_EVERY", 0.01)
    caplog.set_level(logging.WARNING)
    gate = Gate()
    async with served((gate.tool,), sqlite_url(tmp_path), close_timeout=0.4) as it:
        async with it.stream("GET", "/events") as response:
            await it.post("/calls", json={"tool": "gate"})
            async with aclosing(read_sse(response)) as events:
                await anext(events)
        assert it.parts.event_log.poller is not None
    assert it.parts.event_log.poller is None
    assert [record.getMessage() for record in caplog.records if "looked for" in record.getMessage()] == []
