"""What a tool can say to an MCP client beyond plain JSON: pictures, sound, resources, and questions.

A tool that says such things carries a tag that starts with `mcp`; of any other tool they are plain data. So what a tool passes
on from elsewhere can never pose as a question to the user.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.tools import ToolContext

__all__ = [
    "MARK",
    "ProtocolError",
    "answers",
    "audio",
    "elicit",
    "image",
    "list_roots",
    "need",
    "reply",
    "resource",
    "sample",
    "speaks_mcp",
    "text",
]

MARK = "io.clicket/mcp"
"""The key of an output that is content or a question, with its kind as value."""

Block = dict[str, Any]
Request = dict[str, Any]


class ProtocolError(ClicketError):
    """Raised by a tool whose failure is the protocol's affair, not the model's: the client gets a JSON-RPC error."""

    code = "tool_error"

    def __init__(self, message: str, *, number: int = -32603) -> None:
        super().__init__(message, jsonrpc=number)


def speaks_mcp(tags: Iterable[str]) -> bool:
    """May the outputs of a tool with these tags be content and questions?"""
    return any(tag == "mcp" or tag.startswith("mcp:") for tag in tags)


# Content.


def reply(*blocks: Block | str, structured: Any = None) -> dict[str, Any]:
    """An output made of content blocks; a string is a block of text. `structured` is for programs."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return {MARK: "content", "content": content, **({} if structured is None else {"structured": structured})}


def text(value: str) -> Block:
    return {"type": "text", "text": value}


def image(data: bytes | str, mime_type: str = "image/png") -> Block:
    """A picture: bytes, or base64 text."""
    return {"type": "image", "data": _base64(data), "mimeType": mime_type}


def audio(data: bytes | str, mime_type: str = "audio/wav") -> Block:
    """Sound: bytes, or base64 text."""
    return {"type": "audio", "data": _base64(data), "mimeType": mime_type}


def resource(uri: str, content: str | bytes, mime_type: str = "text/plain") -> Block:
    """A whole resource inside the answer."""
    body = {"text": content} if isinstance(content, str) else {"blob": _base64(content)}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **body}}


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else base64.b64encode(data).decode()


# Questions. A tool that needs an answer returns `need(...)`, and is called again, from its start, when the answers are there.


def need(**requests: Request) -> dict[str, Any]:
    """An output that says: ask the client for these, then call me again. Each name is a key of `answers(ctx)` then."""
    if not requests:
        raise UsageError("need() names at least one question: return need(name=elicit('Your name?', {...})).")
    return {MARK: "input_required", "inputRequests": requests}


def elicit(message: str, schema: Mapping[str, Any]) -> Request:
    """Ask the user. `schema` is a flat JSON Schema of type object; the answer has `action` and, if accepted, `content`."""
    requested = {"type": "object", "properties": {}, **schema}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": requested},
    }


def sample(prompt: str | list[dict[str, Any]], *, max_tokens: int = 1_000, **params: Any) -> Request:
    """Ask the client's model: a prompt, or messages as the protocol writes them."""
    messages = [{"role": "user", "content": text(prompt)}] if isinstance(prompt, str) else prompt
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens, **params}}


def list_roots() -> Request:
    """Ask which folders the client has open."""
    return {"method": "roots/list", "params": {}}


def answers(ctx: ToolContext) -> Mapping[str, Any]:
    """What the client has answered so far, by the names given to `need`."""
    told = ctx.metadata.get("mcp")
    given = told.get("answers") if isinstance(told, Mapping) else None
    return given if isinstance(given, Mapping) else {}
