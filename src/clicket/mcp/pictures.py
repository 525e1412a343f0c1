"""Figures of an output as pictures that a client can show, beside the text that it gets of every tool."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from clicket.errors import ClicketError
from clicket.model import ToolResult
from clicket.runtime import Runtime
from clicket.tools import Tool

__all__ = ["pictures_of"]

_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MOST = 8
_LARGEST = 4 * 1024 * 1024


async def pictures_of(runtime: Runtime, result: ToolResult, tool: Tool | None) -> Sequence[types.ImageContent]:
    """Of a tool that says it shows pictures, as the code interpreter does. What cannot be had is left out: it is named in the
    output all the same."""
    output = result.output
    if tool is None or not tool.traits.shows_pictures or not result.success or not isinstance(output, Mapping):
        return ()
    shown = output.get("displays")
    pictures: list[types.ImageContent] = []
    for display in shown if isinstance(shown, list) else ():
        if isinstance(display, Mapping) and display.get("mime") in _KINDS and len(pictures) < _MOST:
            data = await _data(runtime, display)
            if data is not None:
                pictures.append(types.ImageContent(data=data, mime_type=str(display["mime"])))
    return pictures


async def _data(runtime: Runtime, display: Mapping[str, Any]) -> str | None:
    """Base64 that is some: a program may have written anything."""
    artifact, data = display.get("artifact"), display.get("data")
    try:
        if isinstance(artifact, str):
            found = await runtime.artifact(artifact, 0, _LARGEST + 1)
        else:
            found = base64.b64decode(str(data or ""), validate=True)
    except (ClicketError, binascii.Error, ValueError):
        return None
    return base64.b64encode(found).decode() if 0 < len(found) <= _LARGEST else None
