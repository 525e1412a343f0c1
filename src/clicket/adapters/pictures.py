"""The images of a tool's result, for SDKs whose models can look at what a tool returns."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.model import ToolResult
from clicket.model.files import PICTURES

__all__ = ["Picture", "pictures_of"]

_MAX_PICTURES = 8
_MAX_SIZE = 4 * 1024 * 1024


class Picture(msgspec.Struct, frozen=True):
    """`data`: its bytes."""

    media_type: str
    data: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode()

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


async def pictures_of(rt: Any, result: ToolResult) -> tuple[Picture, ...]:
    """The first images of a result. `rt`: a runtime or a client. One that is large, or cannot be read, is left out; the text has its
    line all the same."""
    found: list[Picture] = []
    for ref in result.files:
        if ref.media_type in PICTURES and ref.size <= _MAX_SIZE and len(found) < _MAX_PICTURES:
            try:
                found.append(Picture(ref.media_type, await rt.artifact(ref.artifact)))
            except ClicketError:  # it is not kept any more
                continue
    return tuple(found)
