"""Background calls of an agent: the model learns at once that a call has started, and its result enters a later step or turn.

The transcript says which calls are open: the answer to a call that was started names it, and so does the message with its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from clicket.agents.entries import Result
from clicket.model.chat import ChatMessage, ToolUse

__all__ = ["OpenCalls", "news_message", "result_message", "started_text"]

_OURS = "clicket"


def started_text(call_id: str) -> str:
    """What the model reads as the answer to a call that was started."""
    return f"Started in the background as call {call_id}. Its result comes in a later message; go on without it."


def result_message(item: Result) -> ChatMessage:
    """The answer to a tool call, from its recorded result."""
    vendor = {_OURS: {"background": item.call, "tool": item.tool}} if item.background else None
    files = tuple(item.files)
    return ChatMessage(role="tool", content=item.text, use_id=item.id, failed=item.failed, files=files, vendor=vendor)


def news_message(item: Result) -> ChatMessage:
    """The message with the result of a background call."""
    how = "failed" if item.failed else "completed"
    return ChatMessage(
        role="user",
        content=f"[The background call {item.call} of {item.tool} has {how}.]\n{item.text}",
        files=tuple(item.files),
        vendor={_OURS: {"result_of": item.call}},
    )


class OpenCalls:
    """The background calls of a thread whose results the model has not read. Messages are only added, so each is read once."""

    __slots__ = ("_calls", "_read")

    def __init__(self) -> None:
        self._calls: dict[str, ToolUse] = {}
        self._read = 0

    def among(self, messages: Sequence[ChatMessage]) -> dict[str, ToolUse]:
        """By their ids, those of all messages so far."""
        for message in islice(messages, self._read, None):
            ours = None if message.vendor is None else message.vendor.get(_OURS)
            if type(ours) is not dict:
                continue
            if message.role == "tool" and ours.get("background"):
                use = ToolUse(id=message.use_id, name=str(ours.get("tool", "")), arguments="")
                self._calls[str(ours["background"])] = use
            elif message.role == "user":
                self._calls.pop(str(ours.get("result_of")), None)
        self._read = len(messages)
        return self._calls
