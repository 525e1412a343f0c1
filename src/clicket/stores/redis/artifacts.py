"""Artifacts as strings named by the hash of their content. A name that is not a hash never reaches the server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clicket import system
from clicket.errors import NotFound, StoreUnavailable
from clicket.model.ports import Unstorable
from clicket.stores.redis.script_client import ScriptClient
from clicket.system.bridge import ThreadPool

__all__ = ["Artifacts"]

_NAME = re.compile(r"sha256-[0-9a-f]{64}")
_PIECE = 1024 * 1024
_MOST = 512 * 1024 * 1024
"""Bytes of one string in Redis."""


class Artifacts:
    """Written and read in pieces, so that no answer takes long and no writer waits for it."""

    def __init__(self, client: ScriptClient, thread_pool: ThreadPool) -> None:
        self._client = client
        self._thread_pool = thread_pool

    async def put(self, name: str, chunks: Sequence[bytes], keep_until: float | None = None) -> None:
        pin = {} if keep_until is None else {"until": repr(float(keep_until))}
        if await self._client.write("artifact_find", {"name": _checked(name), **pin}):
            return
        pieces = _pieces(chunks)
        part = system.random_hex(16)
        size = 0
        while True:
            # Those that wait in a file are read in a thread.
            piece = (
                next(pieces, b"") if type(chunks) is list else await self._thread_pool.run(lambda: next(pieces, b""))
            )
            if not piece:
                break
            if size + len(piece) > _MOST:
                raise Unstorable(
                    f"{self._client.url}: a result has over {_MOST} bytes, and a string of Redis takes no more. "
                    "Keep such results in a file of your own, or use another store."
                )
            await self._client.write("artifact_part", {"part": part, "offset": size}, piece)
            size += len(piece)
        if not await self._client.write("artifact_keep", {"part": part, "name": name, "size": size, **pin}):
            raise StoreUnavailable(
                f"{self._client.url}: pieces of an artifact got lost while it was written. Try again."
            )

    async def read(self, name: str, start: int, end: int | None) -> bytes:
        _checked(name)
        pieces: list[bytes] = []
        while True:
            stop = start + _PIECE if end is None else min(end, start + _PIECE)
            there, piece, size = await self._client.read(
                "artifact_read", {"name": name, "start": start, "stop": stop - 1}
            )
            if not there:
                raise NotFound(f"there is no artifact {name!r}; it may have been swept with its call.")
            pieces.append(piece)
            start = stop
            if start >= size or (end is not None and start >= end):
                return b"".join(pieces)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotFound(f"{name!r} is not the name of an artifact; names look like sha256-… with 64 hex digits.")
    return name


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of a size that one question carries well."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        for at in range(0, len(chunk), _PIECE):
            waiting.append(chunk[at : at + _PIECE])
            size += len(waiting[-1])
            if size >= _PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    if size:
        yield b"".join(waiting)
