"""The figures of an output as MCP image content, beside the text that a client gets of every tool."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from clicket.errors import ClicketError
from clicket.model import ToolResult
from clicket.runtime.runtime import Runtime
from clicket.tools import Tool

__all__ = ["images_of"]

_MIME_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_IMAGES = 8
_MAX_SIZE = 4 * 1024 * 1024


async def images_of(runtime: Runtime, result: ToolResult, tool: Tool | None) -> Sequence[types.ImageContent]:
    """Images of a tool that declares `shows_pictures`, as the code interpreter does. An image that cannot be read is left out;
    the output names it all the same."""
    output = result.output
    if tool is None or not tool.traits.shows_pictures or not result.success or not isinstance(output, Mapping):
        return ()
    displays = output.get("displays")
    images: list[types.ImageContent] = []
    for display in displays if isinstance(displays, list) else ():
        if isinstance(display, Mapping) and display.get("mime") in _MIME_TYPES and len(images) < _MAX_IMAGES:
            data = await _data(runtime, display)
            if data is not None:
                images.append(types.ImageContent(data=data, mime_type=str(display["mime"])))
    return images


async def _data(runtime: Runtime, display: Mapping[str, Any]) -> str | None:
    """Valid base64, or None: a program may have written anything into its output."""
    artifact, data = display.get("artifact"), display.get("data")
    try:
        if isinstance(artifact, str):
            found = await runtime.artifact(artifact, 0, _MAX_SIZE + 1)
        else:
            found = base64.b64decode(str(data or ""), validate=True)
    except (ClicketError, binascii.Error, ValueError):
        return None
    return base64.b64encode(found).decode() if 0 < len(found) <= _MAX_SIZE else None
