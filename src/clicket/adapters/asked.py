"""One tool call as a model wrote it, and what is made of its arguments: nothing is guessed that could mean two things.

No arguments, an empty text and null are the same: none. Arguments that were encoded twice are decoded once. A null for a
field that may be left out and may not be null is left out, as strict modes write it so. All else is the runtime's to judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clicket.adapters.schema import allows_null

__all__ = ["Asked", "call_id", "clean", "field", "local_key", "tidy"]

_MAX_NAME = 512


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`refusal`: why it must not run, e.g. because its text was cut. `extra`: what its result has to repeat."""

    id: str
    name: str
    arguments: Any
    kind: str = ""
    refusal: str = ""
    extra: dict[str, Any] = {}


def field(thing: Any, name: str, default: Any = None) -> Any:
    """A field of an SDK's object or of a dictionary in its shape."""
    if isinstance(thing, Mapping):
        return thing.get(name, default)
    return getattr(thing, name, default)


def clean(text: Any, limit: int | None = None) -> str:
    """Text that can be sent and stored: what is no character is written out."""
    whole = text if isinstance(text, str) else "" if text is None else str(text)
    return whole.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")[:limit]


class _TwiceGiven(ValueError):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceGiven
    return made


def _parse(text: Any) -> Any:
    """The value of a JSON text, or the text itself when it is none, or one that the runtime should see as it is."""
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, TypeError, RecursionError):
        return text


def tidy(given: Any, schema: Mapping[str, Any] | None) -> Any:
    """The arguments to call the tool with: a mapping, or what is none, for the runtime to judge.

    A text that says an object becomes it, so that a streamed call and the same one in the whole message are equal.
    """
    if given is None or (isinstance(given, str | bytes) and given.strip() in ("", "null", b"", b"null")):
        return {}
    value = _parse(given) if isinstance(given, str | bytes) else given
    if isinstance(value, str) and value != given and isinstance(inner := _parse(value), Mapping):
        value = inner
    if schema is not None and isinstance(value, Mapping) and None in value.values():
        fields, required = schema.get("properties", {}), schema.get("required", ())
        left_out = {
            name
            for name, item in value.items()
            if item is None and name in fields and name not in required and not allows_null(fields[name], schema)
        }
        if left_out:
            return {name: item for name, item in value.items() if name not in left_out}
    return value if isinstance(value, Mapping) else given


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


def call_id(thread: str, turn: str, key: str) -> str:
    """The same response gives the same ids, in any process: to run it again finds its calls instead of repeating them.

    The arguments are part of it, because providers use ids again: another turn's `call_0` with other arguments is another
    call, and no conflict.
    """
    return "turn-" + sha256(json.dumps([thread, turn, key]).encode()).hexdigest()[:40]
