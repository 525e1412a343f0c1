"""The tools of a runtime as MCP lists them: those that the thread may use now, in the order of their registration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import mcp_types as types
import msgspec

from clicket.errors import UsageError
from clicket.mcp.visit import Visit
from clicket.runtime import Runtime
from clicket.tools import Tool
from clicket.tools.check import Check, compile_schema

__all__ = ["TaskMode", "find_tool", "header_schema", "list_tools", "output_check", "output_schema", "task_mode"]

TaskMode = Literal["auto", "always", "required", "after-input", "never"]
_MODES: dict[str, TaskMode] = {
    "mcp:task": "always",
    "mcp:task-required": "required",
    "mcp:task-after-input": "after-input",
    "mcp:no-task": "never",
}


async def list_tools(visit: Visit) -> list[types.Tool]:
    names = set(await visit.runtime.hub(visit.thread).available())
    return [_listed(tool) for tool in visit.runtime.registry if tool.name in names]


def find_tool(runtime: Runtime, name: str) -> Tool | None:
    return runtime.registry.get(name)


def task_mode(tool: Tool | None) -> TaskMode:
    """Whether calls of the tool become tasks, for clients that know tasks. `auto`: those that take long."""
    tags = tool.options.tags if tool is not None else ()
    return next((_MODES[tag] for tag in sorted(tags) if tag in _MODES), "auto")


def header_schema(tool: Tool | None) -> Mapping[str, Any] | None:
    """The input schema of a tool that wants some of its arguments in HTTP headers, too; None for all others."""
    if tool is None:
        return None
    properties = tool.input_schema.get("properties") or {}
    wants = any(isinstance(each, Mapping) and "x-mcp-header" in each for each in properties.values())
    return tool.input_schema if wants else None


def _listed(tool: Tool) -> types.Tool:
    options = tool.options
    return types.Tool(
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
    """A copy of the schema of a tool's output, where it is known."""
    return None if tool.output_schema is None else dict(tool.output_schema)


def output_check(tool: Tool) -> Check | None:
    """The compiled check of what a tool promised about its output."""
    schema = output_schema(tool)
    return None if schema is None else _compiled(msgspec.json.encode(schema), tool.name)


@lru_cache(maxsize=1_024)
def _compiled(schema: bytes, name: str) -> Check | None:
    loaded = msgspec.json.decode(schema)
    # Outputs may say more than was promised; only arguments may not.
    loaded.setdefault("additionalProperties", True)
    try:
        return compile_schema(loaded, f"the output of tool {name!r}")
    except UsageError:
        return None
