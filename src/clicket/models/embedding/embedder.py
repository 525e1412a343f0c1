"""An `Embedder` over a function from texts to vectors. The vectors become unit vectors here, no matter what computed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.model.text.surrogates import clean

__all__ = ["Encode", "TextEmbedder"]

Encode = Callable[[list[str]], Iterable[Any]]
"""From texts to one vector for each."""


class TextEmbedder:
    """An `Embedder`. `load` makes the function from texts to vectors when the first text is embedded: only then is a model read. `name`
    identifies the vectors: an index takes no vectors of another name. It may be used from several threads if the function may."""

    def __init__(self, name: str, load: Callable[[], Encode]) -> None:
        self.name: str = name
        self._load = load
        self._encode: Encode | None = None

    @cached_property
    def dimensions(self) -> int:
        """The length of the vectors, measured on one text."""
        return int(self.embed(["length"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Any:
        """A float32 array with one unit vector for each text, in their order."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        rows = np.array([*self._loaded()([clean(text) for text in texts])], dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def _loaded(self) -> Encode:
        """Two threads may both load it at the first use; one result is kept."""
        if self._encode is None:
            try:
                self._encode = self._load()
            except ClicketError:
                raise
            except Exception as error:
                raise UsageError(f"the embedder {self.name} cannot be loaded: {error}") from error
        return self._encode

    def __repr__(self) -> str:
        return f"<embedder {self.name}>"
