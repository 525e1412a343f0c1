"""Finds the tool calls in objects and streams of OpenAI's APIs. Every field is optional."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clicket.adapters.tool_request import INCOMPLETE, ToolRequest
from clicket.model.foreign import clean, field

__all__ = ["Reader", "read_items", "read_message"]

_CUT = (
    "invalid_input: the answer ended while this call was being written, so it was not run. "
    "Make the call again, with shorter arguments or in parts."
)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else clean(value)


def read_message(message: Any, finish_reason: Any = None) -> list[ToolRequest]:
    """The tool calls of a chat message, or the one function call of the old protocol."""
    calls = field(message, "tool_calls")
    if isinstance(calls, list | tuple) and calls:
        return _unless_cut([_chat_call(call) for call in calls], finish_reason)
    legacy = field(message, "function_call")
    if legacy is not None:
        name, arguments = field(legacy, "name"), field(legacy, "arguments")
        return [ToolRequest(id="", name=_text(name), arguments=arguments, kind="legacy")]
    return []


def _unless_cut(calls: list[ToolRequest], finish_reason: Any) -> list[ToolRequest]:
    """Refuse a last call without arguments if the token limit was reached: its arguments are missing. (Incomplete JSON is refused by
    the runtime.)"""
    if calls and finish_reason == "length" and calls[-1].arguments in (None, "", {}):
        calls[-1] = msgspec.structs.replace(calls[-1], refusal=_CUT)
    return calls


def _chat_call(call: Any) -> ToolRequest:
    id = _text(field(call, "id"))
    custom = field(call, "custom")
    if custom is not None and field(call, "function") is None:
        return ToolRequest(id=id, name=_text(field(custom, "name")), arguments={"input": field(custom, "input")})
    function = field(call, "function")
    return ToolRequest(id=id, name=_text(field(function, "name")), arguments=field(function, "arguments"))


def read_items(items: Any, *, whole: bool = False) -> list[ToolRequest]:
    """The calls among the output items of a response; with `whole`, calls of the chat API too."""
    found: list[ToolRequest] = []
    for item in items if isinstance(items, list | tuple) else ():
        kind = field(item, "type")
        if kind in ("function_call", "custom_tool_call"):
            found.append(_item_call(item))
        elif whole and (field(item, "function") is not None or field(item, "custom") is not None):
            found.append(_chat_call(item))
    return found


def _item_call(item: Any) -> ToolRequest:
    kind, status = field(item, "type"), field(item, "status")
    id = field(item, "call_id")
    custom = kind == "custom_tool_call"
    caller = _plain(field(item, "caller"))
    return ToolRequest(
        id=_text(id if id is not None else field(item, "id")),
        name=_text(field(item, "name")),
        arguments={"input": field(item, "input")} if custom else field(item, "arguments"),
        kind=kind,
        refusal=_CUT if status == "incomplete" else "",
        extra={"caller": caller} if caller else {},
    )


def _plain(caller: Any) -> dict[str, Any]:
    """The provider's program that made the call, if any: the result must repeat it."""
    kind, id = field(caller, "type"), field(caller, "caller_id")
    return {"type": kind, "caller_id": id} if kind == "program" and isinstance(id, str) else {}


class _Pieces(msgspec.Struct):
    """The pieces of a chat tool call so far."""

    id: str = ""
    name: str = ""
    arguments: list[str] = []
    odd: Any = None  # arguments that are not text, as some providers send


class Reader:
    """Assembles tool calls from chunks of a completion or events of a response, raw or from the SDK's helpers."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        self._open: dict[Any, _Pieces] = {}  # chat, by index
        self._begun: dict[Any, Any] = {}  # Responses, by output index

    def feed(self, event: Any) -> Iterator[ToolRequest]:
        kind = field(event, "type")
        if kind == "chunk":  # the chat helper's event around a raw chunk
            event, kind = field(event, "chunk"), None
        if kind is None or field(event, "choices") is not None:
            yield from self._chunk(event)
        elif isinstance(kind, str) and kind.startswith("response."):
            yield from self._event(kind, event)

    def close(self) -> Iterator[ToolRequest]:
        for pieces in self._open.values():
            yield self._joined(pieces, INCOMPLETE)
        for item in self._begun.values():
            yield msgspec.structs.replace(_item_call(item), refusal=INCOMPLETE)
        self._open.clear()
        self._begun.clear()

    def _chunk(self, chunk: Any) -> Iterator[ToolRequest]:
        if self.response_id is None:
            self.response_id = clean(field(chunk, "id")) or None
        choices = field(chunk, "choices")
        for choice in choices if isinstance(choices, list | tuple) else ():
            if (field(choice, "index") or 0) != 0:
                continue
            calls = field(field(choice, "delta"), "tool_calls")
            for call in calls if isinstance(calls, list | tuple) else ():
                yield from self._piece(call)
            if (reason := field(choice, "finish_reason")) is not None:
                yield from self._whole(reason)

    def _piece(self, call: Any) -> Iterator[ToolRequest]:
        """A call is complete when the next one begins. Some providers use one index for all calls, with different ids."""
        index, id = field(call, "index"), field(call, "id")
        known = self._open.get(index)
        if known is None or (isinstance(id, str) and id and known.id and id != known.id):
            yield from self._whole()
            known = self._open[index] = _Pieces(arguments=[])
        function = field(call, "function")
        name, arguments = field(function, "name"), field(function, "arguments")
        if isinstance(id, str) and id:
            known.id = id
        if isinstance(name, str) and name != known.name:  # some repeat the name with every piece
            known.name += name
        if isinstance(arguments, str):
            known.arguments.append(arguments)
        elif arguments is not None:
            known.odd = arguments

    def _whole(self, finish_reason: Any = None) -> list[ToolRequest]:
        calls = [self._joined(pieces) for pieces in self._open.values()]
        self._open.clear()
        return _unless_cut(calls, finish_reason)

    def _joined(self, pieces: _Pieces, refusal: str = "") -> ToolRequest:
        arguments = "".join(pieces.arguments) or pieces.odd
        return ToolRequest(id=pieces.id, name=pieces.name, arguments=arguments, refusal=refusal)

    def _event(self, kind: str, event: Any) -> Iterator[ToolRequest]:
        item, place = field(event, "item"), field(event, "output_index")
        if kind in ("response.created", "response.in_progress"):
            self.response_id = clean(field(field(event, "response"), "id")) or self.response_id
        elif field(item, "type") in ("function_call", "custom_tool_call"):
            if kind == "response.output_item.added":
                self._begun[place] = item
            elif kind == "response.output_item.done":
                self._begun.pop(place, None)
                yield _item_call(item)
