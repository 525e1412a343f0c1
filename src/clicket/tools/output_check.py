"""The compiled check of a tool's output schema."""

from __future__ import annotations

import logging
from functools import lru_cache

import msgspec

from clicket.errors import UsageError
from clicket.tools.check import Check, CompiledSchema
from clicket.tools.protocol import Tool

__all__ = ["output_check"]

logger = logging.getLogger("clicket.tools")


def output_check(tool: Tool) -> Check | None:
    """The compiled check of the output schema, if the tool has one that can be used. The log says which cannot."""
    schema = tool.output_schema
    return None if schema is None else _compiled(msgspec.json.encode(dict(schema)), tool.name)


@lru_cache(maxsize=1_024)
def _compiled(schema: bytes, name: str) -> Check | None:
    try:
        # As it is: outputs may have more fields than the schema, only arguments may not.
        return CompiledSchema(msgspec.json.decode(schema), f"tool {name!r}: its output schema").problems
    except UsageError as error:
        logger.warning("%s The tool's outputs are not checked.", error)
        return None
