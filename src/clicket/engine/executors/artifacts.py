"""Artifacts and their readers. An artifact is named by the hash of its content, so knowing a name gives no right to read it. A caller
may read what it uploaded and what its calls stored. The store records it, so it holds in every process."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import msgspec

from clicket import system
from clicket.errors import NotFound, UsageError
from clicket.model.codec import encode
from clicket.model.ports import Store
from clicket.system.bridge import ThreadPool

__all__ = [
    "ARTIFACT_ACCESS",
    "ArtifactSource",
    "Spooled",
    "allow_reading",
    "artifact_stream",
    "chunks_of",
    "may_read",
    "name_of",
    "put_artifact",
    "read_artifact",
    "spooled",
    "unknown",
]  # fmt: skip

ArtifactSource = bytes | os.PathLike[str] | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
"""What an artifact is made of: bytes, the path of a file, an open binary file, or chunks of bytes as they come."""

ARTIFACT_ACCESS = "artifact"
"""The kind of the stored documents that say which caller may read which artifact."""
_PIECE = 1024 * 1024
CHUNK = 256 * 1024
"""Bytes of an artifact that are in memory at once, while it is stored or read as a stream."""
_IN_MEMORY = 1024 * 1024


class _FileChunks(Sequence[bytes]):
    """A file as the sequence of chunks that a store takes. It may be read several times."""

    def __init__(self, file: IO[bytes] | Any, size: int) -> None:
        self._file = file
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def __len__(self) -> int:
        return (self._size + CHUNK - 1) // CHUNK

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


class Spooled(msgspec.Struct, frozen=True):
    """What came in whole: the name of the artifact, its chunks for a store, and its size."""

    name: str
    chunks: Sequence[bytes]
    size: int


@asynccontextmanager
async def spooled(chunks: AsyncIterable[bytes]) -> AsyncIterator[Spooled]:
    """Take chunks as they come. The name of an artifact is its hash, which is known at the end: until then it is in a temporary file."""
    digest = sha256()
    size = 0
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="clicket-") as file:
        async for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
            size += len(chunk)
        yield Spooled(f"sha256-{digest.hexdigest()}", _FileChunks(file, size), size)


async def chunks_of(source: ArtifactSource) -> AsyncGenerator[bytes]:
    """The source in chunks, read where reading does not block the loop. Raises `UsageError` for anything else."""
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, AsyncIterable):
        async for chunk in source:
            yield _checked(chunk)
    elif isinstance(source, str | bytearray | memoryview) or not (
        isinstance(source, os.PathLike | Iterable) or callable(getattr(source, "read", None))
    ):
        raise UsageError(
            f"an artifact is made of bytes, a path (pathlib.Path), a binary file or chunks of bytes, not of {type(source).__name__}; "
            "encode it first."
        )
    else:
        async with aclosing(_blocking_chunks(source)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _blocking_chunks(source: ArtifactSource) -> AsyncGenerator[bytes]:
    """Chunks of what blocks while it is read, by a thread of its own. A file that the caller opened stays open."""
    thread_pool = ThreadPool(1, "clicket-artifact")
    own = ExitStack()
    try:
        read = await thread_pool.run(lambda: _reader_of(source, own))
        while chunk := _checked(await thread_pool.run(read)):
            yield chunk
    finally:
        await thread_pool.run(own.close)
        thread_pool.close(0)


def _reader_of(source: ArtifactSource, own: ExitStack) -> Callable[[], Any]:
    """A function that returns the next chunk, and at the end an empty one."""
    if isinstance(source, os.PathLike):
        try:
            file: Any = own.enter_context(Path(source).open("rb"))  # noqa: SIM115  # the stack closes it
        except OSError as error:
            raise UsageError(f"{os.fspath(source)}: cannot be read: {error.strerror}.") from error
    else:
        file = source
    if callable(getattr(file, "read", None)):
        return lambda: file.read(CHUNK)
    chunks = filter(None, file)  # an empty chunk is not the end
    return lambda: next(chunks, b"")


def _checked(chunk: Any) -> bytes:
    if not isinstance(chunk, bytes):
        raise UsageError(f"an artifact is made of bytes, not of {type(chunk).__name__}; encode it first.")
    return chunk


async def put_artifact(store: Store, source: ArtifactSource, *, keep_until: float) -> str:
    """Store a file of any size; returns its name."""
    if isinstance(source, bytes):
        name, pieces, _ = await name_of(source)
        await store.put_artifact(name, pieces, keep_until=keep_until)
        return name
    async with aclosing(chunks_of(source)) as chunks, spooled(chunks) as whole:
        await store.put_artifact(whole.name, whole.chunks, keep_until=keep_until)
        return whole.name


async def artifact_stream(
    store: Store, caller: str, name: str, start: int = 0, end: int | None = None
) -> AsyncIterator[bytes]:
    """An artifact, or a range of it, in chunks. The right of the caller is checked once, at the first."""
    wanted = CHUNK if end is None else min(CHUNK, end - start)
    chunk = await read_artifact(store, caller, name, start, start + wanted)
    while chunk:
        yield chunk
        start += len(chunk)
        wanted = CHUNK if end is None else min(CHUNK, end - start)
        chunk = await store.read_artifact(name, start, start + wanted) if wanted > 0 else b""


async def name_of(data: bytes | Sequence[bytes]) -> tuple[str, Sequence[bytes], int]:
    """The name, the pieces and the size of these bytes. Hashing a large file does not block the loop."""
    pieces = [data] if isinstance(data, bytes) else data
    digest = sha256()
    size = 0
    for piece in pieces:
        if not isinstance(piece, bytes):
            raise UsageError(f"an artifact is made of bytes, not of {type(piece).__name__}; encode it first.")
        size += len(piece)
        for start in range(0, len(piece), _PIECE):
            digest.update(memoryview(piece)[start : start + _PIECE])
            await asyncio.sleep(0)
    return f"sha256-{digest.hexdigest()}", pieces, size


async def allow_reading(store: Store, caller: str, name: str) -> None:
    """From now on this caller may read that artifact. The program itself, whose name is empty, may read all."""
    if caller:
        await store.put_document(ARTIFACT_ACCESS, f"{caller}/{name}", encode({"at": system.now()}), None)


async def may_read(store: Store, caller: str, name: str) -> bool:
    return not caller or await store.document(ARTIFACT_ACCESS, f"{caller}/{name}") is not None


async def read_artifact(store: Store, caller: str, name: str, start: int, end: int | None) -> bytes:
    """A range of an artifact, if the caller may read it: `NotFound` otherwise."""
    if start < 0 or (end is not None and end < start):
        raise UsageError(f"a range starts at 0 or later and ends after its start, not {start}:{end}.")
    if not await may_read(store, caller, name):
        raise unknown(name)
    return await store.read_artifact(name, start, end)


def unknown(name: str) -> NotFound:
    return NotFound(f"there is no artifact {name[:100]!r}; it may have been swept with its call.")
