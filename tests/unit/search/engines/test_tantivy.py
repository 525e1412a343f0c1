"""The tantivy engine: finds in every script, replaces by id, returns what was added, and is deterministic."""

from __future__ import annotations

from pathlib import Path

import pytest

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.search.engines.tantivy import Tantivy

pytest.importorskip("tantivy")

PAGES = [
    {"id": "a", "title": "Ed Wood", "text": "Ed Wood is a film directed by Tim Burton."},
    {"id": "b", "title": "Tim Burton", "text": "He was born in Burbank, California.", "url": "https://example.org/b"},
    {"id": "c", "title": "鲁迅", "text": "鲁迅出生于浙江绍兴，是中国现代文学的奠基人。"},
]


async def ids(engine: Tantivy, query: str, k: int = 10) -> list[str]:
    return [one.id for one in await engine.search(query, k=k)]


async def test_finds_words_in_any_form_and_chinese() -> None:
    with Tantivy() as engine:
        assert engine.add(PAGES) == 3
        assert await ids(engine, "Who directs FILMS?") == ["a"]
        assert await ids(engine, "burton") == ["b", "a"]  # the title has more weight
        assert await ids(engine, "绍兴在哪里") == ["c"]
        assert await ids(engine, "the of and") == []
        assert await ids(engine, 'burton" OR (title:') == ["b", "a"]  # operators in a question are plain text
        (found, *_) = await engine.search("Burbank")
        assert (found.text, found.url, found.source) == (PAGES[1]["text"], PAGES[1]["url"], "tantivy")
        assert found.score > 0


async def test_an_id_is_one_document_and_can_go() -> None:
    with Tantivy() as engine:
        engine.add(PAGES)
        engine.add([Document(id="b", title="Someone else", text="Nothing of that.")])
        assert (engine.count, await ids(engine, "Burbank")) == (3, [])
        engine.remove(["b", "never there"])
        assert (engine.count, await ids(engine, "someone")) == (2, [])


async def test_equal_scores_come_by_id_whatever_the_order_of_adding() -> None:
    pages = [{"id": f"{at:02}", "title": "", "text": "the same words"} for at in range(40)]
    for order in (pages, pages[::-1]):
        with Tantivy() as engine:
            engine.add(order)
            assert await ids(engine, "same words", k=5) == ["00", "01", "02", "03", "04"]


async def test_a_folder_is_there_again_and_a_failed_add_leaves_nothing(tmp_path: Path) -> None:
    with Tantivy(tmp_path / "index") as engine:
        engine.add(PAGES[:2])
        with pytest.raises(UsageError, match="no document"):
            engine.add([PAGES[2], {"title": "without an id"}])
    with Tantivy(tmp_path / "index") as engine:
        assert (engine.count, await ids(engine, "绍兴")) == (2, [])


def test_a_path_that_is_no_index_gets_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot be opened"):
        Tantivy(tmp_path)
