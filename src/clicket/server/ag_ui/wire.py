"""The form of AG-UI's events and messages: objects with camel-case names. A field without a value is left out, never null."""

from __future__ import annotations

from typing import Any

from clicket.agents import TurnDocument
from clicket.model.chat import ChatMessage, Usage
from clicket.model.codec import encode

__all__ = [
    "PROTOCOL_VERSION",
    "Event",
    "assistant_id",
    "event",
    "frame",
    "history_messages",
    "result_id",
    "run_error",
    "token_usage",
    "tool_call",
    "without_context",
]

PROTOCOL_VERSION = "1.0"
Event = dict[str, Any]
CONTEXT = "\n\n[Context from the application]\n"


def event(type: str, at: float | None = None, **fields: Any) -> Event:
    """An event; fields that are None are left out. `at`: seconds since the epoch."""
    made: Event = {"type": type}
    if at:
        made["timestamp"] = int(at * 1_000)
    made.update((name, value) for name, value in fields.items() if value is not None)
    return made


def frame(made: Event) -> bytes:
    """One server-sent event."""
    return b"data: %s\n\n" % encode(made)


def run_error(message: str, code: str, usage: Usage | None = None) -> Event:
    return event("RUN_ERROR", message=message, code=code, usage=None if usage is None else token_usage(usage))


def token_usage(usage: Usage) -> list[Event]:
    """What the models counted; empty if they counted nothing."""
    if not usage.total:
        return []
    counted: Event = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total,
    }
    if usage.cached_tokens:
        counted["cachedInputTokens"] = min(usage.cached_tokens, usage.input_tokens)
    if usage.cache_write_tokens:
        counted["cacheWriteInputTokens"] = min(usage.cache_write_tokens, usage.input_tokens)
    if usage.reasoning_tokens:
        counted["reasoningTokens"] = min(usage.reasoning_tokens, usage.output_tokens)
    return [counted]


def tool_call(id: str, name: str, arguments: str) -> Event:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant_id(turn: int, step: int, branch: str = "", task: str = "") -> str:
    """The id of a model's message: the same whenever the turn is read."""
    return f"{task and f'{task}/'}t{turn}-{branch and f'{branch}-'}s{step}"


def result_id(turn: int, use_id: str) -> str:
    """The id of the message with a tool's result."""
    return f"t{turn}-{use_id}"


def without_context(text: str) -> str:
    """A user's message without what the application added to it for the model."""
    return text.partition(CONTEXT)[0]


def history_messages(turns: list[TurnDocument], ids: dict[int, str]) -> list[Event]:
    """The messages of turns that have ended. `ids`: the client's ids of the users' messages, by turn."""
    messages: list[Event] = []
    for turn in turns:
        step = 0
        for place, message in enumerate(turn.as_written):
            if message.role == "assistant":
                step += 1
            messages.append(_message(turn.turn, place, step, message, ids))
        if turn.text and turn.stopped not in (None, "finished"):
            messages.append({"id": f"t{turn.turn}-end", "role": "assistant", "content": turn.text})
    return messages


def _message(turn: int, place: int, step: int, message: ChatMessage, ids: dict[int, str]) -> Event:
    if message.role == "tool":
        return {
            "id": result_id(turn, message.use_id),
            "role": "tool",
            "toolCallId": message.use_id,
            "content": message.content,
        }
    if message.role != "assistant":
        own = ids.get(turn) if place == 0 else None
        return {"id": own or f"t{turn}-u{place}", "role": "user", "content": without_context(message.content)}
    made: Event = {"id": assistant_id(turn, step), "role": "assistant"}
    if message.content:
        made["content"] = message.content
    if message.uses:
        made["toolCalls"] = [tool_call(use.id, use.name, use.arguments) for use in message.uses]
    return made
