"""A conversation as any vendor takes it: every tool call has its result right after it, under names and ids that fit the wire.

Who asks keeps the conversation whole; what is not whole is mended here, because one odd message would block a thread for good.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from clicket.errors import InvalidInput
from clicket.model.arguments import parse_arguments
from clicket.model.chat import ChatMessage, ChatRequest, ToolUse
from clicket.model.codec import has_surrogate
from clicket.model.foreign import clean
from clicket.model.names import wire_names
from clicket.tools.model_arguments import tidy

__all__ = ["Names", "Turn", "as_object", "as_object_text", "turns", "uses_tools"]

_MAX_SHOWN = 2_000
_MAX_ARGUMENTS = 2 * 1024 * 1024
_NO_RESULT = "There is no result of this call."


class Names:
    """The wire's name of each tool of one request, those of earlier calls too, and the way back."""

    def __init__(self, request: ChatRequest) -> None:
        past = {use.name for message in request.messages for use in message.uses}
        self._wire = _wires(frozenset(past.union(offer.name for offer in request.tools)))
        self._own = {self._wire[offer.name]: offer.name for offer in request.tools}
        self.past = sorted(past)

    def wire(self, name: str) -> str:
        return self._wire[name]

    def own(self, wire: str) -> str:
        """A name that was not offered stays what it is, for who runs the calls to refuse."""
        return self._own.get(wire, wire)

    def free(self, name: str) -> str:
        """A name like this one that no tool has."""
        while name in self._wire.values():
            name += "_"
        return name


@lru_cache(maxsize=64)
def _wires(names: frozenset[str]) -> dict[str, str]:
    return wire_names(names)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What the assistant said, and what each of its calls came to, in the order of the calls, which have `ids`."""

    message: ChatMessage
    ids: tuple[str, ...] = ()
    results: tuple[ChatMessage, ...] = ()


def uses_tools(request: ChatRequest) -> bool:
    return bool(request.tools) or any(one.uses or one.role == "tool" for one in request.messages)


def turns(messages: Sequence[ChatMessage], fits: re.Pattern[str]) -> list[ChatMessage | Turn]:
    """The messages of people as they are, the assistant's with their results; empty ones of the assistant are left out."""
    made: list[ChatMessage | Turn] = []
    taken: set[str] = set()
    at = 0
    messages = [_sendable(message) for message in messages]
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.role == "tool":
            made += _strays([message])
        elif message.role != "assistant":
            made.append(message)
        else:
            until = at
            while until < len(messages) and messages[until].role == "tool":
                until += 1
            results, strays = _paired(message.uses, messages[at:until])
            if message.uses or message.content.strip():
                ids = tuple(_id(use.id, taken, fits) for use in message.uses)
                made.append(Turn(message=message, ids=ids, results=results))
            made += _strays(strays)
            at = until
    return made


def _sendable(message: ChatMessage) -> ChatMessage:
    if not has_surrogate(message.content):
        return message
    return msgspec.structs.replace(message, content=clean(message.content))


def _paired(uses: Sequence[ToolUse], given: Sequence[ChatMessage]) -> tuple[tuple[ChatMessage, ...], list[ChatMessage]]:
    """The result of each call, and what is left; an id that two calls have is answered in their order."""
    waiting: dict[str, deque[ChatMessage]] = {}
    for one in given:
        waiting.setdefault(one.use_id, deque()).append(one)
    results = tuple(
        waiting[use.id].popleft()
        if waiting.get(use.id)
        else ChatMessage(role="tool", use_id=use.id, content=_NO_RESULT, failed=True)
        for use in uses
    )
    return results, [one for rest in waiting.values() for one in rest]


def _strays(results: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Results of calls that are not there are told as news."""
    return [ChatMessage(role="user", content=f"A tool answered: {one.content}") for one in results]


def _id(id: str, taken: set[str], fits: re.Pattern[str]) -> str:
    """The same conversation gives the same ids, so that what a vendor has read before it need not read again."""
    made, again = id, 0
    while made in taken or not fits.fullmatch(made):
        made = "call_" + sha256(f"{id}\n{again}".encode("utf-8", "backslashreplace")).hexdigest()[:24]
        again += 1
    taken.add(made)
    return made


def as_object(use: ToolUse) -> dict[str, Any]:
    """The arguments as the object that they say; else an object that says what was written instead."""
    value = tidy(use.arguments, None)
    if isinstance(value, Mapping):
        try:
            return parse_arguments(dict(value), max_size=_MAX_ARGUMENTS)
        except InvalidInput:
            pass
    return {"invalid_arguments": clean(use.arguments, _MAX_SHOWN)}


def as_object_text(use: ToolUse) -> str:
    """The arguments as they were written, when servers that parse them find an object there."""
    value = as_object(use)
    text = use.arguments
    try:
        return text if text.strip() and json.loads(text) == value else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
