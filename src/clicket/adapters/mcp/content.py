"""Outputs for MCP clients beyond plain JSON: images, audio, resources, and input requests.

Only outputs of a tool with a tag that starts with `mcp` are read as such; outputs of other tools are plain data. So data that a
tool passes on from elsewhere can never pose as a question to the user.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.tools import ToolContext

__all__ = [
    "ARTIFACT",
    "MARK",
    "ProtocolError",
    "answers",
    "audio",
    "elicit",
    "image",
    "list_roots",
    "may_return_mcp_content",
    "need",
    "reply",
    "resource",
    "sample",
    "text",
]

MARK = "io.clicket/mcp"
"""The key that marks an output as content or as input requests; its value says which."""

ARTIFACT = "artifact"
"""Names the bytes of a block that are kept beside the output."""

Block = dict[str, Any]
Request = dict[str, Any]


class ProtocolError(ClicketError):
    """Raised by a tool to answer with a JSON-RPC error, instead of a result that the model reads."""

    code = "tool_error"

    def __init__(self, message: str, *, number: int = -32603) -> None:
        super().__init__(message, jsonrpc=number)


def may_return_mcp_content(tags: Iterable[str]) -> bool:
    """May the outputs of a tool with these tags be MCP content and input requests?"""
    return any(tag == "mcp" or tag.startswith("mcp:") for tag in tags)


# Content.


def reply(*blocks: Block | str, structured: Any = None) -> dict[str, Any]:
    """An output made of content blocks; a string becomes a text block. `structured` is for programs."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return {MARK: "content", "content": content, **({} if structured is None else {"structured": structured})}


def text(value: str) -> Block:
    return {"type": "text", "text": value}


def image(data: bytes | str, mime_type: str = "image/png") -> Block:
    """An image: bytes, or base64 text."""
    return {"type": "image", "data": _base64(data), "mimeType": mime_type}


def audio(data: bytes | str, mime_type: str = "audio/wav") -> Block:
    """Audio: bytes, or base64 text."""
    return {"type": "audio", "data": _base64(data), "mimeType": mime_type}


def resource(uri: str, content: str | bytes, mime_type: str = "text/plain") -> Block:
    """A whole resource, embedded in the result."""
    body = {"text": content} if isinstance(content, str) else {"blob": _base64(content)}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **body}}


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else base64.b64encode(data).decode()


# Input requests. A tool that needs an answer returns `need(...)`, and is called again, from its start, when the answers are there.


def need(**requests: Request) -> dict[str, Any]:
    """An output that asks the client for input. The tool is then called again, and `answers(ctx)` has the same names as keys."""
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
    """Ask for the folders that the client has open."""
    return {"method": "roots/list", "params": {}}


def answers(ctx: ToolContext) -> Mapping[str, Any]:
    """The client's answers so far, by the names given to `need`."""
    metadata = ctx.metadata.get("mcp")
    given = metadata.get("answers") if isinstance(metadata, Mapping) else None
    return given if isinstance(given, Mapping) else {}
