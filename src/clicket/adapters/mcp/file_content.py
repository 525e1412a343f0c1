"""The images and files of a result as MCP content, beside the text that a client gets of every tool."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
import msgspec

from clicket.adapters.mcp.content import ARTIFACT, MARK
from clicket.errors import ClicketError
from clicket.model import ToolResult
from clicket.model.files import PICTURES, FileRef
from clicket.runtime.runtime import Runtime

__all__ = ["files_of", "with_data"]

_MAX_FILES = 8
_MAX_SIZE = 4 * 1024 * 1024


async def files_of(runtime: Runtime, result: ToolResult) -> Sequence[types.ContentBlock]:
    """The first files of a result. One that is large, or cannot be read, is left out; the text has its line all the same."""
    found: list[types.ContentBlock] = []
    for ref in result.files:
        if len(found) < _MAX_FILES and ref.size <= _MAX_SIZE:
            data = await _data(runtime, ref)
            if data:
                found.append(_block(ref, data))
    return found


def _block(ref: FileRef, data: str) -> types.ContentBlock:
    if ref.media_type in PICTURES:
        return types.ImageContent(data=data, mime_type=ref.media_type)
    uri = f"artifact:{ref.artifact}"
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=ref.media_type, blob=data))


async def with_data(runtime: Runtime, result: ToolResult) -> ToolResult:
    """A result of content blocks with the bytes that are kept beside it. Only its own files count: a block may have any text."""
    output, refs = result.output, {ref.artifact: ref for ref in result.files}
    if not refs or not isinstance(output, Mapping) or output.get(MARK) != "content":
        return result
    content: list[Any] = []
    for block in output.get("content") or ():
        resource = block.get("resource") if isinstance(block, Mapping) else None
        place = resource if isinstance(resource, Mapping) else block
        ref = refs.get(str(place.get(ARTIFACT))) if isinstance(place, Mapping) else None
        if ref is None:
            content.append(block)
            continue
        key = "blob" if place is resource else "data"
        whole = {**{name: value for name, value in place.items() if name != ARTIFACT}, key: await _data(runtime, ref)}
        content.append({**block, "resource": whole} if place is resource else whole)
    return msgspec.structs.replace(result, output={**output, "content": content})


async def _data(runtime: Runtime, ref: FileRef) -> str:
    try:
        return base64.b64encode(await runtime.artifact(ref.artifact)).decode()
    except ClicketError:
        return ""
