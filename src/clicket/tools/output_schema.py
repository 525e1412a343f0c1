"""The JSON Schema of a function's outputs, from its return type."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from functools import lru_cache
from typing import Any

import msgspec

from clicket.tools.value_type import rooted

__all__ = ["return_schema"]


@lru_cache(maxsize=4_096)
def return_schema(function: Any) -> dict[str, Any] | None:
    """The schema of a return type that names its fields; None for all others. The schema of a plain `dict` would say nothing."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return None
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    if not isinstance(hint, type):
        return None
    try:
        pydantic = sys.modules.get("pydantic")  # a hint cannot be its model if it was never imported
        if pydantic is not None and issubclass(hint, pydantic.BaseModel):
            return _object(pydantic.TypeAdapter(hint).json_schema(mode="serialization"))
        if issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint) or hasattr(hint, "__total__"):
            return _object(msgspec.json.schema(hint))
    except Exception:  # a type that cannot be described is not described
        return None
    return None


def _object(schema: dict[str, Any]) -> dict[str, Any] | None:
    schema = rooted(schema)
    return schema if schema.get("type") == "object" else None
