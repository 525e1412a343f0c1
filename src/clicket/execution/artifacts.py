"""Files that a running call keeps and reads. An artifact is named by its content, so a name proves nothing: a caller may read
what it uploaded, and what its calls kept. That is on record in the store, so every process over it knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from hashlib import sha256

from clicket.errors import NotFound, UsageError
from clicket.journal import Journal, LiveCall
from clicket.model.codec import encode
from clicket.ports import Store

__all__ = ["GRANT", "grant", "granted", "keep", "name_of", "read", "unknown"]

GRANT = "artifact"
"""The kind of the papers that say who may read what."""
_PIECE = 1024 * 1024


async def name_of(data: bytes | Sequence[bytes]) -> tuple[str, Sequence[bytes], int]:
    """The name of these bytes, the bytes in pieces, and how many they are. Calls go on while a large file is hashed."""
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


async def keep(journal: Journal, call: LiveCall, data: bytes | Sequence[bytes]) -> str:
    """Keep bytes for as long as the call is kept, and let its caller read them."""
    name, pieces, size = await name_of(data)
    await journal.store.put_artifact(name, pieces)
    await grant(journal.store, call.caller, name)
    if not call.settling and name not in call.keeps:  # of a call that has ended nothing more is said: a sweep takes it
        call.keeps |= {name}
        call.kept = (*call.kept, (name, size))
        journal.commit(call, _said)  # a call that is silent from now on names it, too
    return name


def _said(call: LiveCall, error: BaseException | None) -> None:
    """Nobody waits for it: the journal itself goes on trying."""


async def read(journal: Journal, call: LiveCall, name: str, start: int, end: int | None) -> bytes:
    """A range of an artifact, if the call's caller may read it."""
    if start < 0 or (end is not None and end < start):
        raise UsageError(f"a range starts at 0 or later and ends after its start, not {start}:{end}.")
    if not await granted(journal.store, call.caller, name):
        raise unknown(name)
    return await journal.store.read_artifact(name, start, end)


def unknown(name: str) -> NotFound:
    return NotFound(f"there is no artifact {name[:100]!r}; it may have been swept with its call.")
