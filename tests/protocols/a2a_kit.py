"""A client of A2A, from the protocol's own SDK, and plain requests for what that client would not send."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.types import a2a_pb2 as pb
from a2a.utils.proto_utils import validate_proto_required_fields
from tests.kit.waiting import PATIENCE
from tests.scenarios.server_kit import Api

__all__ = ["ask", "client_of", "message", "read", "rpc", "state_of"]

VERSION = {"A2A-Version": "1.0"}
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing is encrypted here, and loading the certificates for each client takes its time."""


@asynccontextmanager
async def client_of(url: str, agent: str = "helper", headers: Any = None, **config: Any) -> AsyncIterator[Client]:
    """A client that has read the agent's card."""
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE, verify=PLAIN) as http:
        made = await create_client(f"{url}/a2a/{agent}", ClientConfig(httpx_client=http, **config))
        async with made as client:
            yield client


def message(text: str = "", id: str = "m1", *, data: Any = None, **more: Any) -> pb.SendMessageRequest:
    parts: list[Any] = [pb.Part(text=text)] if text else []
    request = pb.SendMessageRequest(message=pb.Message(message_id=id, role=pb.ROLE_USER, parts=parts, **more))
    if data is not None:
        part = request.message.parts.add()
        part.data.struct_value.update(data)
    return request


async def read(events: Any) -> list[pb.StreamResponse]:
    """All events, each judged by the SDK's own check of required fields."""
    found = []
    async for event in events:
        validate_proto_required_fields(event)
        found.append(event)
    return found


async def ask(client: Client, *args: Any, **more: Any) -> pb.Task:
    """Send a message without streaming; the task."""
    [response] = await read(client.send_message(message(*args, **more)))
    task: pb.Task = response.task
    return task


def state_of(task: pb.Task | pb.TaskStatusUpdateEvent) -> str:
    return pb.TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


async def rpc(
    it: Api, method: str, params: Any = None, *, headers: Any = None, agent: str = "helper"
) -> dict[str, Any]:
    """One plain request; the JSON-RPC response."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {} if params is None else params}
    response = await it.post(f"/a2a/{agent}", json=body, headers={**VERSION, **(headers or {})})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer
