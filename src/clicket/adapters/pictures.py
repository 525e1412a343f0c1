"""The images of a tool's result, for SDKs whose models can look at what a tool returns."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from clicket.errors import ClicketError
from clicket.model import ToolResult
from clicket.model.files import PICTURES

__all__ = ["pictures_of"]

_MAX_PICTURES = 8
_MAX_SIZE = 4 * 1024 * 1024


async def pictures_of(rt: Any, result: ToolResult | None) -> Sequence[tuple[str, str]]:
    """The media type and the bytes, as base64, of its first images. `rt`: a runtime or a client. One that is large, or cannot be read,
    is left out; the text has its line all the same."""
    found: list[tuple[str, str]] = []
    for ref in () if result is None else result.files:
        if ref.media_type in PICTURES and ref.size <= _MAX_SIZE and len(found) < _MAX_PICTURES:
            try:
                found.append((ref.media_type, base64.b64encode(await rt.artifact(ref.artifact)).decode()))
            except ClicketError:  # it is not kept any more
                continue
    return found
