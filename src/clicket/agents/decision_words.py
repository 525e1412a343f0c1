"""Decisions of middleware and checks in words: in the record of a turn, and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["in_words"]

_ABOUT = {
    "input": "the message",
    "output": "the answer",
    "after_model": "the answer",
    "tool_call": "a call",
    "before_tool": "a call",
    "tool_result": "a result",
    "after_tool": "a result",
    "at_end": "the final text",
    "before_model": "the request",
    "instructions": "the instructions",
    "tools": "the tools",
}
_MAX_TEXT = 200


def in_words(by: str, on: str, value: Any) -> str:
    """One line, such as "pii changes the answer"."""
    given = value if isinstance(value, Mapping) else {}
    about, text = _ABOUT.get(on, on), str(given.get("text") or "")[:_MAX_TEXT]
    match given.get("do"):
        case "refuse":
            return f"{by} refuses {about}: {text}"
        case "ask":
            return f"{by} asks a person about {about}: {text}"
        case "pass":
            return f"a person lets {about} pass, about which {by} asked"
    return f"{by} changes {about}"
