"""A client's message: text for the agent, or answers to the questions that its task waits for."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clicket.errors import UsageError
from clicket.model.files import File
from clicket.server.a2a.rpc import A2AError

__all__ = ["Answer", "ClientMessage", "Configuration", "SendMessage", "answers_in", "parts_of"]

Id = Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\\x00]*$")]
Name = Annotated[str, Meta(max_length=600, pattern="^[^\\x00]*$")]
_WORDS = {"approve": True, "approved": True, "yes": True, "deny": False, "denied": False, "no": False}
_ANSWER = frozenset({"callId", "hash", "approved", "arguments", "response", "reason"})
_TEXT_TYPES = ("text/", "application/json")


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    text: str | None = None
    data: Any = msgspec.UNSET
    raw: str | None = None
    url: str | None = None
    media_type: str = ""
    filename: str = ""


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message_id: Id
    role: Literal["ROLE_USER"]
    parts: Annotated[list[Part], Meta(min_length=1, max_length=1_000)]
    context_id: Name = ""
    task_id: Name = ""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    accepted_output_modes: list[str] = []
    history_length: Annotated[int, Meta(ge=0)] | None = None
    return_immediately: bool = False
    task_push_notification_config: Any = None


class SendMessage(msgspec.Struct, frozen=True, kw_only=True):
    message: ClientMessage
    configuration: Configuration = Configuration()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to a call that waits for approval. `hash`: of the question that the person saw; empty: it is the answer to
    every question that the client was told of last. `call`: the call's id, or empty."""

    approved: bool
    hash: str = ""
    call: str = ""
    arguments: dict[str, Any] | None = None
    response: Any = msgspec.UNSET
    reason: str = ""


def parts_of(message: ClientMessage) -> list[str | File]:
    """The texts and files for the agent."""
    parts: list[str | File] = []
    for part in message.parts:
        if part.url is not None:
            text = "this server fetches no files: send a part with the bytes (raw), in base64."
            raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", text)
        if part.raw is not None:
            parts.append(_file(part, part.raw))
            continue
        if part.media_type and not part.media_type.startswith(_TEXT_TYPES):
            raise A2AError(
                "CONTENT_TYPE_NOT_SUPPORTED", f"a text cannot be {part.media_type[:100]}: send its bytes (raw)."
            )
        if part.text is not None:
            parts.append(part.text)
        elif part.data is not msgspec.UNSET:
            parts.append(msgspec.json.encode(part.data).decode())
    if not any(isinstance(part, File) or part.strip() for part in parts):
        raise A2AError("INVALID_PARAMS", "the message has no text.")
    return parts


def _file(part: Part, raw: str) -> File:
    try:
        return File(b64decode(raw, validate=True), part.media_type or None, name=part.filename or None)
    except ValueError:
        raise A2AError("INVALID_PARAMS", "raw is not base64.") from None
    except UsageError as error:
        raise A2AError("INVALID_PARAMS", error.message) from None


def answers_in(message: ClientMessage) -> list[Answer]:
    """The answers in a message to a task that waits: data parts, or one word for all questions."""
    answers = [_answer(part.data) for part in message.parts if part.data is not msgspec.UNSET]
    if answers:
        return answers
    word = " ".join(part.text or "" for part in message.parts).strip().lower().rstrip(".!")
    if word in _WORDS:
        return [Answer(approved=_WORDS[word])]
    raise A2AError(
        "INVALID_PARAMS",
        'the task waits for a decision: answer with a data part {"approved": true or false, "hash": that of the question, "callId"?, '
        '"arguments"?, "response"?, "reason"?}, or with the text "approve" or "deny".',
    )


def _answer(data: Any) -> Answer:
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("approved"), bool)
        or set(data) - _ANSWER
        or not data.get("hash")
    ):
        raise A2AError(
            "INVALID_PARAMS",
            'an answer is an object with "approved" (true or false) and "hash" (of the question, as the task shows it), and "callId", '
            '"arguments", "response" or "reason".',
        )
    call = data.get("callId", "")
    arguments = data.get("arguments")
    texts = (data["hash"], data.get("reason", ""))
    if not all(isinstance(text, str) for text in (call, *texts)) or not isinstance(arguments, dict | None):
        raise A2AError("INVALID_PARAMS", "callId, hash and reason are texts, and arguments an object.")
    return Answer(
        approved=data["approved"],
        hash=texts[0],
        call=call,
        arguments=arguments,
        reason=texts[1],
        response=data.get("response", msgspec.UNSET),
    )
