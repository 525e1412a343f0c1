"""A generous estimate of a request's input tokens, for reservations."""

from __future__ import annotations

from clicket.model.chat import ChatRequest
from clicket.model.codec import encode

__all__ = ["prompt_tokens"]

_BYTES = 2
"""Bytes of UTF-8 that make a token, at least: texts in most languages have 3 to 4 bytes in each."""


def prompt_tokens(request: ChatRequest) -> int:
    """A generous estimate of the input's tokens."""
    size = 0
    for message in request.messages:
        size += 16 + len(message.content.encode("utf-8", "replace"))
        size += sum(32 + len(use.name) + len(use.arguments.encode("utf-8", "replace")) for use in message.uses)
        size += sum(ref.tokens * _BYTES for ref in message.files if ref.artifact in request.files)
        if message.vendor:
            size += len(encode(message.vendor))
    for tool in request.tools:
        if tool.deferred:
            continue
        size += 32 + len(tool.name) + len(tool.description.encode("utf-8", "replace")) + len(encode(tool.input_schema))
    if request.schema is not None:
        size += len(encode(request.schema))
    return -(-size // _BYTES)
