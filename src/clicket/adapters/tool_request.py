"""One tool call as a model wrote it, and what makes it this one: the same response gives the same ids, in any process."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec

from clicket.model.ids import provider_prefix
from clicket.tools.model_arguments import tidy
from clicket.vault import holds_secret

__all__ = ["Asked", "call_id", "local_key"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`refusal`: why it must not run, e.g. because its text was cut. `extra`: what its result has to repeat."""

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


def local_key(asked: Asked, position: int) -> str:
    """What makes a call this one among those of its response: its id, tool and arguments; without an id, its place."""
    mark = asked.id or f"#{position}"
    return json.dumps([mark, asked.kind, asked.name, _canonical(asked.arguments)])


def call_id(thread: str, turn: str, key: str, provider: str = "") -> str:
    """The same response gives the same ids, in any process: to run it again finds its calls instead of repeating them.

    The arguments are part of it, because providers use ids again: another turn's `call_0` with other arguments is another
    call, and no conflict. It begins with the provider's id, so that the call is found by it.
    """
    prefix = "" if holds_secret(provider) else provider_prefix(provider)
    return f"{prefix}turn-{sha256(json.dumps([thread, turn, key]).encode()).hexdigest()[:40]}"
