"""Shared by the tests of models: a model of each vendor on the loopback provider, and readers of its deltas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.adapters.provider import Provider

from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolOffer, ToolUse
from clicket.models import AnthropicModel, OpenAIModel

KEY = "sk-very-secret-0123456789"
ADD = ToolOffer(
    name="add",
    description="Adds.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)
READ = ToolOffer(name="files.read", input_schema={"type": "object", "properties": {"path": {"type": "string"}}})

Model = OpenAIModel | AnthropicModel
Make = Callable[..., Model]


def openai_model(provider: Provider, **options: Any) -> OpenAIModel:
    return OpenAIModel("gpt-x", base_url=f"{provider.url}/v1", api_key=KEY, **options)


def responses_model(provider: Provider, **options: Any) -> OpenAIModel:
    return OpenAIModel("gpt-x", base_url=f"{provider.url}/v1", api_key=KEY, api="responses", **options)


def anthropic_model(provider: Provider, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-x", base_url=provider.url, api_key=KEY, **options)


VENDORS = pytest.mark.parametrize("make", [openai_model, anthropic_model], ids=["openai", "anthropic"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def asks(*messages: ChatMessage, **options: Any) -> ChatRequest:
    return ChatRequest(messages=messages or (user("What is it?"),), **{"tools": (ADD, READ), **options})


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(*uses: tuple[str, str, str], text: str = "", **more: Any) -> ChatMessage:
    made = tuple(ToolUse(id=id, name=name, arguments=arguments) for id, name, arguments in uses)
    return ChatMessage(role="assistant", content=text, uses=made, **more)


def result(id: str, text: str, *, failed: bool = False) -> ChatMessage:
    return ChatMessage(role="tool", use_id=id, content=text, failed=failed)


def says(make: Make, text: str = "", *calls: tuple[str, str, str]) -> dict[str, Any]:
    """An answer of the provider; arguments are the texts that a model wrote."""
    if make is responses_model:
        part = {"type": "output_text", "text": text, "annotations": []}
        said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
        items = [
            {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": n, "arguments": a} for id, n, a in calls
        ]
        return {"output": [*([said] if text else []), *items]}
    if make is openai_model:
        made = [{"id": id, "type": "function", "function": {"name": n, "arguments": a}} for id, n, a in calls]
        return {"content": text or None, **({"tool_calls": made} if made else {})}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for id, name, arguments in calls:
        blocks.append({"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments), "raw": arguments})
    return {"content": blocks}


async def ask(model: Any, request: ChatRequest, *, streamed: bool = True) -> ChatReply:
    """The reply; the pieces of a stream must add up to it."""
    if not streamed:
        reply: ChatReply = await model.chat(request)
        return reply
    deltas: list[Delta] = []
    reply = await model.stream(request, deltas.append)
    adds_up(deltas, reply)
    return reply


def adds_up(deltas: list[Delta], reply: ChatReply) -> None:
    def joined(kind: str, number: int = 0) -> str:
        return "".join(one.text for one in deltas if one.kind == kind and one.use == number)

    assert joined("text") == reply.text
    assert joined("thought") == reply.thought
    assert {one.use for one in deltas if one.kind in ("name", "arguments")} == set(range(len(reply.uses)))
    for number, use in enumerate(reply.uses):
        assert (joined("name", number), joined("arguments", number)) == (use.name, use.arguments)


def sse(*events: Any, named: bool = False) -> dict[str, Any]:
    """An answer in raw events: texts as they are, values as JSON; `named` as Anthropic sends them."""
    lines = []
    for event in events:
        name = f"event: {event.get('type', 'message_delta')}\n" if named and isinstance(event, dict) else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return {"status": 200, "headers": {"content-type": "text/event-stream"}, "body": "".join(lines)}


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def call_piece(**parts: Any) -> dict[str, Any]:
    """A chunk with a piece of a call: index and id beside, name and arguments inside."""
    inner = {key: parts.pop(key) for key in ("name", "arguments") if key in parts}
    return chunk(tool_calls=[{**parts, "function": inner}])
