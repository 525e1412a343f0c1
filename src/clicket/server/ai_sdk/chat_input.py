"""What `useChat` sends, checked. Only the last message is read: the thread has those before it. Fields that are not known are ignored, as
the protocol asks."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from clicket.errors import InvalidInput, UsageError
from clicket.model.files import File
from clicket.server.schemas import Name

__all__ = ["ApprovalAnswer", "ChatInput", "approvals", "new_message"]

_WHOLE = "(body)"


class UiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the AI SDK has it."""

    id: Annotated[str, Meta(max_length=2_000)]
    role: Literal["user", "assistant", "system"]
    parts: list[dict[str, Any]]


class ChatInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request of `useChat`. `id`: the thread. The last of `messages`, if a user wrote it, begins a turn, once for its id; if it is the
    agent's, its answers to requests for approval are decisions, and the turn's stream goes on."""

    id: Name
    messages: Annotated[list[UiMessage], Meta(min_length=1)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer. `id`: of the question; `tool_call`: the tool call whose question it is."""

    id: str
    tool_call: str
    approved: bool
    reason: str = ""


def new_message(given: ChatInput) -> tuple[str, list[str | File]] | None:
    """Id, texts and files of the message that begins a turn; None: the last message is not a user's."""
    last = given.messages[-1]
    if last.role != "user":
        return None
    path = f"/messages/{len(given.messages) - 1}"
    if not last.id or "\x00" in last.id or len(last.id) > 512:
        raise _wrong(f"{path}/id", "must have 1 to 512 characters: a message begins one turn for its id")
    parts = [
        part
        for place, each in enumerate(last.parts)
        for part in ([_part(each, f"{path}/parts/{place}")] if each.get("type") in ("text", "file") else ())
    ]
    if not any(isinstance(part, File) or part.strip() for part in parts):
        raise _wrong(f"{path}/parts", "has no text and no file")
    return last.id, parts


def _part(part: dict[str, Any], path: str) -> str | File:
    if part["type"] == "text":
        text = part.get("text")
        if not isinstance(text, str):
            raise _wrong(f"{path}/text", "must be a text")
        return text
    url, media_type, name = part.get("url"), part.get("mediaType"), part.get("filename")
    if not isinstance(url, str) or not url.startswith("data:"):
        raise _wrong(f"{path}/url", "this server fetches no files. Send a data: URL")
    head, _, data = url.removeprefix("data:").partition(",")
    try:
        body = b64decode(data, validate=True) if head.endswith(";base64") else unquote_to_bytes(data)
    except ValueError:
        raise _wrong(f"{path}/url", "is not base64") from None
    try:
        return File(
            body,
            media_type if isinstance(media_type, str) else head.partition(";")[0] or None,
            name=name if isinstance(name, str) else None,
        )
    except UsageError as error:
        raise _wrong(path, error.message) from None


def approvals(given: ChatInput) -> list[ApprovalAnswer]:
    """The answers in the last message that the stream has not shown as decided."""
    found: list[ApprovalAnswer] = []
    for place, part in enumerate(given.messages[-1].parts):
        if part.get("state") != "approval-responded":
            continue
        asked = part.get("approval")
        try:
            found.append(msgspec.convert({**asked, "tool_call": part["toolCallId"]}, ApprovalAnswer))  # type: ignore[dict-item]
        except (TypeError, KeyError, msgspec.ValidationError):
            path = f"/messages/{len(given.messages) - 1}/parts/{place}/approval"
            raise _wrong(path, 'must be {"id": "…", "approved": true or false, "reason"?: "…"}') from None
    return found


def _wrong(path: str, message: str) -> InvalidInput:
    return InvalidInput([{"path": path, "message": message}], whole=_WHOLE)
