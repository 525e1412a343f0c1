"""Reads a reply of OpenAI's chat completions API, whole or in chunks. Every field is optional, because servers differ.

Some servers repeat a call's id or name in every chunk, some send neither index nor id, some send whole calls in one chunk, some
send arguments as an object, and old ones send a single `function_call`.
"""

from __future__ import annotations

from typing import Any

from clicket.model.chat import ChatReply, Ended, Usage
from clicket.model.foreign import field
from clicket.models.error_translation import Endpoint, interrupted_reply, malformed_reply
from clicket.models.prices import Prices, token_count
from clicket.models.reply_builder import ReplyBuilder, ToolUseBuilder

__all__ = ["ChatReader"]

_ENDED: dict[str, Ended] = {"length": "length", "content_filter": "refusal"}


class ChatReader:
    def __init__(self, answer: ReplyBuilder, endpoint: Endpoint) -> None:
        self._answer = answer
        self._endpoint = endpoint
        self._open: dict[Any, ToolUseBuilder] = {}
        self._reason: Any = None
        self._refused = False
        self._usage = Usage()

    def whole(self, answer: Any) -> None:
        choices = field(answer, "choices")
        message = field(choices[0], "message") if isinstance(choices, list) and choices else None
        if message is None:
            raise malformed_reply(self._endpoint)
        self._answer.known_as(field(answer, "id"), field(answer, "model"))
        self._take(message)
        self._reason = field(choices[0], "finish_reason") or "stop"
        self._count(answer)

    def feed(self, event: Any) -> None:
        self._answer.known_as(field(event, "id"), field(event, "model"))
        self._count(event)
        choices = field(event, "choices")
        for choice in choices if isinstance(choices, list) else ():
            if (field(choice, "index") or 0) != 0:  # alternative answers, which were not requested
                continue
            # Some servers end the stream with a whole message instead of a delta.
            self._take(field(choice, "delta") or field(choice, "message"))
            self._reason = field(choice, "finish_reason") or self._reason

    def reply(self, prices: Prices) -> ChatReply:
        if self._reason is None and not self._answer.full:
            raise interrupted_reply(self._endpoint)
        ended: Ended = "refusal" if self._refused else _ENDED.get(str(self._reason), "stop")
        return self._answer.reply(ended=ended, usage=prices.priced(self._usage))

    def _take(self, part: Any) -> None:
        """A message or a delta: they have the same fields."""
        self._answer.thought(field(part, "reasoning_content") or field(part, "reasoning"))
        refusal = field(part, "refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            self._answer.text(refusal)
        else:
            self._answer.text(_text(field(part, "content")))
        calls = field(part, "tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            self._call(call, place)
        legacy = field(part, "function_call")
        if legacy is not None and not calls:
            self._call({"index": "legacy", "function": legacy}, 0)

    def _call(self, call: Any, place: int) -> None:
        index, id = field(call, "index"), field(call, "id")
        function, custom = field(call, "function"), field(call, "custom")
        if function is None and custom is not None:
            given = field(custom, "input")
            function = {"name": field(custom, "name"), "arguments": None if given is None else {"input": given}}
        name, arguments = field(function, "name"), field(function, "arguments")
        key = ("place", place) if index is None else ("index", str(index))
        use = self._open.get(key)
        if use is None or _is_another(use, id, name, arguments):
            use = self._open[key] = self._answer.begin(id)
        elif not use.id and isinstance(id, str):
            use.id = id
        use.name(name)
        use.arguments(arguments)

    def _count(self, event: Any) -> None:
        used = field(event, "usage")
        if used is None:
            return
        asked = token_count(field(used, "prompt_tokens"))
        details = field(used, "prompt_tokens_details")
        cached = min(token_count(field(details, "cached_tokens")), asked)
        self._usage = Usage(
            input_tokens=asked,
            output_tokens=token_count(field(used, "completion_tokens")),
            cached_tokens=cached,
            cache_write_tokens=min(token_count(field(details, "cache_write_tokens")), asked - cached),
            reasoning_tokens=token_count(field(field(used, "completion_tokens_details"), "reasoning_tokens")),
        )


def _is_another(use: ToolUseBuilder, id: Any, name: Any, arguments: Any) -> bool:
    """Does this chunk begin another call under the index of a known one?"""
    if isinstance(id, str) and id:
        return bool(use.id) and id != use.id
    if not isinstance(name, str) or not name or not arguments:
        return False
    return use.is_whole()


def _text(content: Any) -> str:
    """Some servers send a list of parts, as in the Responses API."""
    if isinstance(content, list):
        parts = [field(one, "text") for one in content]
        return "".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""
