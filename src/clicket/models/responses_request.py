"""Writes a conversation as items of OpenAI's Responses API. The vendor need not store it: reasoning comes encrypted, and goes back
before the message or the call that followed it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clicket.model.chat import ChatMessage, ToolOffer
from clicket.model.foreign import field
from clicket.models.file_blocks import response_parts, shows_files
from clicket.models.found_tools import in_wire_names
from clicket.models.transcript import AssistantStep, Names, as_object_text, in_steps
from clicket.tools.provider_schema import shown

__all__ = ["failure_text", "function_tool", "input_items"]

_IDS = re.compile(r"[!-~]{1,64}")
_FOLLOWS = ("reasoning", "message", "function_call")


def input_items(
    messages: Sequence[ChatMessage],
    names: Names,
    *,
    reasoning: bool,
    stored: bool,
    files: Mapping[str, bytes] | None = None,
) -> list[dict[str, Any]]:
    """`reasoning`: send back the items of earlier replies that only the vendor can read. `stored`: the vendor has them, and knows their
    ids; otherwise reasoning that is not encrypted stays here. `files`: the bytes of those that are shown, by artifact."""
    items: list[dict[str, Any]] = []
    files = files or {}
    for one in in_steps(messages, _IDS):
        if not isinstance(one, AssistantStep):
            shows = one.role == "user" and shows_files(one, files)
            items.append({"role": one.role, "content": response_parts(one, files) if shows else one.content})
            continue
        items += _reply_items(one, names, reasoning=reasoning, stored=stored)
        answered = zip(one.ids, one.message.uses, one.results, strict=True)
        items += [
            {
                "type": "function_call_output",
                "call_id": id,
                "output": response_parts(result, files)
                if shows_files(result, files)
                else failure_text(in_wire_names(use, result, names)),
            }
            for id, use, result in answered
        ]
    return items


def function_tool(offer: ToolOffer, names: Names) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    parameters = shown(offer.input_schema)
    return {
        "type": "function", "name": names.wire(offer.name), **described, "parameters": parameters, "strict": False,
    }  # fmt: skip


def failure_text(result: ChatMessage) -> str:
    """The result's text: OpenAI's APIs have no field that marks a failed call."""
    failed = result.failed and not result.content.startswith("Error: ")
    return f"Error: {result.content}" if failed else result.content


def _reply_items(step: AssistantStep, names: Names, *, reasoning: bool, stored: bool) -> list[dict[str, Any]]:
    message = step.message
    calls = [
        {"type": "function_call", "call_id": id, "name": names.wire(use.name), "arguments": as_object_text(use)}
        for id, use in zip(step.ids, message.uses, strict=True)
    ]
    kept = (message.vendor or {}).get("openai")
    if reasoning and isinstance(kept, list):
        ordered = _in_order(kept, message.content, calls)
        if ordered is not None:
            return _sendable(ordered, stored=stored)
    said = [{"role": "assistant", "content": message.content}] if message.content.strip() else []
    return [*said, *calls]


def _in_order(kept: list[Any], text: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The kept items with the text and the calls in their places; None if the message was changed since."""
    made, at, left = list[dict[str, Any]](), 0, list(calls)
    for item in kept:
        kind = field(item, "type")
        if kind == "message":
            length = field(item, "length", 0)
            piece = text[at : at + length]
            at += length
            bare = {name: value for name, value in item.items() if name != "length"}
            if "id" in bare:
                part = {"type": "output_text", "text": piece, "annotations": []}
                made.append({**bare, "role": "assistant", "status": "completed", "content": [part]})
            elif piece:
                made.append({**bare, "role": "assistant", "content": piece})
        elif kind == "function_call":
            if not left:
                return None
            made.append({**item, **left.pop(0)})
        elif isinstance(item, Mapping):
            made.append(dict(item))
    return made if at == len(text) and not left else None


def _sendable(items: list[dict[str, Any]], *, stored: bool) -> list[dict[str, Any]]:
    """Without reasoning that the vendor does not have, or that nothing follows: it would refuse the request."""
    made: list[dict[str, Any]] = []
    for item in reversed(items):
        if item.get("type") == "reasoning":
            known = stored or item.get("encrypted_content")
            if not known or not made or made[-1].get("type") not in _FOLLOWS:
                continue
        made.append(item)
    return made[::-1]
