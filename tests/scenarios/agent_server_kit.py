"""A server with an agent whose answers come from a script, and requests to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.scenarios.server_kit import TOOLS, Api, Sse, read_sse, served

from clicket import tool

TURN = [[["add", {"a": 1, "b": 2}]], "The sum is 3."]


def script(folder: Path, answers: Any, name: str = "answers.json") -> str:
    (folder / name).write_text(json.dumps(answers))
    return f"script:{folder / name}"


class Gate:
    """A tool that waits until `open` is set; `reached`: it was called."""

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
async def served_agent(folder: Path, answers: Any = TURN, tools: Any = TOOLS, **options: Any) -> AsyncIterator[Api]:
    model = script(folder, {"answers": answers, "repeat": True})
    agents = options.pop("agents", {"helper": {"model": model}})
    async with served(tools, agents=agents, **options) as it:
        yield it


async def say(it: Api, message: str = "hello", thread: str = "t", headers: Any = None, **body: Any) -> httpx2.Response:
    return await it.post(f"/agents/{thread}/messages", json={"message": message, **body}, headers=headers)


async def streamed(it: Api, message: str, thread: str = "t", headers: Any = None, **body: Any) -> list[Sse]:
    """Post a message; returns all events of the streamed turn."""
    asked = {"message": message, **body}
    async with it.stream("POST", f"/agents/{thread}/messages", json=asked, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [event async for event in read_sse(response)]


def with_id(events: list[Sse]) -> list[Sse]:
    return [event for event in events if "id" in event]


async def replayed(it: Api, until: str, thread: str = "t", **query: Any) -> list[Sse]:
    """Events of the stream `/events`, up to the event with the id `until`."""
    headers = query.pop("headers", None)
    async with it.stream("GET", f"/agents/{thread}/events", params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [event async for event in read_sse(response, until=lambda event: event.get("id") == until)]
