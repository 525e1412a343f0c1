"""A client that loses its server in the middle of an answer goes on at another one: by server-sent events, AG-UI and the AI SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.protocols.kit import read_run, served_agents, user
from tests.scenarios.agent_kit import Gate
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, read_sse

from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, Delta

FIRST, REST = "The first half of it, ", "and the rest."


class Typist:
    name = "typist"

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda piece: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        for at in range(0, len(FIRST), 4):
            tell(Delta("text", FIRST[at : at + 4]))
        await self.gate()
        tell(Delta("text", REST))
        return ChatReply(text=FIRST + REST)


@asynccontextmanager
async def two(store: str, gate: Gate) -> AsyncIterator[tuple[Api, Api]]:
    def agents(rt: Any) -> list[Any]:
        return [ReActAgent(rt, Typist(gate), name="helper", deltas="stored")]

    async with served_agents((), agents, store=store) as one, served_agents((), agents, store=store) as other:
        yield one, other


@pytest.fixture
def store(tmp_path: Any) -> str:
    return sqlite_url(tmp_path)


async def test_server_sent_events_go_on_at_another_server(store: str) -> None:
    gate, text, last = Gate(), "", ""
    async with two(store, gate) as (one, other):
        async with one.stream("POST", "/agents/t/messages", json={"message": "go"}) as response:
            async for event in read_sse(response):
                last = event.get("id", last)
                if event["event"] == "delta":
                    text += event["data"]["data"]["text"]
                    if len(text) >= 12:
                        break
        assert text == FIRST[:12]
        query = {"follow": "false"}
        async with other.stream("GET", "/agents/t/events", params=query, headers={"Last-Event-ID": last}) as response:
            assert response.status_code == 200, await response.aread()
            async for event in read_sse(response):
                data = event["data"]
                if event["event"] == "delta":
                    text += data["data"]["text"]
                    if text == FIRST:
                        gate.open()
                elif event["event"] == "message":
                    assert data["data"]["text"] == FIRST + REST
        assert (FIRST + REST).startswith(text)
        assert len(text) >= len(FIRST)


async def test_a_run_of_ag_ui_is_followed_at_another_server_with_its_unfinished_message(store: str) -> None:
    gate, seen = Gate(), []
    body = {"threadId": "t", "runId": "r1", "messages": [user("go")]}
    async with two(store, gate) as (one, other):
        async with one.stream("POST", "/ag-ui/helper", json=body) as response:
            async for event in read_run(response):
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    break
        async with other.stream("POST", "/ag-ui/helper", json=body) as response:
            async for event in read_run(response):
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    seen.append(event["delta"])
                    if "".join(seen) == FIRST:
                        gate.open()
        assert "".join(seen) == FIRST + REST


async def test_a_chat_of_the_ai_sdk_is_resumed_at_another_server(store: str) -> None:
    gate, seen = Gate(), []
    said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    async with two(store, gate) as (one, other):
        async with one.stream("POST", "/ai-sdk/helper", json={"id": "t", "messages": [said]}) as response:
            async for line in response.aiter_lines():
                if "text-delta" in line:
                    break
        async with other.stream("GET", "/ai-sdk/helper/t/stream") as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    chunk = json.loads(line[6:])
                    seen += [chunk["delta"]] if chunk["type"] == "text-delta" else []
                    if "".join(seen) == FIRST:
                        gate.open()
        assert "".join(seen) == FIRST + REST
        assert (await other.get("/ai-sdk/helper/t/stream")).status_code == 204
