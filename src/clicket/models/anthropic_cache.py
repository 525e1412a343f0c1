"""Marks the parts of a request that Anthropic's prompt cache may keep (`cache_control`). A mark says: cache all up to here.

The vendor reads a prompt in the order tools, system, messages, and takes at most four marks. It looks for what it has cached at each
mark, and at most 20 blocks before it. So the last mark is at the end, for the next request; another one where the request before ended,
which a step of many calls may have left more than 20 blocks behind; the others after the tools and after the system text, which other
conversations share. A prompt that is too short for the cache is answered as one without marks.
"""

from __future__ import annotations

from typing import Any

from clicket.model.chat import ChatRequest

__all__ = ["is_repeated", "marked"]

_MARK = {"cache_control": {"type": "ephemeral"}}
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")
"""Blocks that take a mark; thinking does not."""


def is_repeated(request: ChatRequest) -> bool:
    """Will another request begin as this one does? A single question would pay for a write to the cache that nothing reads."""
    return bool(request.tools) or any(message.role == "assistant" for message in request.messages)


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """The request with its marks. What the given one refers to is not changed."""
    made, messages = dict(body), list(body["messages"])
    if "tools" in body:
        made["tools"] = _with_mark(body["tools"], lambda tool: not tool.get("defer_loading"))
    if isinstance(body.get("system"), str):
        made["system"] = [{"type": "text", "text": body["system"], **_MARK}]
    for place in _ends(messages):
        content = messages[place]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages[place] = {**messages[place], "content": _with_mark(blocks, lambda block: block["type"] in _MARKABLE)}
    return {**made, "messages": messages}


def _ends(messages: list[dict[str, Any]]) -> list[int]:
    """The last message of this request, and that of the one before: the message before the model's last reply."""
    last = len(messages) - 1
    replies = [place for place, message in enumerate(messages) if message["role"] == "assistant" and 0 < place < last]
    return [last, replies[-1] - 1] if replies else [last]


def _with_mark(parts: list[dict[str, Any]], fits: Any) -> list[dict[str, Any]]:
    """With a mark on the last part that fits."""
    for place in range(len(parts) - 1, -1, -1):
        if fits(parts[place]):
            return [*parts[:place], {**parts[place], **_MARK}, *parts[place + 1 :]]
    return parts
