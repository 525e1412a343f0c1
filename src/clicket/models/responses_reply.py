"""Reads a reply of OpenAI's Responses API, whole or in events. Reasoning is kept unchanged: it goes back before what followed it."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model.chat import ChatReply, Ended, Usage
from clicket.model.foreign import clean, field
from clicket.models.error_translation import Endpoint, interrupted_reply, malformed_reply, stream_error
from clicket.models.prices import Prices, token_count
from clicket.models.reply_builder import ReplyBuilder, ToolUseBuilder

__all__ = ["ItemReader"]

_ENDED: dict[str, Ended] = {"max_output_tokens": "length", "content_filter": "refusal"}
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ARGUMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_CALLS = ("function_call", "custom_tool_call")


class _Item:
    """An item of the output while it is read. `size`: characters of its text so far."""

    def __init__(self) -> None:
        self.use: ToolUseBuilder | None = None
        self.size = 0
        self.has_arguments = False
        self.has_thought = False
        self.kept: dict[str, Any] | None = None


class ItemReader:
    def __init__(self, answer: ReplyBuilder, endpoint: Endpoint) -> None:
        self._answer = answer
        self._endpoint = endpoint
        self._items: dict[Any, _Item] = {}
        self._status: Any = None
        self._reason: Any = None
        self._refused = False
        self._usage = Usage()

    def whole(self, answer: Any) -> None:
        if not isinstance(field(answer, "output"), list):
            raise malformed_reply(self._endpoint)
        self._end(answer)

    def feed(self, event: Any) -> None:
        kind = field(event, "type")
        if kind in _LAST:
            self._end(field(event, "response"))
        elif kind in ("response.created", "response.in_progress"):
            self._known(field(event, "response"))
        elif kind == "response.output_item.added":
            self._begin(self._item(event), field(event, "item"))
        elif kind == "response.output_item.done":
            self._finish(self._item(event), field(event, "item"))
        elif kind in _TEXTS:
            self._text(self._item(event), field(event, "delta"), refused=kind == _TEXTS[1])
        elif kind in _THOUGHTS:
            self._thought(self._item(event), field(event, "delta"))
        elif kind == "response.reasoning_summary_part.added" and field(event, "summary_index"):
            self._thought(self._item(event), "\n\n")
        elif kind == _ARGUMENTS[0]:
            self._arguments(self._item(event), field(event, "delta"))

    def reply(self, prices: Prices) -> ChatReply:
        if self._status is None and not self._answer.full:
            raise interrupted_reply(self._endpoint)
        items = [item.kept for item in self._items.values() if item.kept is not None]
        plain = all(item.keys() <= {"type", "length", "id"} for item in items)
        return self._answer.reply(
            ended="refusal" if self._refused else _ENDED.get(str(self._reason), "stop"),
            usage=prices.priced(self._usage),
            vendor=None if plain else {"openai": items},
        )

    def _item(self, event: Any) -> _Item:
        return self._items.setdefault(str(field(event, "output_index")), _Item())

    def _known(self, response: Any) -> None:
        self._answer.known_as(field(response, "id"), field(response, "model"))

    def _end(self, response: Any) -> None:
        """The last event, or the whole reply. Items that did not come in events are read here."""
        self._known(response)
        self._status = field(response, "status") or "completed"
        self._reason = field(field(response, "incomplete_details"), "reason")
        error = field(response, "error")
        if error is not None or self._status == "failed":
            told = {name: field(error, name) for name in ("code", "message")}
            raise stream_error({"error": told}, self._endpoint)
        if self._status not in ("completed", "incomplete"):
            raise interrupted_reply(self._endpoint)
        output = field(response, "output")
        for place, item in enumerate(output if isinstance(output, list) else ()):
            if str(place) not in self._items:
                self._finish(self._items.setdefault(str(place), _Item()), item)
        self._count(field(response, "usage"))

    def _begin(self, item: _Item, given: Any) -> None:
        if field(given, "type") in _CALLS and item.use is None:
            item.use = self._answer.begin(field(given, "call_id"))
            item.use.name(field(given, "name"))

    def _finish(self, item: _Item, given: Any) -> None:
        """An item in its final form. What did not come in pieces is read from it."""
        self._begin(item, given)
        kind = field(given, "type")
        if kind == "message" and not item.size:
            for part in field(given, "content") or ():
                refusal = field(part, "refusal")
                self._text(item, refusal or field(part, "text"), refused=isinstance(refusal, str))
        elif kind == "reasoning" and not item.has_thought:
            parts = [*(field(given, "summary") or ()), *(field(given, "content") or ())]
            texts = [text for part in parts if isinstance(text := field(part, "text"), str)]
            self._thought(item, "\n\n".join(texts))
        elif kind in _CALLS and not item.has_arguments:
            custom = field(given, "input")
            self._arguments(item, field(given, "arguments") if custom is None else {"input": custom})
        item.kept = _to_keep(given, item.size)

    def _text(self, item: _Item, piece: Any, *, refused: bool) -> None:
        if isinstance(piece, str) and piece:
            self._refused = self._refused or refused
            item.size += len(piece)
            self._answer.text(piece)

    def _thought(self, item: _Item, piece: Any) -> None:
        if isinstance(piece, str) and piece:
            item.has_thought = True
            self._answer.thought(piece)

    def _arguments(self, item: _Item, piece: Any) -> None:
        if item.use is not None and piece:
            item.has_arguments = True
            item.use.arguments(piece)

    def _count(self, used: Any) -> None:
        asked = token_count(field(used, "input_tokens"))
        details = field(used, "input_tokens_details")
        cached = min(token_count(field(details, "cached_tokens")), asked)
        self._usage = Usage(
            input_tokens=asked,
            output_tokens=token_count(field(used, "output_tokens")),
            cached_tokens=cached,
            cache_write_tokens=min(token_count(field(details, "cache_write_tokens")), asked - cached),
            reasoning_tokens=token_count(field(field(used, "output_tokens_details"), "reasoning_tokens")),
        )


def _to_keep(given: Any, size: int) -> dict[str, Any] | None:
    """What goes back to the vendor with the next request: of a text its length, of a call its id, of anything else all."""
    kind, id = field(given, "type"), field(given, "id")
    if kind == "message":
        phase = field(given, "phase")
        kept = {"type": kind, "id": id, "length": size, "phase": phase if isinstance(phase, str) else None}
    elif kind == "function_call":
        kept = {"type": kind, "id": id}
    elif kind in _CALLS:
        return None
    elif kind == "reasoning":
        kept = {name: field(given, name) for name in ("type", "id", "summary", "content", "encrypted_content")}
        kept["summary"] = kept["summary"] or []
    else:
        plain = given if isinstance(given, dict) else given.model_dump(exclude_none=True, mode="json")
        kept = {name: value for name, value in plain.items() if name != "status"}
    made: dict[str, Any] = msgspec.to_builtins(
        {name: value for name, value in kept.items() if value is not None}, enc_hook=_plain
    )
    return made


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True, mode="json") if callable(dump) else clean(value)
