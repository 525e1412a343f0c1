"""Do the arguments of a call fit the terms of a grant? In doubt they do not, and a person is asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from clicket.engine.stages.rules import with_defaults
from clicket.tools.check import CompiledSchema

__all__ = ["check_schema", "fit_schema"]

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1024 * 1024)
"""Patterns of a grant take linear time."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise `UsageError` if this is not a JSON Schema that a grant can have."""
    _compiled(msgspec.json.encode(schema))


def fit_schema(schema: Mapping[str, Any] | None, arguments: dict[str, Any], input_schema: Mapping[str, Any]) -> bool:
    """Do the arguments, as the tool gets them, fit the schema of a grant? `input_schema`: the tool's, which has the defaults."""
    if schema is None:
        return True
    whole = with_defaults(arguments, input_schema)
    if whole is None:
        return False
    try:
        return _compiled(msgspec.json.encode(schema)).fits(whole)
    except Exception:  # another version stored it, or it cannot be evaluated
        return False


@lru_cache(maxsize=256)
def _compiled(schema: bytes) -> CompiledSchema:
    return CompiledSchema(msgspec.json.decode(schema), "grant: the schema of the arguments", patterns=_PATTERNS)
