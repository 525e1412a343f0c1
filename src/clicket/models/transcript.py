"""A conversation that every vendor accepts: each tool call is followed by its result, and names and ids fit the vendor's rules.

Callers send complete conversations. Gaps are repaired here all the same, because one invalid message would block a thread for good.
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

__all__ = ["AssistantStep", "Names", "as_object", "as_object_text", "in_steps", "uses_tools"]

_MAX_SHOWN = 2_000
_MAX_ARGUMENTS = 2 * 1024 * 1024
_NO_RESULT = "There is no result of this call."


class Names:
    """Maps the tools of one request, and of earlier calls, to names that vendors accept, and back."""

    def __init__(self, request: ChatRequest) -> None:
        past = {use.name for message in request.messages for use in message.uses}
        self._wire = _wires(frozenset(past.union(offer.name for offer in request.tools)))
        self._own = {self._wire[offer.name]: offer.name for offer in request.tools}
        self.offered = frozenset(self._own.values())
        self.past = sorted(past)

    def wire(self, name: str) -> str:
        return self._wire[name]

    def own(self, wire: str) -> str:
        """The tool's own name. A name that was not offered is returned unchanged; the runtime refuses the call."""
        return self._own.get(wire, wire)

    def free(self, name: str) -> str:
        """`name`, or a variant that no tool has."""
        while name in self._wire.values():
            name += "_"
        return name


@lru_cache(maxsize=64)
def _wires(names: frozenset[str]) -> dict[str, str]:
    return wire_names(names)


class AssistantStep(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the assistant with the results of its tool calls. `ids` and `results` are in the order of the calls."""

    message: ChatMessage
    ids: tuple[str, ...] = ()
    results: tuple[ChatMessage, ...] = ()


def uses_tools(request: ChatRequest) -> bool:
    return bool(request.tools) or any(one.uses or one.role == "tool" for one in request.messages)


def in_steps(messages: Sequence[ChatMessage], fits: re.Pattern[str]) -> list[ChatMessage | AssistantStep]:
    """Messages of users unchanged, those of the assistant with their results; empty ones of the assistant are dropped.

    `fits`: the ids that the vendor accepts.
    """
    made: list[ChatMessage | AssistantStep] = []
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
                made.append(AssistantStep(message=message, ids=ids, results=results))
            made += _strays(strays)
            at = until
    return made


def _sendable(message: ChatMessage) -> ChatMessage:
    if not has_surrogate(message.content):
        return message
    return msgspec.structs.replace(message, content=clean(message.content))


def _paired(uses: Sequence[ToolUse], given: Sequence[ChatMessage]) -> tuple[tuple[ChatMessage, ...], list[ChatMessage]]:
    """The result of each call, and the results without a call. Two calls with one id get their results in order."""
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
    """Results without a call become messages of the user."""
    return [ChatMessage(role="user", content=f"A tool answered: {one.content}", files=one.files) for one in results]


def _id(id: str, taken: set[str], fits: re.Pattern[str]) -> str:
    """Deterministic: the same conversation gives the same ids, so that the vendor's prompt cache applies."""
    made = id
    again = 0
    while made in taken or not fits.fullmatch(made):
        made = "call_" + sha256(f"{id}\n{again}".encode("utf-8", "backslashreplace")).hexdigest()[:24]
        again += 1
    taken.add(made)
    return made


def as_object(use: ToolUse) -> dict[str, Any]:
    """The parsed arguments; if they are not an object, an object that quotes them."""
    value = tidy(use.arguments, None)
    if isinstance(value, Mapping):
        try:
            return parse_arguments(dict(value), max_size=_MAX_ARGUMENTS)
        except InvalidInput:
            pass
    return {"invalid_arguments": clean(use.arguments, _MAX_SHOWN)}


def as_object_text(use: ToolUse) -> str:
    """The arguments as text: as the model wrote them if they are a JSON object, else re-encoded."""
    value = as_object(use)
    text = use.arguments
    try:
        return text if text.strip() and json.loads(text) == value else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
