"""An embedder that caches passages in a folder: a corpus is embedded once, and every later run takes minutes less.

Questions are never cached: their cost is part of the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from clicket.models.embedding.kinds import embedder_of
from clicket.ports import Embedder

__all__ = ["Kept", "minilm"]


def minilm() -> Embedder:
    """On one thread, as the figures say. fastembed fetches it at the first use; `dimensions` fails if it cannot."""
    model = embedder_of({"kind": "fastembed", "model": "sentence-transformers/all-MiniLM-L6-v2", "threads": 1})
    assert model.dimensions == 384
    return model


class Kept:
    """MiniLM with a cache of its vectors, one file for each corpus. `computed` counts passages that were not cached."""

    def __init__(self, folder: Path) -> None:
        self._model = minilm()
        self._folder = folder / self._model.name.replace(":", "-").replace("/", "-")
        self._known: dict[bytes, Any] = {}
        self._filling = False
        self.computed = 0

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def dimensions(self) -> int:
        return self._model.dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        if not self._filling:
            return self._model.embed(texts)
        keys = [_key(text) for text in texts]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        if new:
            for at, vector in zip(new, self._model.embed([texts[at] for at in new]), strict=True):
                self._known[keys[at]] = vector.astype(np.float16)
            self.computed += len(new)
        return np.stack([self._known[key] for key in keys]).astype(np.float32)

    @contextmanager
    def filling(self, corpus: str) -> Iterator[None]:
        """While a corpus is indexed: passages are looked up first, and new vectors are saved, also after an error."""
        path = self._folder / f"{corpus}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as kept:
                keys = kept["keys"]
                self._known.update(zip((bytes(row) for row in keys), kept["vectors"], strict=True))
        before, self._filling = len(self._known), True
        try:
            yield
        finally:
            self._filling = False
            if len(self._known) > before:
                self._folder.mkdir(parents=True, exist_ok=True)
                part = path.with_suffix(".part.npz")
                keys = np.frombuffer(b"".join(self._known), dtype=np.uint8).reshape(len(self._known), 32)
                np.savez(part, keys=keys, vectors=np.stack(list(self._known.values())))
                part.replace(path)
            self._known.clear()


def _key(text: str) -> bytes:
    return sha256(text.encode(errors="surrogatepass")).digest()
