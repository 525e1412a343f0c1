"""The tool list of another server, within limits: a server that lists without end costs a bounded number of requests and of bytes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import mcp_types as types

__all__ = ["MAX_WARNINGS", "ToolLister", "read_tool_list", "warn_of_left_out"]

logger = logging.getLogger("clicket.mcp")

_MAX_PAGES = 1_000
_MAX_EMPTY_PAGES = 10
_MAX_DEFINITION = 256 * 1024
"""Bytes of one tool's description and schemas, as JSON."""
_MAX_TOTAL = 64 * 1024 * 1024
"""Bytes of all definitions."""
MAX_WARNINGS = 10
"""Tools that the log names as left out, each time that the list is read."""


class ToolLister(Protocol):
    """What is needed of the SDK's client."""

    async def list_tools(self, *, cursor: str | None) -> types.ListToolsResult: ...


async def read_tool_list(client: ToolLister, server: str, max_tools: int) -> list[types.Tool]:
    """The first `max_tools` tools, each name once, without those whose definitions are too big. The log says what is left out."""
    found: dict[str, types.Tool] = {}
    too_big: list[str] = []
    cursor: str | None = None
    cursors: set[str] = set()
    empty = total = 0
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for each in page.tools:
            size = len(each.model_dump_json())
            if size > _MAX_DEFINITION:
                too_big.append(each.name)
            elif total + size <= _MAX_TOTAL and each.name not in found:
                total += size
                found[each.name] = each
        empty = 0 if page.tools else empty + 1
        cursor = page.next_cursor
        if cursor is None:
            break
        if len(found) > max_tools:
            break
        if cursor in cursors or empty >= _MAX_EMPTY_PAGES:
            logger.warning("the tool list of MCP server %s has no end; what it listed so far is taken", server)
            break
        cursors.add(cursor)
    else:
        logger.warning("MCP server %s lists its tools on more than %d pages; the rest is left out", server, _MAX_PAGES)
    if len(found) > max_tools:
        logger.warning(
            "MCP server %s offers more than %d tools; the others are left out. max_tools=… raises the limit.",
            server,
            max_tools,
        )
    warn_of_left_out(server, too_big, f"its definition is larger than {_MAX_DEFINITION} bytes")
    return list(found.values())[:max_tools]


def warn_of_left_out(server: str, names: Sequence[str], why: str) -> None:
    for name in names[:MAX_WARNINGS]:
        logger.warning("tool %.1000r of MCP server %s is left out: %s", name, server, why)
    if len(names) > MAX_WARNINGS:
        logger.warning("%d more tools of MCP server %s are left out.", len(names) - MAX_WARNINGS, server)
