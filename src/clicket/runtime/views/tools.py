"""`ToolInfo`: a registered tool as `Runtime.tools`, the server and the client list it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # a client of a server lists tools without loading the tools package
    from clicket.tools import Tool

__all__ = ["ToolInfo", "info"]


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered tool as it is listed."""

    name: str
    description: str
    input_schema: dict[str, Any]
    version: str
    tags: list[str]
    is_async: bool
    isolation: str
    timeout: float | None
    read_only: bool
    idempotent: bool

    def __repr__(self) -> str:
        return f"<tool {self.name}: {self.description[:80]}>"


def info(tool: Tool) -> ToolInfo:
    options = tool.options
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        version=options.version,
        tags=sorted(options.tags),
        is_async=tool.is_async,
        isolation=options.isolation,
        timeout=options.timeout,
        read_only=options.read_only,
        idempotent=options.idempotent,
    )
