"""The compiled check of a tool's output schema."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from clicket.errors import UsageError
from clicket.tools.check import Check, compile_schema
from clicket.tools.protocol import Tool

__all__ = ["output_check"]


def output_check(tool: Tool) -> Check | None:
    """The compiled check of the output schema, if the tool has one."""
    schema = tool.output_schema
    return None if schema is None else _compiled(msgspec.json.encode(dict(schema)), tool.name)


@lru_cache(maxsize=1_024)
def _compiled(schema: bytes, name: str) -> Check | None:
    loaded = msgspec.json.decode(schema)
    # Outputs may have more fields than the schema; only arguments may not.
    loaded.setdefault("additionalProperties", True)
    try:
        return compile_schema(loaded, f"the output of tool {name!r}")
    except UsageError:
        return None
