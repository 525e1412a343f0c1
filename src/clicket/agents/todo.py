"""`Todo`: the model writes down its steps, and reads the list again in each request. The list is the last one that the messages of the
thread have, so nothing is recorded beside the calls that write it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from clicket.agents.middleware import Middleware
from clicket.agents.turn import Turn
from clicket.model.chat import ChatMessage
from clicket.tools import Options, Tool, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["Todo", "TodoItem", "todo_of"]

_NAME = "write_todo"
_SIGNS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the list."""

    text: str
    status: Literal["open", "doing", "done"] = "open"


class _Written(msgspec.Struct, frozen=True):
    items: list[TodoItem]


class _WriteTodo(ToolDefaults):
    """It has no effect of its own: the list is the call's arguments."""

    name = _NAME
    description = (
        "Write your list of steps for work that takes several of them. Give the whole list each time: it takes the place of the one "
        "before. Keep it current: mark a step as doing when you begin it, and as done as soon as it is."
    )
    traits = Traits(listed=False)
    is_async = True
    options = Options(timeout=30, max_retries=0, read_only=True)
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "maxItems": 50,
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "minLength": 1, "maxLength": 300},
                        "status": {"enum": [*_SIGNS], "default": "open"},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    }

    def bind(self, arguments: dict[str, Any]) -> list[TodoItem]:
        return msgspec.convert(arguments, _Written).items

    async def run(self, bound: list[TodoItem], ctx: ToolContext) -> str:
        return _text(bound) or "The list is empty."

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


_written = msgspec.json.Decoder(_Written)
_WRITE = _WriteTodo()


class Todo(Middleware):
    """`ReActAgent(…, middleware=[Todo()])`: the model gets the tool `write_todo`. `todo_of(r.messages)` is the list."""

    name = "todo"
    is_derived = True

    def tools(self, turn: Turn) -> Sequence[Tool]:
        return (_WRITE,)

    def instructions(self, turn: Turn) -> str | None:
        items = todo_of(turn.messages)
        if all(item.status == "done" for item in items):
            return None
        return f"Your list of steps, as you wrote it last with {_NAME}:\n{_text(items)}"


def todo_of(messages: Sequence[ChatMessage]) -> list[TodoItem]:
    """The list that a model wrote last: of `r.messages`, or of `await agent.messages(thread)`. Empty: there is none."""
    refused: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool" and message.failed:
            refused.add(message.use_id)
        for use in reversed(message.uses):
            if use.name == _NAME and use.id not in refused:
                try:
                    return _written.decode(use.arguments).items
                except (msgspec.MsgspecError, ValueError):
                    continue
    return []


def _text(items: Iterable[TodoItem]) -> str:
    return "\n".join(f"{_SIGNS[item.status]} {' '.join(item.text.split())}" for item in items)
