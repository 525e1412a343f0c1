"""Arguments as a model wrote them, normalised. Nothing ambiguous is guessed.

Missing arguments, an empty text and null all mean no arguments. Arguments that were encoded twice are decoded once. A null for a
field that is optional and may not be null is removed, because strict modes write it so. The runtime checks everything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clicket.tools.provider_schema import allows_null

__all__ = ["tidy"]


class _TwiceGiven(ValueError):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceGiven
    return made


def _parse(text: Any) -> Any:
    """The value of a JSON text. A text that is not JSON, or has a key twice, is returned as it is, for the runtime to refuse."""
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, TypeError, RecursionError):
        return text


def tidy(given: Any, schema: Mapping[str, Any] | None) -> Any:
    """The arguments to call the tool with. What cannot be made a mapping is returned as it is, for the runtime to refuse.

    A JSON text of an object becomes that object, so that a streamed call equals the same call in the whole message.
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
