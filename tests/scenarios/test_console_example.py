"""`examples/console`: calls in every state, and an agent that answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.kit.children import ROOT, environment
from tests.kit.waiting import PATIENCE, eventually_sync


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("console")
    command = [sys.executable, str(ROOT / "examples" / "console"), "0"]
    clean = {name: value for name, value in environment().items() if not name.startswith("CLICKET_")}
    clean |= {"TMPDIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=clean) as server:
        assert server.stdout is not None
        with httpx2.Client(base_url=server.stdout.readline().strip(), timeout=PATIENCE) as http:
            yield http
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=PATIENCE) == 0
    assert os.listdir(folder) == [], "its store is a temporary file"


def test_it_shows_calls_in_every_state_and_its_agent_answers(demo: httpx2.Client) -> None:
    wanted = {"completed", "failed", "timeout", "cancelled", "streaming", "waits for approval"}
    codes = {"outcome_unknown", "permission_denied", "invalid_input", "tool_not_found", "tool_error"}
    seen: set[str] = set()

    def shown() -> bool:
        for call in demo.get("/calls?limit=1000").json()["items"]:
            seen.add(call["state"])
            if call["error"] is not None:
                seen.add(call["error"]["code"])
            if call["waiting_for"] == "approval":
                seen.add("waits for approval")
        return seen >= wanted | codes

    eventually_sync(shown)
    answer = demo.post("/agents/mine/messages", json={"message": "What is the weather in Oslo?", "wait": True}).json()
    assert (answer["stopped"], "Oslo" in answer["text"]) == ("finished", True)


def test_every_screen_of_the_console_has_something_to_show(demo: httpx2.Client) -> None:
    def items(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = demo.get(path).json()["items"]
        return found

    assert eventually_sync(lambda: [each for each in items("/grants") if each["used"] == 2])
    assert {each["name"] for each in items("/schedules")} == {"rates", "nightly-summary", "monthly-export"}
    assert eventually_sync(lambda: items("/notices?state=delivered"))
    assert eventually_sync(lambda: items("/notices?state=failed"))
    assert eventually_sync(lambda: len(demo.get("/spend?by=thread").json()["items"]) > 2, timeout=PATIENCE)
    assert {each["name"] for each in items("/spend/budgets")} >= {"everything", "each agent"}

    def waiting() -> bool:
        calls = items("/calls?limit=1000")
        waits = {call["waiting_for"] for call in calls}
        half = any(
            call["approval"] and len(call["approval"]["approvals"]) == 1 < call["approval"]["approvers"]
            for call in calls
        )
        answered = any("answered_by" in call["metadata"] for call in calls)
        checked = any("reconciled" in call["metadata"] for call in calls)
        return waits >= {"approval", "external", "time"} and half and answered and checked

    eventually_sync(waiting)
