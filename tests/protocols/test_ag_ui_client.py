"""The protocol's own JavaScript client against `clicket serve` in its own process. The client judges each event, and their order."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.mcp.npm_tools import NODE, installed
from tests.protocols.kit import ASK, SHOP, pay, served_agents
from tests.scenarios.agent_server_kit import script
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the client had at the end of each scenario, by name."""
    folder = tmp_path_factory.mktemp("agents")
    paint = [[["pick_colour", {}]], "Painted."]
    agents = {
        "helper": {"model": script(folder, {"answers": SHOP, "repeat": True})},
        "painter": {"model": script(folder, {"answers": paint, "repeat": True}, "paint.json")},
        "tailor": {"model": script(folder, {"answers": [[["measure", {}]], "Measured."]}, "measure.json")},
    }
    place = Place(
        folder, sqlite_url(folder), "tests.protocols.payments:TOOLS",
        CLICKET_AGENTS=json.dumps(agents), CLICKET_POLICY=json.dumps({"ask": ["pay"]}),
    )  # fmt: skip
    try:
        server = place.start("--json", "serve", "--port", "0")
        url = server.wait_for("ready")["url"]
        yield client(folder, url, "plain", "approve", "twice", "frontend", "aborted")
    finally:
        place.close()


async def test_a_sub_agent_and_its_interrupt(tmp_path: Path) -> None:
    def agents(rt: Any) -> list[Any]:
        worker = ReActAgent(rt, ScriptedModel([[("pay", {"amount": 5})], "I paid."]), name="worker", tools=["pay"])
        rt.add(worker.as_tool("ask_worker", "Works."))
        model = ScriptedModel([[("ask_worker", {"task": "pay"})], "Done."])
        return [ReActAgent(rt, model, name="boss"), worker]

    async with served_agents([pay], agents, policy=ASK) as it:
        team = (await asyncio.to_thread(client, tmp_path, it.url, "team"))["team"]
    assert team["first"].count("SUBAGENT_STARTED") == team["first"].count("SUBAGENT_FINISHED") == 1
    assert team["second"]["result"]["text"] == "Done."
    owned = [(each["role"], "subagentRunId" in each) for each in team["messages"]]
    assert owned.count(("assistant", True)) == 2, "what the worker asked for, and its answer"
    assert team["messages"][-1]["content"] == "Done."


def client(folder: Path, url: str, *scenarios: str) -> dict[str, Any]:
    packages = installed("@ag-ui/client/package.json").parents[2]
    shutil.copy(Path(__file__).with_name("ag_ui_client.mjs"), folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(packages)
    done = subprocess.run(
        [str(NODE / "node"), "ag_ui_client.mjs", url, *scenarios],
        cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert not done.stderr, "the client warns about nothing"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == list(scenarios)
    return {line["name"]: line for line in lines}


def test_two_questions_of_one_call(seen: dict[str, Any]) -> None:
    twice = seen["twice"]
    assert [asked["message"] for asked in twice["asked"]] == ["the shop asks: Which a?", "the shop asks: Which b?"]
    assert len({asked["id"] for asked in twice["asked"]}) == 2
    assert (twice["result"]["text"], twice["left"]) == ("Measured.", 0)


def test_a_run_that_is_interrupted(seen: dict[str, Any]) -> None:
    plain = seen["plain"]
    assert (plain["first"][0], plain["first"][-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert [each["reason"] for each in plain["pending"]] == ["tool_call"]
    assert plain["roles"] == ["user", "assistant"]
    assert plain["state"]["mine"] == 1
    assert plain["state"]["clicket"]["waitingFor"] == [plain["pending"][0]["id"]]


def test_approved_with_other_arguments_and_the_next_turn(seen: dict[str, Any]) -> None:
    approved = seen["approve"]
    assert approved["second"]["result"]["text"] == "Paid."
    assert approved["roles"][:4] == ["user", "assistant", "tool", "assistant"]
    assert approved["contents"][2:4] == ["paid 3", "Paid."]
    assert approved["roles"][4:] == ["user", "assistant"], "the next turn is interrupted again"
    assert (approved["third"], approved["left"]) == ("RUN_FINISHED", 1)
    assert len(set(approved["ids"])) == len(approved["ids"])


def test_a_tool_of_the_client(seen: dict[str, Any]) -> None:
    frontend = seen["frontend"]
    assert frontend["call"]["function"]["name"] == "pick_colour"
    assert frontend["second"]["result"]["text"] == "Painted."
    assert frontend["roles"].count("assistant") == 2


def test_the_same_run_after_an_abort(seen: dict[str, Any]) -> None:
    aborted = seen["aborted"]
    assert (aborted["again"][-1], aborted["pending"]) == ("RUN_FINISHED", 1)
    assert aborted["roles"] == ["user", "assistant"], "nothing is there twice"
