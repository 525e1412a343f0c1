"""A server with agents that answer from scripts; requests of AG-UI, and a check of each event by the protocol's own models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from ag_ui.core import Event as ProtocolEvent
from pydantic import TypeAdapter
from tests.kit.waiting import PATIENCE
from tests.protocols.payments import pay
from tests.scenarios.agent_server_kit import script
from tests.scenarios.kit import make
from tests.scenarios.server_kit import Api, served

from clicket import Policy, Runtime
from clicket.agents import Agent
from clicket.server import Options, serving

__all__ = ["ASK", "SHOP", "Run", "pay", "read_run", "run", "served_agents", "shop", "user"]

_events: TypeAdapter[Any] = TypeAdapter(ProtocolEvent)
ASK = Policy(ask=["pay"], self_approval=True)
SHOP = [[["pay", {"amount": 5}]], "Paid."]


@asynccontextmanager
async def shop(
    folder: Path, answers: Any = None, *, policy: Policy | None = ASK, tools: Any = (pay,), **more: Any
) -> AsyncIterator[Api]:
    """A server whose agent `helper` pays, and waits for approval before."""
    model = script(folder, {"answers": SHOP if answers is None else answers, "repeat": True})
    async with served(tools, policy=policy, agents={"helper": {"model": model}}, **more) as it:
        yield it


@asynccontextmanager
async def served_agents(
    tools: Any, agents: Callable[[Runtime], list[Agent]], *, policy: Policy | None = None, store: str = "memory://"
) -> AsyncIterator[Api]:
    """A server with agents that are made in Python."""
    runtime = make(tools, store, policy=policy)
    await runtime.open()
    try:
        async with (
            serving(runtime, port=0, options=Options(stop_timeout=2.0), agents=agents(runtime)) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
        ):
            yield Api(server, client, runtime)
    finally:
        await runtime.close()


def user(text: str, id: str = "u1") -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


class Run(list[dict[str, Any]]):
    """The events of one run."""

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for event in self if event["type"] in types]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self]

    @property
    def text(self) -> str:
        return "".join(event["delta"] for event in self.of("TEXT_MESSAGE_CONTENT") if "subagentRunId" not in event)

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self[-1]["outcome"]["interrupts"]
        return found


def checked(event: dict[str, Any]) -> dict[str, Any]:
    """The protocol's own model accepts the event, and knows all its fields."""
    assert not _events.validate_python(event).model_extra, event
    return event


async def read_run(response: Any) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield checked(json.loads(line[6:]))
        else:
            assert not line or line.startswith(":"), line


async def run(
    it: Api,
    *messages: dict[str, Any],
    thread: str = "t",
    id: str = "r1",
    agent: str = "helper",
    headers: Any = None,
    **more: Any,
) -> Run:
    """One run, read to its end."""
    body = {"threadId": thread, "runId": id, "messages": list(messages), **more}
    async with it.stream("POST", f"/ag-ui/{agent}", json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return Run([event async for event in read_run(response)])
