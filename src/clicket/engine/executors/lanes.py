"""Where a tool's body runs."""

from __future__ import annotations

from clicket.tools import Tool

__all__ = ["PREPARED", "lane_of"]

PREPARED = ("process", "ray")
"""Lanes in which a call is `initializing` until there is a place for its body."""


def lane_of(tool: Tool, *, prefer_sync: bool = False) -> str:
    """Where a tool's body runs. Nothing sync runs on the loop unless its author wrote isolation="inline"."""
    isolation = tool.options.isolation
    if tool.options.external and tool.is_async and isolation == "auto":
        return "external"
    if isolation != "auto":
        return "loop" if isolation == "inline" and tool.is_async else isolation
    if prefer_sync and tool.run_sync is not None:
        return "thread"
    return "loop" if tool.is_async else "thread"
