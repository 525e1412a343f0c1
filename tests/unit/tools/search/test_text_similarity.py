"""Similarity of whole texts: tools are encoded once, kept by digest, and ranked by their words until all have a vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clicket import Runtime, tool
from clicket.errors import RetryableError, UsageError
from clicket.tools.search.index import ToolIndex
from clicket.tools.search.text_similarity import TextSimilarity, cache_file

np = pytest.importorskip("numpy")


class Made(NamedTuple):
    name: str
    description: str = ""
    input_schema: Any = None


class Topics:
    """An embedder that knows a few topics, and counts what it reads."""

    dimensions = 4

    def __init__(self, name: str = "topics") -> None:
        self.name = name
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.read += texts
        words = (("film", "oppenheimer"), ("bill", "invoice"), ("rain", "umbrella"))
        rows = [[*(float(any(word in text.lower() for word in topic)) for topic in words), 0.1] for text in texts]
        found = np.array(rows, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


TOOLS = [
    Made("cinema_details", "Runtime and plot of a film."),
    Made("ledger_send", "Send an invoice."),
    Made("sky_outlook", "Whether rain is near."),
    Made("link_shorten", "How long a link may be."),
]
ASKED = "How long is Oppenheimer?"


async def best(embedder: Topics, request: str = ASKED, file: Path | None = None) -> str:
    texts = TextSimilarity(embedder, file)
    index = ToolIndex(TOOLS, texts=texts)
    await texts.prepare()
    await texts.read(request)
    return index.search(request, limit=1)[0]


async def test_a_request_finds_the_tool_that_means_the_same() -> None:
    assert ToolIndex(TOOLS).search(ASKED, limit=1) != ["cinema_details"]
    assert await best(Topics()) == "cinema_details"


async def test_tools_are_ranked_by_their_words_until_all_have_a_vector() -> None:
    embedder = Topics()
    texts = TextSimilarity(embedder)
    index = ToolIndex(TOOLS, texts=texts)
    assert index.search(ASKED) == ToolIndex(TOOLS).search(ASKED)
    await texts.read(ASKED)
    assert embedder.read == []
    await texts.prepare()
    await texts.read(ASKED)
    assert index.search(ASKED, limit=1) == ["cinema_details"]
    index.put(Made("late_comer", "Joined a moment ago."))
    assert texts.to(ASKED) is None
    await texts.prepare()
    assert index.search(ASKED, limit=1) == ["cinema_details"]


async def test_only_tools_that_are_new_or_have_changed_are_encoded() -> None:
    embedder = Topics()
    texts = TextSimilarity(embedder)
    index = ToolIndex(TOOLS, texts=texts)
    await texts.prepare()
    assert len(embedder.read) == len(TOOLS)
    embedder.read.clear()
    await texts.prepare()
    index.sync([*TOOLS[:3], Made("link_shorten", "Make a link short.")])
    await texts.prepare()
    assert embedder.read == ["link shorten: Make a link short."]
    index.remove("cinema_details")
    assert "cinema_details" not in index.search(ASKED)


async def test_vectors_outlive_the_process_and_belong_to_their_embedder(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "vectors.bin"
    assert await best(Topics(), "Is an umbrella wise?", file) == "sky_outlook"
    again = Topics()
    assert await best(again, "Is an umbrella wise?", file) == "sky_outlook"
    assert again.read == ["Is an umbrella wise?"]
    other = Topics("another")
    await best(other, ASKED, file)
    assert len(other.read) == len(TOOLS) + 1
    again.read.clear()
    await best(again, ASKED, file)
    assert again.read == [ASKED]
    assert [each.name for each in file.parent.iterdir()] == ["vectors.bin"]
    assert file.stat().st_mode & 0o077 == 0


async def test_a_cache_file_that_is_damaged_or_cannot_be_written_costs_time_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "vectors.bin"
    damaged.write_bytes(b"half a vec")
    embedder = Topics()
    assert await best(embedder, ASKED, damaged) == "cinema_details"
    assert len(embedder.read) == len(TOOLS) + 1
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    assert await best(Topics(), ASKED, blocked / "vectors.bin") == "cinema_details"
    assert "cannot be kept" in caplog.text


def test_the_cache_file_is_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_file(Topics("all-MiniLM/6:64")) == tmp_path / "clicket" / "tool-vectors-all-MiniLM-6-64.bin"


async def test_a_request_is_encoded_once_however_often_it_is_asked() -> None:
    embedder = Topics()
    texts = TextSimilarity(embedder)
    ToolIndex(TOOLS, texts=texts)
    await texts.prepare()
    for _ in range(3):
        await texts.read(ASKED)
    assert embedder.read.count(ASKED) == 1


class Away(Topics):
    """An embedder whose server does not answer."""

    def embed(self, texts: Sequence[str]) -> Any:
        raise RetryableError("the server gave no answer")


async def test_while_the_embedder_does_not_answer_tools_are_ranked_by_their_words(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_words = ToolIndex(TOOLS).search(ASKED, limit=1)
    assert await best(Away()) == by_words[0]
    assert "ranked by their words: the server gave no answer" in caplog.text
    embedder = Topics()
    texts = TextSimilarity(embedder)
    index = ToolIndex(TOOLS, texts=texts)
    await texts.prepare()
    monkeypatch.setattr(embedder, "embed", Away().embed)
    await texts.read(ASKED)
    assert index.search(ASKED, limit=1) == by_words


@pytest.mark.parametrize(
    ("named", "words"),
    [(None, "tool_ranking = 'embeddings' needs tool_embedder"), ("minilm", "tool_embedder: 'minilm' does not name")],
)
async def test_the_setting_says_what_is_missing(named: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        async with Runtime(store="memory://", tool_ranking="embeddings", tool_embedder=named):
            pass
    with pytest.raises(UsageError, match="'words' or 'embeddings'"):
        Runtime(store="memory://", tool_ranking="magic")  # type: ignore[arg-type]  # what a mistaken caller does


async def test_find_tools_compares_whole_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("clicket.models.embedding.kinds.embedder_of", Topics)

    @tool
    def cinema_details(title: str) -> str:
        """Runtime and plot of a film."""
        return title

    @tool
    def link_shorten(link: str) -> str:
        """How long a link may be."""
        return link

    async with Runtime(
        [cinema_details, link_shorten], store="memory://", tool_ranking="embeddings", tool_embedder="topics"
    ) as rt:
        found = await rt.call("find_tools", {"query": ASKED, "limit": 1})
    assert found.output["found"] == ["cinema_details"]
    assert [each.name for each in (tmp_path / "clicket").iterdir()] == ["tool-vectors-topics.bin"]
