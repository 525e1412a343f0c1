"""Vectors of passages, stored as half floats and compared by scanning all of them: exact, and fast enough below a million.

They are written after their documents, in small transactions. Vectors that a killed process did not write are made when the
index is next opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import apsw

from clicket.errors import UsageError
from clicket.model.ports.services import Embedder
from clicket.search.index.rows import decoded

__all__ = ["Progress", "Vectors", "check_embedder", "embed_passages", "passages_without_vector", "store_vectors"]

Progress = Callable[[int, int], None]
"""Called with the number of passages done, and the number of all."""

_BATCH = 64
_MISSING = """SELECT p.key, d.hash, d.title, d.text, p.start, p.stop FROM passages p JOIN documents d ON d.key = p.document
    WHERE p.key NOT IN (SELECT passage FROM vectors) AND p.key > ? ORDER BY p.key LIMIT ?"""
_UNCHANGED = "SELECT 1 FROM passages p JOIN documents d ON d.key = p.document WHERE p.key = ? AND d.hash = ?"


def _numpy() -> ModuleType:
    try:
        import numpy as np
    except ImportError:
        raise UsageError("vectors need numpy, which is not installed: pip install 'clicket[embeddings]'.") from None
    return np


class Vectors:
    """All vectors of a snapshot, as one matrix."""

    def __init__(self, connection: apsw.Connection, dimensions: int) -> None:
        np = self._np = _numpy()
        rows: list[Any] = connection.execute("SELECT passage, vector FROM vectors ORDER BY passage").fetchall()
        self.keys = np.fromiter((key for key, _ in rows), dtype=np.int64, count=len(rows))
        joined = b"".join(vector for _, vector in rows)
        self.matrix = np.frombuffer(joined, dtype="<f2").reshape(len(rows), dimensions).astype(np.float32)

    def best(self, vector: Any, k: int) -> list[tuple[int, float]]:
        """The nearest `k` passages, and those as near as the last, with their similarities."""
        if not len(self.keys):
            return []
        near = self._similarities(self.matrix, vector)
        if len(near) > k:
            bar = self._np.partition(near, len(near) - k)[len(near) - k]
            chosen = self._np.nonzero(near >= bar)[0]
        else:
            chosen = self._np.arange(len(near))
        return [(int(self.keys[at]), float(near[at])) for at in chosen]

    def _similarities(self, rows: Any, vector: Any) -> Any:
        """Row by row: one product of the whole matrix would use all cores for a millisecond's work, and cost ten times as much."""
        return self._np.round(self._np.vecdot(rows, vector), 6)

    def similarities(self, vector: Any, passages: Sequence[int]) -> list[float | None]:
        """The similarity of each of these passages; None for one without a vector."""
        if not len(self.keys):
            return [None] * len(passages)
        places = self._np.searchsorted(self.keys, self._np.asarray(passages, dtype=self._np.int64))
        places = self._np.minimum(places, len(self.keys) - 1)
        near = self._similarities(self.matrix[places], vector)
        there = self.keys[places] == passages
        return [float(one) if found else None for one, found in zip(near, there, strict=True)]


def check_embedder(connection: apsw.Connection, path: str, embedder: Embedder) -> int:
    """Raise `UsageError` when the index has vectors of another embedder. Returns the number of passages without a vector."""
    _numpy()
    space, dimensions = connection.execute("SELECT space, dimensions FROM totals").get
    if not space:
        space, dimensions = embedder.name, embedder.dimensions
        connection.execute("UPDATE totals SET space = ?, dimensions = ?", (space, dimensions))
    if (space, dimensions) != (embedder.name, embedder.dimensions):
        raise UsageError(
            f"{path} has vectors of {space} ({dimensions} dimensions), and the embedder is {embedder.name} "
            f"({embedder.dimensions}). Open it with that one or with none, or index again under another path."
        )
    return int(connection.execute("SELECT (SELECT passages FROM totals) - (SELECT count(*) FROM vectors)").get)


def passages_without_vector(connection: apsw.Connection, after: int) -> list[Any]:
    """The next passages without a vector, after a key."""
    return connection.execute(_MISSING, (after, _BATCH)).fetchall()


def embed_passages(rows: Sequence[Any], embedder: Embedder) -> list[tuple[int, bytes, bytes]]:
    """For each of these passages its key, the hash of its document, and its vector."""
    texts = []
    for _, _, title, text, start, stop in rows:
        name = decoded(title)
        body = decoded(text)[start:stop]
        texts.append(f"{name}\n{body}" if name else body)
    vectors = _numpy().asarray(embedder.embed(texts))
    if vectors.shape != (len(rows), embedder.dimensions):
        raise UsageError(
            f"embedder {embedder.name} gave an array of shape {vectors.shape} for {len(rows)} texts; "
            f"it must be ({len(rows)}, {embedder.dimensions})."
        )
    return [(row[0], row[1], vector.astype("<f2").tobytes()) for row, vector in zip(rows, vectors, strict=True)]


def store_vectors(connection: apsw.Connection, made: Sequence[tuple[int, bytes, bytes]]) -> None:
    """Write vectors of passages whose documents did not change meanwhile."""
    for key, hashed, vector in made:
        if connection.execute(_UNCHANGED, (key, hashed)).get:
            connection.execute("INSERT OR REPLACE INTO vectors (passage, vector) VALUES (?, ?)", (key, vector))
