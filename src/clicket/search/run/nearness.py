"""Likeness by meaning where the engine has no vectors of its own: what was found is embedded, each text once a search."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.model.document import Document
from clicket.ports.services import Embedder

__all__ = ["Nearness"]

_LOOK = 2_000
"""Characters of a text that are embedded."""


class Nearness:
    """How near documents are to a text, from -1 to 1."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, list[float]] = {}
        """By text."""

    def __call__(self, text: str, documents: Sequence[Document]) -> list[float]:
        texts = [_text(one) for one in documents]
        self._embed([text, *texts])
        own = self._vectors[text]
        return [round(sum(a * b for a, b in zip(own, self._vectors[one], strict=True)), 6) for one in texts]

    def _embed(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._embedder.embed(new).tolist(), strict=True))


def _text(document: Document) -> str:
    """The title, and the part that was found first."""
    start = document.spans[0][0] if document.spans else 0
    return f"{document.title}\n{document.text[start : start + _LOOK]}"
