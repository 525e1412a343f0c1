"""No-op tools of every kind, in a separate module, because process isolation imports a tool's module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clicket import NativeTool, RestTool, ToolContext, tool

__all__ = ["TOOLS", "rest"]

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@tool
async def function_async(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


@tool
def function_sync(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


@tool(isolation="process")
async def process_async(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


@tool(isolation="process")
def process_sync(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


class NativeAsync(NativeTool):
    """Return a small dict."""

    name = "native_async"
    input_schema = _SCHEMA

    async def run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        return {"a": arguments["a"]}


class NativeSync(NativeTool):
    """Return a small dict."""

    name = "native_sync"
    input_schema = _SCHEMA

    def run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        return {"a": arguments["a"]}


@tool
class Both:
    """Return a small dict."""

    async def run(self, a: int) -> dict[str, int]:
        return {"a": a}

    def run_sync(self, a: int) -> dict[str, int]:
        return {"a": a}


def rest(url: str) -> RestTool:
    return RestTool(
        "rest",
        "GET",
        f"{url}/item",
        description="Fetch a small dict.",
        parameters={"a": {"type": "integer", "in": "query"}},
        required=["a"],
        allow_private=True,
    )


TOOLS: dict[str, Callable[[], Any]] = {
    "function-async": lambda: function_async,
    "function-sync": lambda: function_sync,
    "process-async": lambda: process_async,
    "process-sync": lambda: process_sync,
    "native-async": NativeAsync,
    "native-sync": NativeSync,
    "both": lambda: Both,
}
