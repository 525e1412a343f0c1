"""The messages of a thread. The law: every tool call of an assistant's message is answered once, right after it, before anything
else is said. What breaks it is mended here, so that the next request is always valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from clicket.model.chat import ChatMessage, ChatReply, ToolUse
from clicket.model.codec import clean, decode, encode

__all__ = ["MAX_USES", "paired", "said", "storable", "unanswered"]

MAX_USES = 128
"""Tool calls of one answer; what a model asks for beyond that is not taken up."""
_MAX_TEXT = 1024 * 1024
_MAX_ARGUMENTS = 256 * 1024
_MAX_ID = 200
_CUT = "\n[cut: the answer was longer]"
INTERRUPTED = "cancelled: the turn ended before this call had a result. Its tool may or may not have run."


def said(reply: ChatReply, mark: str, taken: AbstractSet[str] = frozenset(), *, keep: bool = True) -> ChatMessage:
    """A model's answer as a message: text that can be stored, and tool calls whose ids nobody has, nor has had.

    `mark` makes ids of those that have none, or one of another call: it is of this step alone, and the same after a
    crash. Without `keep` all are made so: lines of thought that run side by side must not meet in one.
    """
    text, thought = storable(reply.text), storable(reply.thought)
    uses: list[ToolUse] = []
    seen: set[str] = set()
    for number, use in enumerate(_uses(reply.uses)[:MAX_USES], start=1):
        id = clean(use.id)[:_MAX_ID] if isinstance(use.id, str) else ""
        if not keep or not id or id in seen or id in taken or "\x00" in id:
            id = f"{mark.replace('.', '-')}_{number}"  # vendors take letters, digits, '_' and '-'
            while id in seen or id in taken:  # a model that has read our ids may write one of them
                id += "_"
        seen.add(id)
        uses.append(ToolUse(id=id, name=_name(use.name), arguments=_arguments(use.arguments)))
    return ChatMessage(role="assistant", content=text, uses=tuple(uses), thought=thought, vendor=_vendor(reply.vendor))


def _uses(given: Iterable[ToolUse] | None) -> list[ToolUse]:
    return [use for use in given or () if isinstance(use, ToolUse)]


def _vendor(vendor: object) -> Mapping[str, Any] | None:
    """Kept if it can be: what only its vendor reads is worth no turn."""
    if not vendor:
        return None
    try:
        plain = msgspec.to_builtins(vendor, str_keys=True)
        kept = decode(encode(plain))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return kept if type(kept) is dict else None


def storable(text: object) -> str:
    """Text as every store takes it: whole characters, no NUL, and not without end."""
    whole = text if type(text) is str else "" if text is None else str(text)
    if not whole.isascii():
        whole = clean(whole)
    if "\x00" in whole:
        whole = whole.replace("\x00", "\\x00")
    return whole if len(whole) <= _MAX_TEXT else whole[:_MAX_TEXT] + _CUT


def _name(name: object) -> str:
    return storable(name)[:512]


def _arguments(arguments: object) -> str:
    text = "" if arguments is None else arguments if type(arguments) is str else clean(arguments)
    if not text.isascii():
        text = clean(text)
    if len(text) > _MAX_ARGUMENTS:
        # Kept as something that no tool takes: a call with half of its arguments must not run.
        return msgspec.json.encode(f"[refused: arguments of {len(text):,} characters]").decode()
    return text


def unanswered(messages: Sequence[ChatMessage]) -> list[ToolUse]:
    """The tool calls at the end of a transcript that have no answer yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool":
            answered.add(message.use_id)
        else:
            return [use for use in message.uses if use.id not in answered]
    return []


def paired(messages: Iterable[ChatMessage], text: str = INTERRUPTED) -> list[ChatMessage]:
    """The same transcript with the law kept: missing answers are made up from `text`, stray and second ones left out."""
    whole: list[ChatMessage] = []
    open_: dict[str, ToolUse] = {}
    answers: dict[str, ChatMessage] = {}

    def close() -> None:
        made_up = (ChatMessage(role="tool", content=text, use_id=id, failed=True) for id in open_)
        whole.extend(answers.get(answer.use_id, answer) for answer in made_up)
        open_.clear()
        answers.clear()

    for message in messages:
        if message.role == "tool":
            if message.use_id in open_ and message.use_id not in answers:
                answers[message.use_id] = message
            continue
        close()
        whole.append(message)
        open_.update((use.id, use) for use in message.uses)
    close()
    return whole
