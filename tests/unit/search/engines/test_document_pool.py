"""Which documents are duplicates, and which are not."""

from __future__ import annotations

import pytest
from tests.unit.search.fakes import document

from clicket.model.document import Document
from clicket.search.engines.document_pool import DocumentPool, canonical_url

PAGE = " ".join(f"word{at} of a long page about rivers" for at in range(60))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "http://www.example.org/a/"),
        ("https://example.org:443/a?b=1&a=2", "https://EXAMPLE.org/a?a=2&b=1#top"),
        ("https://example.org/a?utm_source=x&id=7", "https://example.org/a?id=7"),
    ],
)
def test_addresses_of_one_page(one: str, other: str) -> None:
    assert canonical_url(one) == canonical_url(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "https://example.org/b"),
        ("https://example.org/a?id=1", "https://example.org/a?id=2"),
        ("https://example.org:8443/a", "https://example.org/a"),
        ("file:///a", "https:///a"),
    ],
)
def test_addresses_of_two_pages(one: str, other: str) -> None:
    assert canonical_url(one) != canonical_url(other)


@pytest.mark.parametrize("url", ["", "http://[", "http://x:99999/", "no address", "http://\ud800/"])
def test_what_is_no_address_stays(url: str) -> None:
    assert isinstance(canonical_url(url), str)


def test_the_same_address_or_the_same_words_are_one_document() -> None:
    pool = DocumentPool()
    assert pool.add(document("a", "A short one.", url="https://example.org/a", source="one")) == "a"
    assert pool.add(document("b", "A short one, and more of it.", url="http://example.org/a/", source="two")) == "a"
    assert pool.documents["a"].text == "A short one, and more of it.", "the longer text stays"
    assert pool.add(document("c", PAGE)) == "c"
    assert pool.add(document("d", PAGE.replace(" ", "\n"))) == "c"
    assert list(pool.documents) == ["a", "c"]


def test_short_texts_need_the_same_title_as_well() -> None:
    pool = DocumentPool()
    assert pool.add(document("a", "See also.", title="Alps")) == "a"
    assert pool.add(document("b", "See also.", title="Andes")) == "b"
    assert pool.add(document("c", "See  also.", title="ALPS")) == "a"


def test_files_of_ones_own_that_are_only_alike_stay_apart() -> None:
    pool = DocumentPool(near=False)
    assert pool.add(document("a", PAGE)) == "a"
    assert pool.add(document("b", PAGE.replace(" ", "\n"))) == "b"


def test_one_id_of_two_engines_is_two_documents() -> None:
    pool = DocumentPool()
    assert pool.add(document("1", "About rivers.", source="one")) == "1"
    assert pool.add(document("1", "About lakes.", source="two")) == "two:1"
    assert pool.add(document("1", "About lakes.", source="two")) == "two:1"
    assert pool.documents["two:1"].id == "two:1"


def test_spans_are_joined_and_none_means_all() -> None:
    pool = DocumentPool()
    pool.add(document("a", PAGE, spans=((50, 90),)))
    pool.add(document("a", PAGE, spans=((0, 40),)))
    assert pool.documents["a"].spans == ((50, 90), (0, 40))
    pool.add(document("a", PAGE))
    assert pool.documents["a"].spans == ()


def test_a_full_pool_takes_no_more_and_still_has_its_own() -> None:
    pool = DocumentPool(limit=1)
    assert pool.add(document("a")) == "a"
    assert pool.add(document("b")) is None
    assert pool.add(document("a")) == "a"
    assert pool.refused == 1


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("url", ["file:///data/rows.jsonl", "https://example.org/handbook"])
def test_parts_of_one_file_or_page_that_an_engine_separates_stay_separate(url: str, near: bool) -> None:
    pool = DocumentPool(near=near)
    rows = [Document(id=str(n), text=f"Row {n} says {n}.", url=url, source="rows") for n in range(3)]
    assert [pool.add(one) for one in (*rows, *rows)] == ["0", "1", "2"] * 2
    assert list(pool.documents.values()) == rows


def test_in_a_private_collection_an_address_carries_no_weight() -> None:
    pool = DocumentPool(near=False)
    rows = [Document(id=str(n), text=f"Row {n}.", url="https://example.org/a", source=f"file {n}") for n in range(2)]
    assert [pool.add(one) for one in rows] == ["0", "1"]
