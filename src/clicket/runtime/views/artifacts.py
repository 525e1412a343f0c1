"""`Runtime.artifact`, `Runtime.artifact_stream` and `Runtime.put_artifact`: files in and out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from clicket.engine import Engine
from clicket.engine.executors import ArtifactSource, allow_reading, read_artifact
from clicket.engine.executors import artifact_stream as stream_of
from clicket.engine.executors import put_artifact as put
from clicket.model.ports import Store

__all__ = ["artifact", "artifact_stream", "put_artifact"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...
    @property
    def store(self) -> Store: ...
    def pin_until(self) -> float: ...


async def artifact(runtime: _Runtime, name: str, start: int = 0, end: int | None = None) -> bytes:
    """The bytes of an artifact, or a range of them, if the runtime's caller may read it: `NotFound` otherwise."""
    return await read_artifact(runtime._opened.store, runtime._caller or "", name, start, end)


async def artifact_stream(runtime: _Runtime, name: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
    """The bytes of an artifact, or a range of them, in chunks of up to 256 KiB: `async for chunk in rt.artifact_stream(name)`. An
    artifact of any size is read without being whole in memory."""
    async for chunk in stream_of(runtime._opened.store, runtime._caller or "", name, start, end):
        yield chunk


async def put_artifact(runtime: _Runtime, data: ArtifactSource) -> str:
    """Store a file and return its name, which is passed to tools. It stays for `retention` seconds, or as long as a call names it.

    `data`: bytes, a `pathlib.Path`, an open binary file, or an iterable or async iterable of bytes. All but bytes are taken in chunks, and
    are never whole in memory (but for `memory://`). Equal content is stored once, under one name; storing it again restarts the time.
    """
    name = await put(runtime.store, data, keep_until=runtime.pin_until())
    await allow_reading(runtime.store, runtime._caller or "", name)
    return name
