"""The files of a message, in the forms of the vendors. Each follows its line, which names it."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.model.chat import ChatMessage, ChatRequest
from clicket.model.files import FileRef, pieces
from clicket.model.foreign import clean
from clicket.models.error_translation import blames

__all__ = [
    "UNSEEN",
    "anthropic_blocks",
    "blames_files",
    "openai_parts",
    "response_parts",
    "shows_files",
    "without_files",
]

logger = logging.getLogger("clicket.models")
_WORDS = (
    "image", "vision", "multimodal", "multi-modal", "document", "pdf", "file", "media_type", "mime", "must be a string",
    "valid string", "expected a string", "content part",
)  # fmt: skip
"""A server that refuses a file uses one of these words in its error, in lower case."""
UNSEEN = "this model reads only text"
_REFUSED = "the model's server refused it"

Bytes = Mapping[str, bytes]
Block = dict[str, Any]


def shows_files(message: ChatMessage, files: Bytes) -> bool:
    return any(ref.artifact in files and ref.line in message.content for ref in message.files)


def blames_files(request: ChatRequest, error: Any) -> bool:
    """Was the request refused for one of its files? Then it is sent again without them: a thread must not be blocked for good."""
    if not request.files or not getattr(error, "body", None) or not blames(error, _WORDS):
        return False
    logger.warning(
        "a model's server refused the images or files of a request, which is sent without them. If its model cannot see, set "
        "sees_images = False on the model."
    )
    return True


def without_files(request: ChatRequest, why: str = _REFUSED) -> ChatRequest:
    """The request with lines of text in the place of files."""
    if not request.files:
        return request
    messages = [_unseen(message, request.files, why) for message in request.messages]
    return msgspec.structs.replace(request, messages=tuple(messages), files={})


def _unseen(message: ChatMessage, files: Bytes, why: str) -> ChatMessage:
    for ref in message.files:
        if ref.artifact in files:
            message = message.unseen(ref, why)
    return message


def anthropic_blocks(message: ChatMessage, files: Bytes) -> list[Block]:
    """Its text with image and document blocks at their places."""
    return [
        _anthropic(part, files[part.artifact]) if isinstance(part, FileRef) else {"type": "text", "text": part}
        for part in pieces(message.content, message.files, files)
    ]


def openai_parts(message: ChatMessage, files: Bytes) -> list[Block]:
    """Its text with the parts of chat completions at their places."""
    return [
        _openai(part, files[part.artifact]) if isinstance(part, FileRef) else {"type": "text", "text": part}
        for part in pieces(message.content, message.files, files)
    ]


def response_parts(message: ChatMessage, files: Bytes) -> list[Block]:
    """Its text with the parts of the Responses API at their places; of a message, or of a result."""
    return [
        _response(part, files[part.artifact]) if isinstance(part, FileRef) else {"type": "input_text", "text": part}
        for part in pieces(message.content, message.files, files)
    ]


def _response(ref: FileRef, data: bytes) -> Block:
    if ref.is_text:
        return {"type": "input_text", "text": _text(data)}
    url = _data_url(ref, data)
    if ref.is_image:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": ref.file_name, "file_data": url}


def _data_url(ref: FileRef, data: bytes) -> str:
    return f"data:{ref.media_type};base64,{b64encode(data).decode()}"


def _anthropic(ref: FileRef, data: bytes) -> Block:
    if ref.is_image:
        return {"type": "image", "source": _base64(ref, data)}
    title = {"title": ref.name} if ref.name else {}
    if ref.is_text:
        return {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": _text(data)},
            **title,
        }
    return {"type": "document", "source": _base64(ref, data), **title}


def _base64(ref: FileRef, data: bytes) -> Block:
    return {"type": "base64", "media_type": ref.media_type, "data": b64encode(data).decode()}


def _openai(ref: FileRef, data: bytes) -> Block:
    if ref.is_text:
        return {"type": "text", "text": _text(data)}
    url = _data_url(ref, data)
    if ref.is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": ref.file_name, "file_data": url}}


def _text(data: bytes) -> str:
    return clean(data.decode("utf-8", "replace")).strip() or "(empty)"
