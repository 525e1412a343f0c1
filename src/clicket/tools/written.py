"""Arguments as a model wrote them, and what is made of them: nothing is guessed that could mean two things.

No arguments, an empty text and null are the same: none. Arguments that were encoded twice are decoded once. A null for a
field that may be left out and may not be null is left out, as strict modes write it so. All else is the runtime's to judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clicket.tools.offered import allows_null

__all__ = ["tidy"]


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
