"""Adding, replacing, removing and finding documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.model.document import Document
from clicket.search.index.index import Index
from clicket.search.index.splitter import MAX_PASSAGE, passages
from clicket.search.protocols import Collection

FILMS = [
    {
        "id": "1",
        "title": "Sinister (film)",
        "text": "Sinister is a horror film directed by Scott Derrickson.",
        "url": "u1",
    },
    {"id": "2", "title": "Scott Derrickson", "text": "Scott Derrickson is an American director, born in Denver."},
    {"id": "3", "title": "Denver", "text": "Denver is the capital of Colorado."},
    {"id": "4", "title": "", "text": "Ed Wood was an American filmmaker, known as Eddie.", "source": "wood.txt"},
]


def ids(documents: list[Document]) -> list[str]:
    return [one.id for one in documents]


async def test_search_gives_the_best_documents_whole() -> None:
    with Index.open() as index:
        assert (index.add(FILMS).added, index.count, index.size()) == (4, 4, 4)
        found = await index.search("Which American directed the horror film Sinister?", k=2)
        assert found[0].id == "1"
        assert (found[0].text, found[0].url, found[0].spans) == (FILMS[0]["text"], "u1", ())
        assert found[0].score > found[1].score > 0
        assert await index.search("zebra") == []
        assert await index.search("") == []
        assert await index.search("Denver", k=0) == []


def test_it_is_a_collection() -> None:
    with Index.open() as index:
        index.add(FILMS)
        assert isinstance(index, Collection)
        assert list(index.frequencies(["american", "denver", "zebra", "\ud800"])) == [2, 2, 0, 0]
        named = index.named(["scott derrickson", "ed wood", "eddie", "sinister", "nobody"])
        assert [list(one) for one in named] == [["2"], ["4"], ["4"], ["1"], []]
        assert [one.id for one in index.fetch(["3", "none", "1"])] == ["3", "1"]
        assert index.fetch(["4"])[0].source == "wood.txt"
        assert index.similarities("anything", ["1"]) is None
        index.remove(["2"])
        assert [list(one) for one in index.named(["scott derrickson"])] == [[]]
        assert list(index.frequencies(["american", "denver"])) == [1, 1]


def test_a_name_of_small_words_is_found() -> None:
    with Index.open() as index:
        index.add([*FILMS, {"id": "who", "title": "The Who", "text": "The Who are an English rock band."}])
        assert ids(index.find("The Who?")) == ["who"]


def test_same_id_replaces_and_same_content_is_skipped() -> None:
    with Index.open() as index:
        index.add(FILMS)
        counts = index.add(
            [FILMS[0], {"id": "2", "title": "Aardvark", "text": "An animal."}, {"id": 5, "text": "Five."}]
        )
        assert (counts.added, counts.changed, counts.unchanged) == (1, 1, 1)
        assert ids(index.find("aardvark")) == ["2"]
        assert "2" not in ids(index.find("Scott Derrickson"))
        assert ids(index.find("five")) == ["5"]
        assert index.remove(["2", "2", "none"]) == 1
        assert index.find("aardvark") == []
        assert index.count == 4


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("text", "row 2"),
        ({"text": "no id"}, "row 2"),
        ({"id": "", "text": "x"}, "row 2"),
        ({"id": "x"}, "'text'"),
        ({"id": "x", "text": 5}, "'text' is int"),
        ({"id": "x", "text": "x", "title": []}, "'title' is list"),
        ({"id": "x", "text": "x", "headings": ["h"]}, "'headings'"),
        (Document(id="", text="x"), "row 2"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_lost(row: object, complaint: str) -> None:
    with Index.open() as index:
        index.add(FILMS)
        with pytest.raises(UsageError) as refused:
            index.add([{"id": "1", "text": "replaced"}, row])
        assert complaint in str(refused.value)
        assert (index.count, ids(index.find("replaced")), ids(index.find("sinister"))) == (4, [], ["1"])


def test_an_error_of_the_rows_leaves_the_old_state() -> None:
    def rows() -> Iterator[object]:
        yield {"id": "1", "text": "replaced"}
        yield {"id": "9", "text": "new"}
        raise RuntimeError("the disk is gone")

    with Index.open() as index:
        index.add(FILMS)
        with pytest.raises(RuntimeError, match="the disk is gone"):
            index.add(rows())
        assert index.count == 4
        assert index.find("replaced new") == []
        assert ids(index.find("sinister")) == ["1"]
        index.add([{"id": "9", "text": "new"}])  # and the index still works
        assert ids(index.find("new")) == ["9"]


@pytest.mark.parametrize("text", ["", "\0", "a\0b zebra", "\ud800 zebra \udfff", "\n\n", "😀 zebra"])
def test_odd_texts_come_back_as_they_were(text: str) -> None:
    with Index.open() as index:
        index.add([{"id": f"odd \ud800 {text}", "title": text, "text": text, "url": text}])
        (one,) = index.fetch([f"odd \ud800 {text}"])
        assert (one.title, one.text, one.url) == (text, text, text)
        assert [found.text for found in index.find("zebra")] == [text] * ("zebra" in text)


def test_equal_scores_come_by_id_whatever_the_order_of_adding() -> None:
    rows = [{"id": f"{number:03}", "text": "the same text"} for number in range(50)]
    for given in (rows, rows[::-1], rows[25:] + rows[:25]):
        with Index.open() as index:
            index.add(given)
            assert ids(index.find("same text", k=7)) == [f"{number:03}" for number in range(7)]


def test_chinese_is_found_by_pairs_and_by_one_character() -> None:
    with Index.open() as index:
        index.add(
            [
                {"id": "鲁迅", "title": "鲁迅", "text": "鲁迅，原名周树人，浙江绍兴人，著有《狂人日记》。"},
                {"id": "绍兴", "title": "绍兴市", "text": "绍兴市位于浙江省东北部，古称会稽。"},
                {"id": "py", "title": "Python", "text": "Python 是吉多·范罗苏姆创造的编程语言。"},
                {"id": "other", "title": "Paris", "text": "Paris is the capital of France."},
            ]
        )
        assert ids(index.find("《狂人日记》的作者是谁？"))[0] == "鲁迅"
        assert ids(index.find("绍兴古称是什么"))[0] == "绍兴"
        assert ids(index.find("谁创造了Python编程语言"))[0] == "py"
        assert ids(index.find("稽")) == ["绍兴"]
        assert [list(one) for one in index.named(["鲁迅"])] == [["鲁迅"]]


def test_long_texts_are_found_by_their_parts() -> None:
    filler = "Nothing of interest is said in this sentence, and it goes on for a while. " * 60
    text = f"{filler}\n\nThe zebra lives here.\n\n{filler}\n\nAn okapi lives there.\n\n{filler}"
    with Index.open() as index:
        index.add([{"id": "long", "text": text, "headings": [(0, "Zoo"), (len(filler), "Install > Linux")]}, *FILMS])
        (zebra,) = index.find("zebra")
        (okapi,) = index.find("okapi")
        assert zebra.text == okapi.text == text
        (start, stop), *_ = zebra.spans
        assert "zebra" in text[start:stop]
        assert stop - start <= MAX_PASSAGE
        assert zebra.spans != okapi.spans
        assert ids(index.find("linux")) == ["long"]
        both = index.find("zebra okapi", k=1)[0]
        assert {both.spans[0], both.spans[1]} == {zebra.spans[0], okapi.spans[0]}


def test_one_long_document_does_not_hide_the_others() -> None:
    long = "\n\n".join("The zebra is a zebra, and every zebra knows the zebra. " * 45 for _ in range(30))
    with Index.open() as index:
        index.add(
            [{"id": "long", "text": long}, {"id": "short", "text": "Among many other animals there was one zebra."}]
        )
        assert set(ids(index.find("zebra", k=2))) == {"long", "short"}


@pytest.mark.parametrize(
    "text", ["", "short", "x" * 10_000, "一" * 9_000, "A sentence. " * 900, "para\n\n" * 2_000, "线。" * 3_000]
)
def test_passages_are_the_whole_text(text: str) -> None:
    spans = passages(text)
    assert "".join(text[start:stop] for start, stop in spans) == text
    assert all(stop - start <= MAX_PASSAGE for start, stop in spans)
    assert len(spans) == 1 or all(start < stop for start, stop in spans)


def test_passages_end_with_paragraphs_then_sentences() -> None:
    paragraphs = ("Word " * 250).strip() + ".\n\n"
    for start, stop in passages(paragraphs * 8):
        assert (paragraphs * 8)[start:stop].endswith(".\n\n")
    for start, stop in passages("One sentence is here. " * 500):
        assert ("One sentence is here. " * 500)[start:stop].endswith(". ")


def test_what_is_kept_in_memory_follows_every_change() -> None:
    with Index.open() as index:
        for turn in range(20):
            index.add([{"id": str(turn % 3), "text": f"common word{turn}"}])
            assert ids(index.find(f"word{turn}")) == [str(turn % 3)]
            assert len(index.find("common")) == min(turn + 1, 3)


def test_keys_are_used_again(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db") as index:
        for turn in range(10):
            index.add({"id": str(one), "text": f"text {turn} {one}"} for one in range(5))
            index.remove(["3"])
        index.add([{"id": "a", "text": "x " * 8_000}])
    with closing(apsw.Connection(str(tmp_path / "index.db"))) as connection:
        assert connection.execute("SELECT max(key) <= count(*) + 5 FROM passages").get
        assert connection.execute("SELECT passages = (SELECT count(*) FROM passages) FROM totals").get
        assert connection.execute("SELECT length = (SELECT sum(length) FROM passages) FROM totals").get


def test_files_that_are_no_index_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at " * 50)
    (tmp_path / "cut").write_bytes(b"SQLite format 3\0" + b"\1" * 900)
    with closing(apsw.Connection(str(tmp_path / "other"))) as other:
        other.execute("CREATE TABLE mine (x)")
    with Index.open(tmp_path / "newer"):
        pass
    with closing(apsw.Connection(str(tmp_path / "newer"))) as newer:
        newer.pragma("user_version", 999)
    for name, complaint in (("text", "not a"), ("cut", "not a"), ("other", "no index"), ("newer", "newer clicket")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(UsageError, match=complaint):
            Index.open(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(UsageError, match="folder"):
        Index.open(tmp_path / "none" / "index.db")


def test_damage_is_reported_as_such(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with Index.open(path) as index:
        index.add({"id": str(one), "text": f"word{one} and much more " * 40} for one in range(300))
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(ClicketError, match="index again"), Index.open(path) as index:
        index.find("word7")
        index.fetch(["7"])


def test_a_closed_index_says_so() -> None:
    index = Index.open()
    index.close()
    index.close()
    with pytest.raises(UsageError, match="closed"):
        index.find("x")
    with pytest.raises(UsageError, match="closed"):
        index.add(FILMS)


def test_rows_made_from_the_index_itself() -> None:
    with Index.open() as index:
        index.add(FILMS)
        with pytest.raises(UsageError, match="Make a list"):
            index.add({"id": "x", "text": one.text} for one in iter(lambda: index.find("film")[0], None))
        with pytest.raises(UsageError, match="Make a list"):
            index.add([index.add(FILMS)] for _ in range(1))
        assert index.count == 4
        assert ids(index.find("sinister")) == ["1"]


def test_a_whole_text_can_be_the_query() -> None:
    texts = [" ".join(f"word{step} own{one}x{step % 9}" for step in range(300)) for one in range(20)]
    with Index.open() as index:
        index.add({"id": str(one), "text": text} for one, text in enumerate(texts))
        assert ids(index.find(texts[13], k=1)) == ["13"]
        assert len(index.find("word1 " * 100_000, k=3)) == 3


def test_remove_takes_a_list() -> None:
    with Index.open() as index, pytest.raises(UsageError, match=r"remove\(\['abc'\]\)"):
        index.remove("abc")


def test_a_busy_file_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.search.index.schema._BUSY", 0.001)
    path = tmp_path / "index.db"
    with Index.open(path) as index, closing(apsw.Connection(str(path))) as other:
        index.add(FILMS)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="try again"):
            index.add([{"id": "9", "text": "nine"}])
        assert ids(index.find("sinister")) == ["1"]  # reads still work


def test_what_was_there_before_does_not_show() -> None:
    """The same documents give the same answers, whatever the history of the index."""
    long = "\n\n".join("The zebra is a zebra, and every zebra knows the zebra. " * 45 for _ in range(9))
    rows = [*FILMS, {"id": "long", "text": long}, {"id": "okapi", "text": "The okapi is not a zebra."}]
    with Index.open() as fresh, Index.open() as worn:
        fresh.add(rows)
        worn.add({"id": str(one), "text": f"zebra {one} " * 900} for one in range(7, 0, -1))
        worn.remove(["6", "5", "7"])
        worn.add(rows[::-1])
        worn.add([{"id": "long", "text": "changed"}, {"id": "other", "text": long}])
        worn.remove(["other"])
        worn.add(rows[4:])
        for query in ("zebra", "okapi zebra", "American film", "knows"):
            assert worn.find(query) == fresh.find(query)


def test_a_passage_ends_with_its_section_and_short_sections_stay_together() -> None:
    first, second, third = "One. " * 300, "Two. " * 20, "Three. " * 300
    text = first + second + third
    cut = passages(text, [0, len(first), len(first) + len(second)])
    assert [text[start:stop] for start, stop in cut] == [first, second + third]
    assert passages("", []) == [(0, 0)]
    long = "Long. " * 1_000
    assert "".join(long[start:stop] for start, stop in passages(long, [10, 2_000])) == long


async def test_identifiers_are_found_as_a_whole() -> None:
    with Index.open() as index:
        index.add(
            [
                {
                    "id": "right",
                    "text": "The function json.loads reads a text. " + "It is a long page about many things. " * 9,
                },
                {"id": "wrong", "text": "A json file. It loads. Json loads json."},
            ]
        )
        assert [one.id for one in await index.search("json.loads")] == ["right", "wrong"]
        index.remove(["right"])
        assert [one.id for one in await index.search("json.loads")] == ["wrong"]
