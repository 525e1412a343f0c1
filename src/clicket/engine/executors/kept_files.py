"""Files of results and messages become artifacts. Reading a path does not block the loop, and no file is whole in memory.

A file that is named as an artifact must be one that the caller may read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from clicket.engine.executors.artifacts import allow_reading, artifact_stream, chunks_of, name_of, spooled
from clicket.errors import UsageError
from clicket.model.files import HEAD, File, FileRef, artifact_in, ref_of
from clicket.model.ports import Store

__all__ = ["MAX_FILES", "keep_files"]

MAX_FILES = 32
"""Files of one message or result."""


async def keep_files(
    store: Store, caller: str, files: Sequence[File], *, keep_until: float | None = None
) -> list[FileRef]:
    """Store files, and let the caller read them. `keep_until`: as for the store. `UsageError`: one cannot be read, or is not an image;
    `NotFound`: the caller may not read the artifact that one names."""
    if len(files) > MAX_FILES:
        raise UsageError(f"there are {len(files)} files; at most {MAX_FILES} go together. Send the others apart.")
    return [await _kept(store, caller, file, keep_until) for file in files]


async def _kept(store: Store, caller: str, file: File, keep_until: float | None) -> FileRef:
    source = file.source
    named = artifact_in(source)
    if named is not None:
        head, size = b"", 0
        async for chunk in artifact_stream(store, caller, named):
            head, size = head + chunk[: HEAD - len(head)], size + len(chunk)
        ref = ref_of(file, named, head, size)
        await store.put_artifact(named, (), keep_until=keep_until)
        return ref
    if isinstance(source, bytes):
        name, pieces, size = await name_of(source)
        ref = ref_of(file, name, source[:HEAD], size)
        await store.put_artifact(name, pieces, keep_until=keep_until)
    else:
        async with aclosing(chunks_of(Path(os.fspath(source)))) as read, spooled(read) as whole:
            head = next(iter(whole.chunks), b"")[:HEAD]
            name, ref = whole.name, ref_of(file, whole.name, head, whole.size)
            await store.put_artifact(name, whole.chunks, keep_until=keep_until)
    await allow_reading(store, caller, name)
    return ref
