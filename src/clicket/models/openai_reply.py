"""An answer of OpenAI's chat completions, whole or in chunks. What is there is read, nothing is expected: servers differ.

Some repeat a call's id or name with every piece, some send neither index nor id, some whole calls in one chunk, some arguments
as an object, and old ones a single `function_call`.
"""

from __future__ import annotations

from typing import Any

from clicket.model.chat import ChatReply, Ended, Usage
from clicket.model.foreign import field
from clicket.models.asked import Prices, counted
from clicket.models.failing import Place, broken_off, no_answer
from clicket.models.pieces import Answer, Use

__all__ = ["ChatReader"]

_ENDED: dict[str, Ended] = {"length": "length", "content_filter": "refusal"}


class ChatReader:
    def __init__(self, answer: Answer, place: Place) -> None:
        self._answer = answer
        self._place = place
        self._open: dict[Any, Use] = {}
        self._reason: Any = None
        self._refused = False
        self._usage = Usage()

    def whole(self, answer: Any) -> None:
        choices = field(answer, "choices")
        message = field(choices[0], "message") if isinstance(choices, list) and choices else None
        if message is None:
            raise no_answer(self._place)
        self._take(message)
        self._reason = field(choices[0], "finish_reason") or "stop"
        self._count(answer)

    def feed(self, event: Any) -> None:
        self._count(event)
        choices = field(event, "choices")
        for choice in choices if isinstance(choices, list) else ():
            if (field(choice, "index") or 0) != 0:  # further answers, which nobody asked for
                continue
            # Some servers send the end as a whole message in place of a piece.
            self._take(field(choice, "delta") or field(choice, "message"))
            self._reason = field(choice, "finish_reason") or self._reason

    def reply(self, prices: Prices) -> ChatReply:
        if self._reason is None and not self._answer.full:
            raise broken_off(self._place)
        ended: Ended = "refusal" if self._refused else _ENDED.get(str(self._reason), "stop")
        return self._answer.reply(ended=ended, usage=prices.priced(self._usage))

    def _take(self, part: Any) -> None:
        """A message or a piece of one: they have the same fields."""
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
        asked = counted(field(used, "prompt_tokens"))
        cached = counted(field(field(used, "prompt_tokens_details"), "cached_tokens"))
        self._usage = Usage(
            input_tokens=asked,
            output_tokens=counted(field(used, "completion_tokens")),
            cached_tokens=min(cached, asked),
        )


def _is_another(use: Use, id: Any, name: Any, arguments: Any) -> bool:
    """Does this piece begin a further call under the number of one that is known?"""
    if isinstance(id, str) and id:
        return bool(use.id) and id != use.id
    if not isinstance(name, str) or not name or not arguments:
        return False
    return use.is_whole()


def _text(content: Any) -> str:
    """Some servers answer with parts, as OpenAI's other protocol does."""
    if isinstance(content, list):
        parts = [field(one, "text") for one in content]
        return "".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""
