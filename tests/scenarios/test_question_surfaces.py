"""A tool's question over HTTP, with the client, and at a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import key_for, served
from tests.scenarios.test_tool_questions import order

from clicket.client import Client
from clicket.errors import InvalidInput

TOOLS = '''
from clicket import ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.tools.question import InputQuestion

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}

@tool
async def order(ctx: ToolContext) -> str:
    """Asks."""
    asked = InputQuestion(key="q", source="the shop", message="Which size?", schema=FORM)
    answer = questions(ctx).ask(asked, None)
    return f"{answer.action} {answer.content}"
'''


async def test_over_http_the_caller_answers_with_the_scope_approve() -> None:
    async with served([order]) as it:
        ann = await key_for(it, "ann", "call", "read", "approve")
        ben = await key_for(it, "ben", "call", "read")
        made = await it.post("/calls", json={"tool": "order", "arguments": {"count": 1}, "id": "one"}, headers=ann)
        assert made.status_code == 202

        async def waits() -> Any:
            listed = await it.get("/calls", params={"waiting_for": "approval"}, headers=ann)
            return listed.json()["items"]

        [waiting] = await eventually(waits)
        record = (await it.get("/calls/one", headers=ann)).json()
        assert (waiting["id"], record["approval"]["question"]["message"]) == ("one", "Size 0?")
        path = "/calls/one/respond"
        assert (await it.post(path, json={"output": {"size": 1}}, headers=ben)).status_code == 404
        wrong = await it.post(path, json={"output": {"size": "big"}}, headers=ann)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_input")
        assert (await it.post("/calls/one/approve", json={}, headers=ann)).status_code in (400, 422)
        assert (await it.post(path, json={"output": {"size": 4}}, headers=ann)).status_code == 200
        await eventually(lambda: _completed(it, ann))
        assert (await it.get("/calls/one", headers=ann)).json()["output"] == [["accept", {"size": 4}]]


async def _completed(it: Any, key: dict[str, str]) -> bool:
    return bool((await it.get("/calls/one", headers=key)).json()["state"] == "completed")


async def test_the_client_answers() -> None:
    async with served([order]) as it, Client(it.url) as client:
        handle = await client.submit("order", {"count": 1})

        async def asked() -> Any:
            record = await client.get(handle.id)
            return record if record.waiting_for == "approval" else None

        record = await eventually(asked)
        with pytest.raises(InvalidInput):
            await client.respond(handle.id, {"size": "big"})
        assert await client.respond(handle.id, {"size": 2}, seen=record.approval["hash"])
        assert (await handle.result()).output == [["accept", {"size": 2}]]


def test_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TOOLS)
    place = Place(tmp_path, sqlite_url(tmp_path), "shop", USER="ann", LOGNAME="ann")
    try:
        first = place.start("call", "order", "--id", "first", "--json")
        first.until(lambda: place.ask("approve")["calls"])
        [listed] = place.ask("approve")["calls"]
        assert listed["question"]["message"] == "Which size?"
        assert "the shop asks: Which size?" in place.inside("approve").stdout
        assert place.inside("approve", "first").returncode == 2
        assert place.inside("respond", "first", '{"size": "big"}').returncode != 0
        assert place.ask("respond", "first", '{"size": 7}')["decided"] is True
        assert first.ended() == 0
        assert json.loads(first.out)["output"] == "accept {'size': 7}"
    finally:
        place.close()
