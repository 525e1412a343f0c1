"""What is said to a language model, and what it answers. New fields come with a default: who builds or reads these goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["ChatMessage", "ChatReply", "ChatRequest", "Ended", "Usage"]

Ended = Literal["stop", "length", "refusal"]
"""Why an answer ends: it is whole, it reached its limit of tokens, or the model declined to give one."""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: str


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`schema`: the answer is to be JSON that fits it. A model that cannot promise that is still asked; who asks checks."""

    messages: tuple[ChatMessage, ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "answer"
    max_tokens: int | None = None

    @property
    def text(self) -> str:
        """The whole conversation as one text, for models that take no more than that."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(
            f"Your answer was:\n{one.content}" if one.role == "assistant" else one.content for one in self.messages
        )


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
    ended: Ended = "stop"
