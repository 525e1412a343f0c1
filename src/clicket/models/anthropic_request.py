"""Writes a conversation for Anthropic's Messages API: user and assistant alternate, tool results come first, no text is empty."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clicket.model.chat import ChatMessage, ToolOffer, ToolUse
from clicket.model.foreign import clean, field
from clicket.models.file_blocks import anthropic_blocks, shows_files
from clicket.models.found_tools import found_in, in_wire_names
from clicket.models.transcript import AssistantStep, Names, as_object, in_steps
from clicket.tools.provider_schema import shown

__all__ = ["conversation", "goes_on_without_thought", "offered"]

_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOTHING = "(nothing)"
_BEGUN = "(The beginning of the conversation is left out.)"


def conversation(
    messages: Sequence[ChatMessage],
    names: Names,
    references: Collection[str] = (),
    files: Mapping[str, bytes] = {},  # never changed
) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the other messages. Adjacent messages of one role are merged. `references`: declared tools to which
    results of `find_tools` refer, instead of naming them. `files`: the bytes of those that are shown, by artifact."""
    merged: list[tuple[str, list[dict[str, Any]]]] = []

    def add(role: str, blocks: list[dict[str, Any]]) -> None:
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(blocks)
        else:
            merged.append((role, blocks))

    for one in in_steps([message for message in messages if message.role != "system"], _IDS):
        if not isinstance(one, AssistantStep):
            add("user", anthropic_blocks(one, files))
            continue
        if not merged:
            add("user", _text(_BEGUN))
        add("assistant", _written(one, names))
        if one.ids:
            answered = zip(one.ids, one.message.uses, one.results, strict=True)
            add("user", [_result(id, use, result, names, references, files) for id, use, result in answered])
    system = "\n\n".join(clean(one.content) for one in messages if one.role == "system" and one.content.strip())
    return system, [{"role": role, "content": _content(blocks)} for role, blocks in merged or [("user", [])]]


def goes_on_without_thought(messages: Sequence[dict[str, Any]]) -> bool:
    """Does the conversation end with results of tool calls that another model asked for, or this one without a thought?"""
    if (
        len(messages) < 2
        or not isinstance(messages[-1]["content"], list)
        or not isinstance(messages[-2]["content"], list)
    ):
        return False
    calls = messages[-2]["content"]
    has_results = any(block["type"] == "tool_result" for block in messages[-1]["content"])
    return has_results and calls[0]["type"] not in ("thinking", "redacted_thinking")


def offered(tools: Sequence[ToolOffer], names: Names, references: Collection[str] = ()) -> list[dict[str, Any]]:
    """The API accepts tool calls in a conversation only together with tools: without offers, the called tools are declared. A tool that
    is deferred, or that a result refers to, is not part of the prompt until then, so that the prompt's cache stays valid."""
    if not tools:
        return [{"name": names.wire(name), "input_schema": shown({})} for name in names.past]
    return [
        {
            "name": names.wire(offer.name),
            **({"description": offer.description} if offer.description.strip() else {}),
            "input_schema": shown(offer.input_schema),
            **({"defer_loading": True} if offer.deferred or offer.name in references else {}),
        }
        for offer in tools
    ]


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _content(blocks: list[dict[str, Any]]) -> Any:
    if not blocks:
        return _NOTHING
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _result(
    id: str, use: ToolUse, result: ChatMessage, names: Names, references: Collection[str], files: Mapping[str, bytes]
) -> dict[str, Any]:
    found = found_in(use, result, references)
    if found:
        blocks = [{"type": "tool_reference", "tool_name": names.wire(name)} for name in found]
        return {"type": "tool_result", "tool_use_id": id, "content": blocks}
    result = in_wire_names(use, result, names)
    if shows_files(result, files):
        return {"type": "tool_result", "tool_use_id": id, "content": anthropic_blocks(result, files)}
    return {
        "type": "tool_result",
        "tool_use_id": id,
        **({"content": result.content} if result.content.strip() else {}),
        **({"is_error": True} if result.failed else {}),
    }


def _written(step: AssistantStep, names: Names) -> list[dict[str, Any]]:
    message = step.message
    uses = [
        {"type": "tool_use", "id": id, "name": names.wire(use.name), "input": as_object(use)}
        for id, use in zip(step.ids, message.uses, strict=True)
    ]
    kept = (message.vendor or {}).get("anthropic")
    blocks = [one for one in kept if isinstance(one, dict)] if isinstance(kept, list | tuple) else []
    thoughts = [one for one in blocks if one.get("type") in ("thinking", "redacted_thinking")]
    if len(thoughts) != len(blocks):
        ordered = _in_order(blocks, message.content, uses)
        if ordered is not None:
            return ordered
    return [*thoughts, *_text(message.content), *uses]


def _in_order(blocks: list[dict[str, Any]], text: str, uses: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Thinking, text and calls in their original order; None if the message was changed since."""
    made: list[dict[str, Any]] = []
    at = 0
    left = list(uses)
    for block in blocks:
        if block.get("type") == "text":
            length = field(block, "length", 0)
            made += _text(text[at : at + length])
            at += length
        elif block.get("type") == "tool_use":
            if not left:
                return None
            made.append(left.pop(0))
        else:
            made.append(block)
    return made if at == len(text) and not left else None
