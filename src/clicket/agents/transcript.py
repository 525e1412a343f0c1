"""The messages of a thread. The law: each tool call of an assistant message has exactly one result, right after that message. What
breaks it is repaired here, so that the next request is always valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from clicket.model.chat import ChatMessage, ChatReply, ToolUse
from clicket.model.codec import clean, decode, encode

__all__ = ["INTERRUPTED", "MAX_USES", "assistant_message", "paired", "storable"]

MAX_USES = 128
"""Tool calls of one reply; the rest is dropped."""
_MAX_TEXT = 1024 * 1024
_MAX_ARGUMENTS = 256 * 1024
_MAX_ID = 200
_MAX_NAME = 512
_CUT = "\n[cut: the answer was longer]"
INTERRUPTED = "cancelled: the turn ended before this call had a result. Its tool may or may not have run."


def assistant_message(
    reply: ChatReply, mark: str, step: int, taken: AbstractSet[str] = frozenset(), keep: bool = True
) -> ChatMessage:
    """A model's reply as a message that can be stored; the ids of its tool calls are unique in the thread.

    `mark` and `step` identify the step, also after a crash. A call without an id, or with one in `taken`, gets an id made from them. With
    `keep=False` all calls do, so that concurrent branches cannot collide.
    """
    text, thought = reply.text and storable(reply.text), reply.thought and storable(reply.thought)
    uses: list[ToolUse] = []
    seen: set[str] = set()
    for use in reply.uses or ():
        number = len(uses) + 1
        if not isinstance(use, ToolUse):
            continue
        if number > MAX_USES:
            break
        is_plain = _is_plain(use)
        id = use.id if is_plain else clean(use.id)[:_MAX_ID] if isinstance(use.id, str) else ""
        if not keep or not id or id in seen or id in taken or "\x00" in id:
            is_plain = False
            id = f"{mark.replace('.', '-')}-{step}_{number}"  # vendors take letters, digits, '_' and '-'
            while id in seen or id in taken:  # a model may have copied one of our ids
                id += "_"
        seen.add(id)
        uses.append(use if is_plain else ToolUse(id=id, name=_name(use.name), arguments=_arguments(use.arguments)))
    vendor = _vendor(reply.vendor) if reply.vendor else None
    return ChatMessage(role="assistant", content=text or "", uses=tuple(uses), thought=thought or "", vendor=vendor)


def _is_plain(use: ToolUse) -> bool:
    """Is it surely stored as it is?"""
    id, name, arguments = use.id, use.name, use.arguments
    return (
        type(use) is ToolUse
        and type(id) is type(name) is type(arguments) is str
        and id.isascii()
        and name.isascii()
        and arguments.isascii()
        and len(id) <= _MAX_ID
        and len(name) <= _MAX_NAME
        and len(arguments) <= _MAX_ARGUMENTS
        and "\x00" not in name
    )


def _vendor(vendor: object) -> Mapping[str, Any] | None:
    """The vendor's data as plain JSON; None if it cannot be encoded, because the turn can continue without it."""
    if not vendor:
        return None
    try:
        plain = msgspec.to_builtins(vendor, str_keys=True)
        kept = decode(encode(plain))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return kept if type(kept) is dict else None


def storable(text: object) -> str:
    """Text that every store accepts: valid Unicode, no NUL, bounded length."""
    whole = text if type(text) is str else "" if text is None else str(text)
    if not whole.isascii():
        whole = clean(whole)
    if "\x00" in whole:
        whole = whole.replace("\x00", "\\x00")
    return whole if len(whole) <= _MAX_TEXT else whole[:_MAX_TEXT] + _CUT


def _name(name: object) -> str:
    return storable(name)[:_MAX_NAME]


def _arguments(arguments: object) -> str:
    text = "" if arguments is None else arguments if type(arguments) is str else clean(arguments)
    if not text.isascii():
        text = clean(text)
    if len(text) > _MAX_ARGUMENTS:
        # Replaced by a text that no tool accepts: a call with half of its arguments must not run.
        return msgspec.json.encode(f"[refused: arguments of {len(text):,} characters]").decode()
    return text


def paired(messages: Iterable[ChatMessage], text: str = INTERRUPTED) -> list[ChatMessage]:
    """The transcript with the law restored: missing results get `text`, stray and duplicate ones are dropped."""
    whole: list[ChatMessage] = []
    open_: dict[str, ToolUse] = {}
    answers: dict[str, ChatMessage] = {}

    def close() -> None:
        for id in open_:
            answer = answers.get(id)
            whole.append(ChatMessage(role="tool", content=text, use_id=id, failed=True) if answer is None else answer)
        open_.clear()
        answers.clear()

    for message in messages:
        if message.role == "tool":
            if message.use_id in open_ and message.use_id not in answers:
                answers[message.use_id] = message
            continue
        if open_:
            close()
        whole.append(message)
        for use in message.uses:
            open_[use.id] = use
    close()
    return whole
