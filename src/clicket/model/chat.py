"""Messages to a language model, and its replies. New fields get a default, so that existing code keeps working."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from clicket.model.files import FileRef

__all__ = [
    "ChatMessage",
    "ChatReply",
    "ChatRequest",
    "Delta",
    "Ended",
    "ToolOffer",
    "ToolUse",
    "TypedBy",
    "Usage",
    "input_parts",
]

Ended = Literal["stop", "length", "refusal"]
"""Why an answer ends: it is whole, it reached its limit of tokens, or the model declined to give one."""

TypedBy = Literal["schema", "tool", "text"]
"""How a model is asked for an answer of a type, which is its attribute `typed_by`: by the `schema` of the request, also beside tools; by a
tool that takes the answer; or in the instructions, as for a model that does not say."""


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool call as a model wrote it: `arguments` is its text, which need not be JSON, nor fit the tool."""

    id: str
    name: str
    arguments: str = "{}"


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = {}
    deferred: bool = False
    """The model is to learn of it only when a search finds it. Only for models whose vendor can do so; others must not get it."""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`uses` are an assistant's tool calls; each is answered by one message of the role `tool` with its id as `use_id`. As JSON
    they have the names by which most programs know them."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = msgspec.field(default_factory=str)  # so given, it is in the JSON also when it is empty
    uses: tuple[ToolUse, ...] = msgspec.field(default=(), name="tool_calls")
    use_id: str = msgspec.field(default="", name="tool_call_id")
    failed: bool = False
    """Of a tool's answer: the call did not succeed, and `content` says why."""
    thought: str = ""
    """What the model thought before it answered, where it tells. Shown to people; not sent back."""
    files: tuple[FileRef, ...] = ()
    """Images and files. `content` has a line for each; one whose line is not in it is not shown."""
    vendor: Mapping[str, Any] | None = None
    """Parts that only the model's own vendor can read, and wants back as they were: `{"anthropic": [...]}`."""
    id: str = ""
    """By which middleware names it, in the requests that middleware reads alone."""

    def unseen(self, ref: FileRef, why: str) -> ChatMessage:
        """The message for a request that does not show this file, and says why."""
        content = self.content.replace(ref.line, ref.unseen(why))
        return msgspec.structs.replace(self, content=content, files=tuple(each for each in self.files if each != ref))

    # The same names as in the JSON.

    @property
    def tool_calls(self) -> tuple[ToolUse, ...]:
        return self.uses

    @property
    def tool_call_id(self) -> str:
        return self.use_id


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`schema`: the answer is to be JSON that fits it. A model that cannot guarantee that is still asked; the caller checks.

    `tools`: what the model may call. `tool_choice`: "none" forbids it for this answer although the tools are listed,
    "required" asks for at least one call; neither is a promise. `files`: the bytes of those files of its messages that the model
    sees, by artifact; they are no part of the conversation, and not on record.
    """

    messages: tuple[ChatMessage, ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "answer"
    max_tokens: int | None = None
    tools: tuple[ToolOffer, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    files: Mapping[str, bytes] = {}

    @property
    def text(self) -> str:
        """The whole conversation as one text, for models that take no more than that."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(
            f"Your answer was:\n{one.content}" if one.role == "assistant" else one.content for one in self.messages
        )


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`cached_tokens` and `cache_write_tokens` are parts of the input: the vendor read them from its prompt cache, or wrote them to it.
    `reasoning_tokens` are a part of the output, where the vendor counts them. `cost` is in the currency of the prices."""

    input_tokens: int = msgspec.field(default_factory=int)  # these two are in the JSON also when nothing was used
    output_tokens: int = msgspec.field(default_factory=int)
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=self.cost + other.cost,
        )


def input_parts(usage: Usage) -> tuple[int, int, int]:
    """The input's tokens: neither read from nor written to the vendor's cache, read from it, written to it. They add up to all."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    return usage.input_tokens - cached - written, cached, written


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    text: str = ""
    usage: Usage = Usage()
    ended: Ended = "stop"
    uses: tuple[ToolUse, ...] = ()
    thought: str = ""
    vendor: Mapping[str, Any] | None = None
    """As in `ChatMessage`."""
    id: str = ""
    """The vendor's name of this reply, if it gave one."""
    model: str = ""
    """The model that answered, as the vendor names it: it may be more precise than the one that was asked for."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of an answer that is being given. `use`: the number of the tool call, from 0, that `name` begins and
    `arguments` go on with."""

    kind: Literal["text", "thought", "name", "arguments"]
    text: str
    use: int = 0
