"""A call as the body of a request."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from clicket.errors import InvalidInput
from clicket.model import ToolCall
from clicket.model.arguments import parse_arguments
from clicket.model.call import seconds_of

__all__ = ["MAX_ARGUMENTS", "body_of", "written_arguments"]

MAX_ARGUMENTS = 64 * 1024 * 1024
"""Bytes. The server enforces its own limit, which is usually lower."""
_SHOWN = 200


def body_of(request: ToolCall, wait: float | None) -> bytes:
    arguments = msgspec.Raw(b"null" if request.arguments is None else written_arguments(request.arguments)[0])
    fields: dict[str, Any] = {"tool": request.tool, "arguments": arguments, "thread": request.thread, "id": request.id}
    for name in ("timeout", "deadline", "request_id", "metadata"):
        value = getattr(request, name)
        if value is not None:
            fields[name] = value
    if request.not_before is not None:
        fields["not_before"] = seconds_of(request.not_before)
    if request.priority:
        fields["priority"] = request.priority
    if wait is not None:
        fields["wait"] = wait
    return msgspec.json.encode(fields)


def written_arguments(given: Any) -> tuple[bytes, InvalidInput | None]:
    """Arguments as JSON, and the error if they have no JSON form: then their text is sent, which the server refuses and records.

    Text and bytes are sent unchanged, so that the server checks them (duplicate keys too). They must be exactly one JSON value:
    anything after it would become a field of the request.
    """
    try:
        if not isinstance(given, str | bytes):
            return msgspec.json.encode(parse_arguments(given, max_size=MAX_ARGUMENTS)), None
        written = _bytes(given).strip() or b"{}"
        try:
            msgspec.json.decode(written)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            parse_arguments(given, max_size=MAX_ARGUMENTS)
    except InvalidInput as wrong:
        return msgspec.json.encode(json.dumps(repr(given)[:_SHOWN])), wrong
    return written, None


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
