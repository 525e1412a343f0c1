"""Vectors: made when documents are added or a vector is missing, and fused with the terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.search.index.index import Index

np = pytest.importorskip("numpy")

MEANINGS = {"car": 0, "automobile": 0, "dog": 1, "hound": 1, "sea": 2, "ocean": 2}


class Meanings:
    """Words of one meaning have one direction."""

    def __init__(self, name: str = "meanings", *, fail_after: int | None = None) -> None:
        self.name = name
        self.dimensions = 4
        self.texts: list[str] = []
        self.fail_after = fail_after

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fail_after is not None and len(self.texts) >= self.fail_after:
            raise RuntimeError("the model is gone")
        self.texts += texts
        rows = np.full((len(texts), 4), 1e-3, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                if word in MEANINGS:
                    row[MEANINGS[word]] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


ROWS = [
    {"id": "1", "title": "one", "text": "an automobile stands here"},
    {"id": "2", "text": "the hound barks"},
    {"id": "3", "text": "ocean and more ocean"},
    {"id": "4", "text": "a car by the sea"},
]


async def test_search_finds_what_is_meant() -> None:
    with Index.open(embedder=Meanings()) as index:
        index.add(ROWS)
        assert [one.id for one in await index.search("dog", k=1)] == ["2"]
        assert [one.id for one in await index.search("car", k=2)] == ["4", "1"]
        assert len(await index.search("the")) == 4  # the terms match nothing, the vectors rank all
        near = index.similarities("car", ["1", "2", "none"])
        assert near is not None
        assert near[0] > 0.9 > near[1]
        assert near[2] == 0.0
        index.remove(["2"])
        assert "2" not in [one.id for one in await index.search("dog")]


def test_missing_vectors_are_made_when_next_opened(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with Index.open(path) as index:
        index.add(ROWS)
        assert index.similarities("car", ["1"]) is None
    reports: list[tuple[int, int]] = []
    first, second = Meanings(), Meanings()
    with Index.open(path, embedder=first, on_progress=lambda done, total: reports.append((done, total))) as index:
        assert [one.id for one in index.find("dog", k=1)] == ["2"]
        index.add([ROWS[0], {"id": "2", "text": "the dog barks"}])
    assert reports == [(4, 4)]
    assert first.texts == ["one\nan automobile stands here", *(row["text"] for row in ROWS[1:]), "dog", "the dog barks"]
    with Index.open(path, embedder=second) as index:
        assert second.texts == []
        assert [one.id for one in index.find("hound", k=1)] == ["2"]


def test_an_embedder_that_fails_loses_no_document(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with Index.open(path, embedder=Meanings(fail_after=64)) as index, pytest.raises(RuntimeError, match="gone"):
        index.add({"id": str(one), "text": f"car {one}"} for one in range(100))
    again = Meanings()
    with Index.open(path, embedder=again) as index:
        assert index.count == 100
        assert len(again.texts) == 36


def test_vectors_of_another_space_are_refused(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db", embedder=Meanings()) as index:
        index.add(ROWS)
    with pytest.raises(UsageError, match="vectors of meanings"):
        Index.open(tmp_path / "index.db", embedder=Meanings("other"))
    with Index.open(tmp_path / "index.db") as index:
        assert [one.id for one in index.find("hound")] == ["2"]


def test_a_wrong_array_is_refused() -> None:
    class Wrong(Meanings):
        def embed(self, texts: Sequence[str]) -> Any:
            return np.zeros((len(texts), 3), dtype=np.float32)

    with Index.open(embedder=Wrong()) as index, pytest.raises(UsageError, match="shape"):
        index.add(ROWS)
