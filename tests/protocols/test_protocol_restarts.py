"""A server that is killed in the middle of a turn: after its restart, clients of AG-UI and A2A get the outcome of what they began."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from a2a.types import a2a_pb2 as pb
from tests.kit.waiting import PATIENCE
from tests.protocols.a2a_kit import ask, client_of, read, state_of
from tests.protocols.kit import Run, checked, user
from tests.scenarios.agent_server_kit import script
from tests.scenarios.cli_kit import Command, Place
from tests.scenarios.kit import sqlite_url

PICK = {"name": "pick", "description": "Pick."}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    gate = str(tmp_path / "gate")
    agents = {
        "helper": {
            "model": script(tmp_path, [[["base_tool", {"data": "x"}]], [["waiter", {"gate": gate}]], "All is done."])
        },
        "slow": {"model": script(tmp_path, [[["patient", {"gate": gate}]], "All is done."], "slow.json")},
        "shop": {"model": script(tmp_path, [[["pay", {"amount": 5}], ["pick", {}]], "Paid."], "shop.json")},
    }
    place = Place(
        tmp_path, sqlite_url(tmp_path), "tests.protocols.payments:TOOLS",
        CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="1", CLICKET_AGENTS=json.dumps(agents),
        CLICKET_POLICY=json.dumps({"ask": ["pay"]}),
    )  # fmt: skip
    yield place
    place.close()


def serve(place: Place) -> tuple[Command, str]:
    server = place.start("--json", "serve", "--port", "0")
    return server, server.wait_for("ready")["url"]


def run(url: str, agent: str, *messages: Any, id: str = "r1", until: str = "", **more: Any) -> Run:
    """The events of a run, until it ends, the connection breaks, or an event of the type `until` came."""
    body = {"threadId": "t", "runId": id, "messages": list(messages), **more}
    made = Run()
    with httpx2.stream("POST", f"{url}/ag-ui/{agent}", json=body, timeout=PATIENCE) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                made.append(checked(json.loads(line[6:])))
                if made[-1]["type"] == until:
                    break
    return made


def waits(url: str, tool: str = "waiter") -> bool:
    items = httpx2.get(f"{url}/calls", params={"tool": tool}).json()["items"]
    return any(item["state"] in ("running", "streaming") for item in items)


def test_a_run_goes_on_after_its_server_was_killed(place: Place) -> None:
    server, url = serve(place)
    made = run(url, "helper", user("work"), until="TOOL_CALL_RESULT")
    server.until(lambda: waits(url))
    server.kill()
    place.touch("gate")
    _, url = serve(place)
    again = run(url, "helper", user("work"))
    assert again.text == "All is done."
    assert again[-1]["outcome"] == {"type": "success"}
    first, unknown = again.of("TOOL_CALL_RESULT")
    assert first == made.of("TOOL_CALL_RESULT")[0], "what was done before is not done again"
    assert unknown["metadata"]["clicket"]["code"] == "outcome_unknown"
    assert httpx2.get(f"{url}/agents/t", params={"agent": "helper"}).json()["turns"] == 1


@pytest.mark.slow
def test_interrupts_and_tools_of_the_client_outlive_a_kill(place: Place) -> None:
    server, url = serve(place)
    first = run(url, "shop", user("pay"))
    [interrupt] = first.interrupts if first[-1]["outcome"]["type"] == "interrupt" else [None]
    assert interrupt is None or interrupt["metadata"]["clicket"]["tool"] == "pay"
    server.kill()
    _, url = serve(place)
    again = run(url, "shop", user("pay"))
    assert again.interrupts == first.interrupts
    yes = [
        {"interruptId": each["id"], "status": "resolved", "payload": {"approved": True}} for each in again.interrupts
    ]
    second = run(url, "shop", id="r2", resume=yes)
    assert second.of("TOOL_CALL_RESULT")[0]["content"] == "paid 5"
    assert second.text == "Paid."


def test_a_tool_of_the_client_waits_across_a_restart(place: Place) -> None:
    server, url = serve(place)
    first = run(url, "shop", user("pay"), tools=[PICK])
    yes = [
        {"interruptId": each["id"], "status": "resolved", "payload": {"approved": True}} for each in first.interrupts
    ]
    second = run(url, "shop", id="r2", resume=yes)
    [pending] = second[-1]["outcome"]["pendingToolCallIds"]
    server.signal(signal.SIGKILL)
    server.ended()
    _, url = serve(place)
    third = run(url, "shop", {"id": "x", "role": "tool", "toolCallId": pending, "content": "red"}, id="r3")
    assert third.of("TOOL_CALL_RESULT")[0]["content"] == "red"
    assert third.text == "Paid."


async def test_a_task_is_found_after_its_server_was_killed(place: Place) -> None:
    server, url = serve(place)
    async with client_of(url, streaming=False, polling=True) as client:
        task = await ask(client, "work")
        assert state_of(task) == "working"
    server.until(lambda: waits(url))
    server.kill()
    place.touch("gate")
    _, url = serve(place)
    async with client_of(url, streaming=False) as client:
        again = await ask(client, "work")
        assert (again.id, state_of(again)) == (task.id, "completed"), "the same message again waits for the same task"
        assert again.artifacts[0].parts[0].text == "All is done."
        assert await client.get_task(pb.GetTaskRequest(id=task.id)) == again


@pytest.mark.slow
async def test_a_subscription_to_a_task_that_a_restart_interrupted(place: Place) -> None:
    server, url = serve(place)
    async with client_of(url, "slow", streaming=False, polling=True) as client:
        task = await ask(client, "work")
    server.until(lambda: waits(url, "patient"))
    server.kill()
    _, url = serve(place)
    async with client_of(url, "slow") as client:
        stream: Any = client.subscribe(pb.SubscribeToTaskRequest(id=task.id))
        first = await anext(stream)
        assert state_of(first.task) == "working"
        place.touch("gate")
        events = await read(stream)
        assert state_of(events[-1].status_update) == "completed"
