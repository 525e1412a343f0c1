"""`Runtime.artifact` and `Runtime.put_artifact`: files in and out."""

from __future__ import annotations

from typing import Protocol

from clicket.engine import Engine
from clicket.errors import UsageError
from clicket.execution import grant, name_of, read_artifact
from clicket.ports import Store

__all__ = ["artifact", "put_artifact"]


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


async def put_artifact(runtime: _Runtime, data: bytes) -> str:
    """Store a file and return its name, which is passed to tools. It stays for `retention` seconds, or as long as a call names it.

    Equal bytes are stored once, under one name; storing them again restarts the time.
    """
    if not isinstance(data, bytes):
        raise UsageError(f"an artifact is made of bytes, not of {type(data).__name__}; encode it first.")
    name, pieces, _ = await name_of(data)
    await runtime.store.put_artifact(name, pieces, keep_until=runtime.pin_until())
    await grant(runtime.store, runtime._caller or "", name)
    return name
