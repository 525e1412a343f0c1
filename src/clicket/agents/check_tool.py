"""The internal tool by which a check asks a person about a message or an answer. Each of its calls waits for a person; the text is its
argument, so the person reads it, and may change it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from clicket.model import ToolResult
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["CheckTool", "arguments_of", "edited_in", "tool_name"]

_DIGEST = 16


def tool_name(check: str) -> str:
    return f"check:{check}"


class CheckTool(ToolDefaults):
    """It may always run again: it has no effect."""

    traits = Traits(internal=True, holds_slot=False, listed=False, asks="a check asks")
    is_async = True
    options = Options(timeout=30, max_retries=3, recovery="rerun", read_only=True)
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The message or the answer. It goes on as you approve it."},
            "digest": {"type": "string", "description": "Of the text as it was."},
        },
        "required": ["text"],
        "additionalProperties": False,
    }

    def __init__(self, check: str) -> None:
        self.name: str = tool_name(check)
        self.description: str = f"The check {check!r} asks whether a text may go on. A person decides."

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str | None:
        """The text, if the person has changed it."""
        return None if _digest(bound["text"]) == bound.get("digest") else bound["text"]

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def arguments_of(text: str) -> dict[str, Any]:
    return {"text": text, "digest": _digest(text)}


def edited_in(result: ToolResult) -> str | None:
    """The text as the person has changed it; None: it was let through as it is."""
    return result.output if isinstance(result.output, str) else None


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
