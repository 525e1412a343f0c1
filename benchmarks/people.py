"""The schema and the arguments of the schema question: five fields, like those that models fill in."""

from __future__ import annotations

from typing import Any

__all__ = ["GOOD", "SCHEMA", "WRONG"]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 100},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "unit": {"enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
            "required": ["lat", "lon"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {
    "name": "Ada",
    "age": 36,
    "unit": "c",
    "tags": ["a", "b"],
    "place": {"lat": 51.5, "lon": -0.1},
}
WRONG: dict[str, Any] = {**GOOD, "age": -1, "unit": "k", "more": 1}
