"""What is said to a language model, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["ChatMessage", "ChatReply", "ChatRequest", "Usage"]


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: str


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`schema`: the answer is to be JSON that fits it. A model that cannot promise that is still asked; who asks checks."""

    messages: tuple[ChatMessage, ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "answer"
    max_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens, output_tokens=self.output_tokens + other.output_tokens
        )


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    usage: Usage = Usage()
