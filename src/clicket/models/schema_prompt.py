"""A JSON Schema as an instruction in the prompt, for servers that take no schema as a parameter."""

from __future__ import annotations

import json

import msgspec

from clicket.model.chat import ChatMessage, ChatRequest

__all__ = ["SCHEMA_WORDS", "with_schema"]

SCHEMA_WORDS = ("schema", "additionalproperties", "anyof", "'required'", "'properties'", "'const'")
"""A server that refuses a schema uses one of these words in its error, in lower case."""


def with_schema(request: ChatRequest) -> tuple[ChatMessage, ...]:
    """The messages with the schema at the end of the last one, where small models heed it most."""
    messages = request.messages
    if request.schema is None or not messages:
        return messages
    schema = json.dumps(request.schema, ensure_ascii=False, sort_keys=True)
    last = messages[-1]
    may_use_tools = request.tools and request.tool_choice != "none"
    when = "When you need no more tools, answer" if may_use_tools else "Answer"
    text = f"{when} with one JSON object that fits this JSON Schema, and with nothing else: {schema}"
    if last.role in ("user", "system"):
        return (*messages[:-1], msgspec.structs.replace(last, content=f"{last.content}\n\n{text}"))
    return (*messages, ChatMessage(role="user", content=text))
