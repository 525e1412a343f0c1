"""The question in the words of the documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clicket.model.text.terms import terms
from clicket.search import Index, deep_search
from clicket.search.planning.question_reading import read_question
from clicket.search.text.chinese_words import to_chinese, to_english


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    pages = [
        "The permissions of a file are changed with chmod.",
        "Debian packages have permissions.",
        "A Debian project.",
    ] * 3
    with Index.open() as index:
        index.add([{"id": str(number), "text": f"{text} {number}"} for number, text in enumerate(pages)])
        yield index


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Who changes the permisions?", "Who changes the permissions?"),  # a letter left out
        ("Who made Debain?", "Who made Debian?"),  # swapped
        ("Which packges are there?", "Which packages are there?"),
    ],
)
def test_a_word_that_no_document_has_is_read_as_one_that_is_near(index: Index, question: str, meant: str) -> None:
    read = read_question(question, index)
    assert terms(read.text) == terms(meant)
    assert len(read.notes) == 1


@pytest.mark.parametrize(
    "question", ["Who changes the permissions?", "Who won?", "Where is Hamburg?", "Who is Debra?", "what"]
)
def test_other_words_stay(index: Index, question: str) -> None:
    read = read_question(question, index)
    assert (read.text, read.notes) == (question, ())


def test_chinese_is_read_as_english_if_the_documents_are_english(index: Index) -> None:
    assert terms(read_question("如何修改文件的权限？", index).text) == terms("change file permission")
    with Index.open() as chinese:
        chinese.add([{"id": "1", "text": "文件的权限用命令修改。"}])
        assert read_question("如何修改文件的权限？", chinese).text == "如何修改文件的权限？"
        assert "权限" in read_question("How are permissions changed?", chinese).text


async def test_the_search_says_how_it_read_the_question(index: Index) -> None:
    result = await deep_search("How are the permisions of a file changed?", engine=index)
    assert result.answered
    assert "chmod" in result.citations[0].text
    assert any("permisions" in note for note in result.notes)
    assert result.question == "How are the permisions of a file changed?"


def test_without_a_collection_the_question_stays() -> None:
    assert read_question("Who foundet it?", None).text == "Who foundet it?"


def test_of_two_english_words_the_documents_choose() -> None:
    assert to_english("来自哪部电影", {"film"}.__contains__) == "come from which film"
    assert to_english("来自哪部电影", lambda word: False) == "come from which movie film"
    assert to_english("操作系统", lambda word: False) == "operating system"


def test_the_dictionary_goes_both_ways() -> None:
    assert to_english("谁创立了Debian项目？", bool) == "who found Debian project"
    assert "权限" in to_chinese(terms("permissions")[0])
    assert to_chinese("zzz") == ()
