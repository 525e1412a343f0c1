"""The images and files of a request: their bytes are read from the store when it is made, within limits, the newest first.

One that is not shown has a line of text in its place that says why. Which are shown follows from the request alone, so the request that
is made again after a crash is the same.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from clicket.agents.turn import Turn
from clicket.errors import NotFound
from clicket.model.chat import ChatRequest
from clicket.model.files import PICTURES, FileRef
from clicket.model.ports import ChatModel

__all__ = ["FileCache", "with_files"]

_MAX_IMAGE = 3_932_160
"""Bytes: 5 MiB in base64, as the strictest vendor has it."""
_MAX_DOCUMENT = 10 * 1024 * 1024
_MAX_TEXT = 64 * 1024
"""A longer one is read with `read_result`."""
_MAX_BYTES = 18 * 1024 * 1024
"""Of all files of a request."""
_MAX_FILES = 20
"""In a request with more images a vendor refuses those of high resolution."""
_MAX_SIDE = 8_000
_SHOWN = (*PICTURES, "application/pdf")
_MAX_CACHED = 32 * 1024 * 1024
_BLIND = "this model reads only text"
_READ = "read it with read_result"


class FileCache:
    """The bytes of the last files. An artifact never changes; who may read it is part of the key."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size = 0

    async def read(self, turn: Turn, ref: FileRef) -> bytes | None:
        """None: it is not kept any more, or the caller may not read it."""
        key = (turn.host.caller, ref.artifact)
        data = self._known.pop(key, None)
        if data is None:
            try:
                data = await turn.host.read_file(ref.artifact, ref.size + 1)
            except NotFound:
                return None
            self._size += len(data)
        self._known[key] = data
        while self._size > _MAX_CACHED:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped)
        return data


async def with_files(turn: Turn, model: ChatModel, request: ChatRequest, cache: FileCache) -> ChatRequest:
    if not _has_files(request):
        return request
    sees = bool(getattr(model, "sees_images", False))
    messages, files = list(request.messages), dict[str, bytes]()
    size = count = 0
    for place in range(len(messages) - 1, -1, -1):
        for ref in messages[place].files:
            if ref.line not in messages[place].content:
                continue
            why = _why_not(ref) if sees else _READ if ref.is_text else _BLIND
            if not why and (count >= _MAX_FILES or size + ref.size > _MAX_BYTES):
                why = "newer ones have taken the room; ask for it again if it is needed"
            if not why:
                data = files.get(ref.artifact) or await cache.read(turn, ref)
                if data:
                    files[ref.artifact] = data
                    size, count = size + ref.size, count + 1
                else:
                    why = "it is not kept any more"
            if why:
                messages[place] = messages[place].unseen(ref, why)
    return msgspec.structs.replace(request, messages=tuple(messages), files=files)


def _has_files(request: ChatRequest) -> bool:
    for message in request.messages:  # noqa: SIM110  # for each request of a long thread: a generator takes twice as long
        if message.files:
            return True
    return False


def _why_not(ref: FileRef) -> str:
    """Why no model can be shown it; empty if one can."""
    if ref.is_text:
        return "" if ref.size <= _MAX_TEXT else f"it is long; {_READ}"
    if ref.media_type not in _SHOWN:
        return f"models cannot be shown {ref.media_type}"
    most = _MAX_IMAGE if ref.is_image else _MAX_DOCUMENT
    if ref.size > most:
        return f"it is over the limit of {most:,} bytes"
    if max(ref.width, ref.height) > _MAX_SIDE:
        return f"it is over the limit of {_MAX_SIDE:,} pixels"
    return "" if ref.size else "it is empty"
