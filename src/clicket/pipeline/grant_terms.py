"""Do the arguments of a call fit the terms of a grant? In doubt they do not, and a person is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from clicket.errors import UsageError
from clicket.pipeline.rules import with_defaults

__all__ = ["check_schema", "fit_schema"]

_PATTERN_SIZE = 1024 * 1024


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise `UsageError` if this is no JSON Schema that a grant can have."""
    try:
        _compiled(msgspec.json.encode(schema))
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = str(getattr(error, "message", None) or error).splitlines()[0]
        raise UsageError(f"grant: the schema of the arguments cannot be used: {reason}") from None


def fit_schema(schema: Mapping[str, Any] | None, arguments: dict[str, Any], input_schema: Mapping[str, Any]) -> bool:
    """Do the arguments, as the tool gets them, fit the schema of a grant? `input_schema`: the tool's, which has the defaults."""
    if schema is None:
        return True
    whole = with_defaults(arguments, input_schema)
    if whole is None:
        return False
    try:
        return _compiled(msgspec.json.encode(schema))(whole)
    except Exception:  # another version stored it, or it cannot be evaluated
        return False


@lru_cache(maxsize=256)
def _compiled(schema: bytes) -> Callable[[Any], bool]:
    """References to other documents are never fetched. Patterns take linear time."""
    options = jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE)
    loaded = msgspec.json.decode(schema)
    return jsonschema_rs.Draft202012Validator(loaded, retriever=_refuse_remote, pattern_options=options).is_valid


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and remote references are never fetched")
