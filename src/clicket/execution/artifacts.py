"""Artifacts and their readers. An artifact is named by the hash of its content, so knowing a name gives no right to read it. A caller
may read what it uploaded and what its calls stored. The store records these grants, so they hold in every process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from hashlib import sha256

from clicket.errors import NotFound, UsageError
from clicket.model.codec import encode
from clicket.ports import Store

__all__ = ["GRANT", "grant", "granted", "name_of", "read_artifact", "unknown"]

GRANT = "artifact"
"""The kind of the stored documents that say which caller may read which artifact."""
_PIECE = 1024 * 1024


async def name_of(data: bytes | Sequence[bytes]) -> tuple[str, Sequence[bytes], int]:
    """The name, the pieces and the size of these bytes. Hashing a large file does not block the loop."""
    pieces = [data] if isinstance(data, bytes) else data
    digest, size = sha256(), 0
    for piece in pieces:
        if not isinstance(piece, bytes):
            raise UsageError(f"an artifact is made of bytes, not of {type(piece).__name__}; encode it first.")
        size += len(piece)
        for start in range(0, len(piece), _PIECE):
            digest.update(memoryview(piece)[start : start + _PIECE])
            await asyncio.sleep(0)
    return f"sha256-{digest.hexdigest()}", pieces, size


async def grant(store: Store, caller: str, name: str) -> None:
    """From now on this caller may read that artifact. The program itself, whose name is empty, may read all."""
    if caller:
        await store.put_document(GRANT, f"{caller}/{name}", encode({"at": time.time()}), None)


async def granted(store: Store, caller: str, name: str) -> bool:
    return not caller or await store.document(GRANT, f"{caller}/{name}") is not None


async def read_artifact(store: Store, caller: str, name: str, start: int, end: int | None) -> bytes:
    """A range of an artifact, if the caller may read it: `NotFound` otherwise."""
    if start < 0 or (end is not None and end < start):
        raise UsageError(f"a range starts at 0 or later and ends after its start, not {start}:{end}.")
    if not await granted(store, caller, name):
        raise unknown(name)
    return await store.read_artifact(name, start, end)


def unknown(name: str) -> NotFound:
    return NotFound(f"there is no artifact {name[:100]!r}; it may have been swept with its call.")
