"""One tool call as a model wrote it, and its id: the same response gives the same ids in every process."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec

from clicket.model.ids import provider_prefix
from clicket.safety.vault import holds_secret
from clicket.tools.model_arguments import tidy

__all__ = ["INCOMPLETE", "ToolRequest", "call_id", "local_key", "response_id_of"]

INCOMPLETE = "invalid_input: the stream ended before this call was complete, so it was not run. Make the call again."


_UNIQUE = 16
"""Characters of an id that is random."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`refusal`: why it must not run, e.g. because it is incomplete. `extra`: fields that its result must repeat."""

    id: str
    name: str
    arguments: Any
    kind: str = ""
    refusal: str = ""
    extra: dict[str, Any] = {}


def _canonical(given: Any) -> str:
    value = tidy(given, None)
    if isinstance(value, str | bytes):
        return repr(value)
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (ValueError, TypeError, RecursionError):
        return repr(type(value))


def local_key(request: ToolRequest, position: int) -> str:
    """Identifies a call in its response: by its id (or else its position), tool and arguments."""
    mark = request.id or f"#{position}"
    return json.dumps([mark, request.kind, request.name, _canonical(request.arguments)])


def response_id_of(request: ToolRequest) -> str | None:
    """For frameworks that do not tell which response a call belongs to: its own id, if that is a vendor's and not a counter that a later
    response may use again."""
    return request.id if len(request.id) >= _UNIQUE else None


def call_id(thread: str, response_id: str, key: str, provider: str = "") -> str:
    """The id of a call. It is the same when the response is run again, so that the runtime returns the result it has.

    `key` holds the arguments, because providers reuse ids: `call_0` with other arguments is another call. The id begins with
    the provider's, so that the call can be found by it.
    """
    prefix = "" if holds_secret(provider) else provider_prefix(provider)
    return f"{prefix}response-{sha256(json.dumps([thread, response_id, key]).encode()).hexdigest()[:40]}"
