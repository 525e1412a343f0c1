"""Tool definitions for `tools/list`: the tools that the thread may use now, in the order of their registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import mcp_types as types

from clicket.adapters.mcp.request_context import RequestContext
from clicket.tools import Tool

__all__ = ["TaskMode", "header_schema", "list_tools", "output_schema", "task_mode"]

TaskMode = Literal["auto", "always", "required", "after-input", "never"]
_MODES: dict[str, TaskMode] = {
    "mcp:task": "always",
    "mcp:task-required": "required",
    "mcp:task-after-input": "after-input",
    "mcp:no-task": "never",
}


async def list_tools(request: RequestContext, meta: dict[str, Any] | None = None) -> list[types.Tool]:
    """`meta`: `_meta` of every tool."""
    names = set(await request.runtime.hub(request.thread).available())
    return [_definition(tool, meta) for tool in request.runtime.registry if tool.name in names]


def task_mode(tool: Tool | None) -> TaskMode:
    """Whether calls of the tool become tasks, for clients that support tasks. `auto`: calls that take long do."""
    tags = tool.options.tags if tool is not None else ()
    return next((_MODES[tag] for tag in sorted(tags) if tag in _MODES), "auto")


def header_schema(tool: Tool | None) -> Mapping[str, Any] | None:
    """The input schema of a tool that declares arguments which are repeated in HTTP headers; None for all others."""
    if tool is None:
        return None
    properties = tool.input_schema.get("properties") or {}
    wants = any(isinstance(each, Mapping) and "x-mcp-header" in each for each in properties.values())
    return tool.input_schema if wants else None


def _definition(tool: Tool, meta: dict[str, Any] | None) -> types.Tool:
    options = tool.options
    return types.Tool(
        _meta=meta,
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tool.input_schema},
        output_schema=output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=options.read_only,
            idempotent_hint=options.idempotent or options.read_only,
            destructive_hint=not options.read_only,
        ),
    )


def output_schema(tool: Tool) -> dict[str, Any] | None:
    return None if tool.output_schema is None else dict(tool.output_schema)
