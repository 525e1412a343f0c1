"""A turn behind HTTP continues after its server was killed or stopped."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.agent_server_kit import script
from tests.scenarios.cli_kit import Command, Place
from tests.scenarios.kit import sqlite_url

from clicket.model.ids import alias_of

# A process that is killed.


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


def test_a_turn_of_a_killed_server_continues_at_the_next_start(place: Place) -> None:
    server, url = serve(place)
    began = httpx2.post(f"{url}/agents/t/messages", json={"message": "work", "wait": 0})
    assert began.status_code == 202
    server.until(lambda: _started(url, "helper.1.2.1"))
    server.kill()
    place.touch("gate")
    again, url = serve(place)
    last = again.until(lambda: _over(url))
    assert last["text"] == "All is done.", "resumed at the start, without a request"
    [turn] = httpx2.get(f"{url}/agents/t/messages").json()["turns"]
    results = [message for message in turn["messages"] if message["role"] == "tool"]
    assert [("outcome_unknown" in each["content"], each.get("failed", False)) for each in results] == [
        (False, False), (True, True), (False, False),
    ], "a waiter is not idempotent: it was not run again, and the model got outcome_unknown"  # fmt: skip
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
    assert ids[0] == "1-1.1", "from the first event, including those of the other process"
    again.signal(signal.SIGTERM)
    assert again.ended() == 0


def test_a_worker_continues_the_turn_of_a_killed_server(place: Place) -> None:
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
    with httpx2.stream("POST", f"{url}/agents/t/messages", json={"message": "work"}, timeout=PATIENCE) as response:
        lines = response.iter_lines()
        while "waiter" not in next(lines):
            pass
        server.until(lambda: _started(url, "helper.1.2.1"))
        server.signal(signal.SIGTERM)
        rest = list(lines)
    assert "event: shutdown" in rest
    assert "event: error" not in rest, "the turn has not failed: another process resumes it"
    assert server.ended() == 0
    place.touch("gate")
    again, url = serve(place)
    assert again.until(lambda: _over(url))["text"] == "All is done."
