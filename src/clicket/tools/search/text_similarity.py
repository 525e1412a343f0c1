"""How similar a query is to each tool, by vectors of whole texts that an embedder makes: `tool_ranking = "embeddings"`.

A tool is encoded once. Its vector is kept by a digest of its text and of the embedder's name, in memory and in a cache file, so a process
that starts again encodes only tools that are new or have changed. A query is encoded once for each search. Until every tool has its
vector, or while the embedder does not answer, no similarity is given, and tools are ranked by their words.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from clicket.errors import ClicketError
from clicket.model.ports import Embedder
from clicket.system.bridge import ThreadPool, run_in_thread
from clicket.system.private_files import make_folder, opener

__all__ = ["TextSimilarity", "cache_file"]

_DIGEST = 16
_AT_ONCE = 16
"""Tools that are encoded before other work on the loop has its turn."""
_MAX_CACHED = 50_000
_MAX_QUERIES = 256
"""Requests whose vectors are kept."""
_MAX_QUERY = 2_000
"""Characters of a query that are encoded."""
_logger = logging.getLogger(__name__)


class TextSimilarity:
    """Kept tool by tool, by their names. `file`: where vectors are kept between processes; None: nowhere."""

    def __init__(self, embedder: Embedder, file: Path | None = None) -> None:
        self._embedder = embedder
        self._file = file
        self._texts: dict[str, tuple[bytes, str]] = {}
        """Name of a tool -> digest of its text, and the text."""
        self._vectors: dict[bytes, bytes] = {}
        """Digest -> vector, a byte for each dimension."""
        self._matrix: tuple[list[str], Any] | None = None
        self._queries: dict[str, Any] = {}
        self._lock = asyncio.Lock()
        self._is_read = False

    def put(self, name: str, text: str) -> None:
        digest = blake2b(f"{self._embedder.name}\n{text}".encode("utf-8", "replace"), digest_size=_DIGEST).digest()
        self._texts[name] = digest, text
        self._matrix = None

    def remove(self, name: str) -> None:
        if self._texts.pop(name, None) is not None:
            self._matrix = None

    async def prepare(self) -> None:
        """Encode the tools that have no vector yet, in a thread."""
        if not self._missing():
            return
        async with self._lock:
            threads = ThreadPool(1, "clicket-tool-search")
            try:
                await self._encode_missing(threads)
            except ClicketError as error:
                _logger.warning("tool search: tools are ranked by their words: %s", error)
            finally:
                threads.close(0)

    async def read(self, query: str) -> None:
        """Encode a query in a thread, unless some tool has no vector."""
        if query[:_MAX_QUERY] in self._queries or not self._texts or self._missing():
            return
        try:
            await run_in_thread(lambda: self.encode(query))
        except ClicketError as error:
            _logger.warning("tool search: tools are ranked by their words: %s", error)

    def encode(self, query: str) -> None:
        text = query[:_MAX_QUERY]
        vector = self._embedder.embed([text])[0]
        if len(self._queries) >= _MAX_QUERIES:
            self._queries.clear()
        self._queries[text] = vector

    async def _encode_missing(self, threads: ThreadPool) -> None:
        if not self._is_read:
            self._vectors.update(await threads.run(self._read))
            self._is_read = True
        added = False
        if missing := self._missing():
            _logger.info(
                "tool search: %d tools get their vectors; until all have one, tools are ranked by their words",
                len(missing),
            )
        while missing := self._missing():
            some = dict(list(missing.items())[:_AT_ONCE])
            self._vectors.update(await threads.run(partial(self._encoded, some)))
            added = True
        if added and self._file is not None:
            await threads.run(partial(self._write, self._file))

    def to(self, query: str) -> Mapping[str, float] | None:
        """For each tool how similar it is, from -1 to 1. None: some tool, or the query, has no vector; see `prepare` and `read`."""
        asked = self._queries.get(query[:_MAX_QUERY])
        if asked is None or not self._texts or self._missing():
            return None
        import numpy as np

        if self._matrix is None:
            rows = np.frombuffer(b"".join(self._vectors[digest] for digest, _ in self._texts.values()), dtype=np.int8)
            matrix = rows.reshape(len(self._texts), -1).astype(np.float32)
            matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1.0)
            self._matrix = list(self._texts), matrix
        names, matrix = self._matrix
        return dict(zip(names, (matrix @ asked).tolist(), strict=True))

    def _missing(self) -> dict[bytes, str]:
        if self._matrix is not None:
            return {}
        return {digest: text for digest, text in self._texts.values() if digest not in self._vectors}

    def _encoded(self, texts: Mapping[bytes, str]) -> dict[bytes, bytes]:
        import numpy as np

        vectors = self._embedder.embed(list(texts.values()))
        largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-12)
        rounded = np.round(vectors / largest * 127).astype(np.int8)
        return {digest: row.tobytes() for digest, row in zip(texts, rounded, strict=True)}

    def _read(self) -> dict[bytes, bytes]:
        """What the cache file has. One that cannot be read, or that is of another length, has nothing."""
        try:
            data = self._file.read_bytes() if self._file is not None else b""
        except OSError:
            return {}
        size = _DIGEST + self._embedder.dimensions
        if len(data) % size:
            return {}
        return {data[at : at + _DIGEST]: data[at + _DIGEST : at + size] for at in range(0, len(data), size)}

    def _write(self, file: Path) -> None:
        """Replace the file as a whole: another process reads the old one or the new one."""
        kept = {**self._read(), **self._vectors}
        data = b"".join(digest + vector for digest, vector in list(kept.items())[-_MAX_CACHED:])
        beside = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            make_folder(file.parent)
            with open(beside, "wb", opener=opener) as out:
                out.write(data)
            beside.replace(file)
        except OSError as error:
            _logger.warning("the vectors of tools cannot be kept in %s: %s", file, error.strerror)


def cache_file(embedder: Embedder) -> Path:
    """The file for the vectors of this embedder, in the user's cache folder."""
    folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    name = "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in embedder.name)
    return Path(folder).expanduser() / "clicket" / f"tool-vectors-{name}.bin"
