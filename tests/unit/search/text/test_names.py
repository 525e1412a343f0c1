"""Names in texts, and which of them are equal."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.search.text.names import (
    flattened,
    flattened_lines,
    key_lines,
    leading_name,
    name_key,
    names,
    own_names,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Hobbit", "hobbit"),
        ("Inherent Vice (film)", "Inherent Vice"),
        ("Boštjan Hladnik", "bostjan hladnik"),
        ("Mama'S Little Pirate", "Mama’s Little Pirate"),
        ("Nassau- Weilburg", "Nassau-Weilburg"),
        ("《红楼梦》", "红楼梦"),
        ("卡尔·马克思", "卡尔马克思"),
        ("流浪地球（电影）", "流浪地球"),
    ],
)
def test_names_that_mean_the_same_have_one_key(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


def test_different_names_have_different_keys() -> None:
    assert name_key("John Lyon, 4th Lord Glamis") != name_key("John Lyon, 3rd Lord Glamis")
    assert name_key("The The") == "the"
    assert name_key("がく") != name_key("かく")


def test_names_are_found_where_they_stand() -> None:
    text = 'In 1946, Mr. Ace was written by Fred F. Finkelhoffe; the song "Blue moon" is by Mary of Burgundy\'s son.'
    found = names(text)
    assert [name for name, _, _ in found] == ["Mr. Ace", "Fred F. Finkelhoffe", "Blue moon", "Mary of Burgundy"]
    assert all(text[start:end] == name for name, start, end in found)


def test_small_words_and_years_at_the_start_are_no_names() -> None:
    assert [name for name, _, _ in names("He was born 1930 in Turku. It is old. 1984.")] == ["Turku"]


def test_quoted_chinese_names_are_found() -> None:
    assert [name for name, _, _ in names("《红楼梦》的作者是“曹雪芹”。")] == ["红楼梦", "曹雪芹"]


def test_dates_in_chinese_text_are_no_names() -> None:
    text = "顾先生（1941年—2009年），1987年由Penguin出版社出版了《北岸》。"
    assert [name for name, _, _ in names(text)] == ["Penguin", "北岸"]


def test_a_name_ends_with_its_sentence_after_a_number() -> None:
    text = "It is near Place 12. Its mayor is J. R. Smith of St. Louis."
    assert [name for name, _, _ in names(text)] == ["Place 12", "J. R. Smith of St. Louis"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Le salamandre is a 1969 Italian film directed by Alberto Cavallone.", "Le salamandre"),
        ("Enzo Castellari( born 29 July 1938) is an Italian director.", "Enzo Castellari"),
        ('"Love is in the Air" is the 14th episode.', "Love is in the Air"),
        ("曹雪芹是清代小说家。", "曹雪芹"),
        ("北京大学创办于1898年，首任校长是孙家鼐。", "北京大学"),
        ("中华书局出版社成立于上海。", "中华书局出版社"),
        ("自由女神像位于纽约港。", "自由女神像"),
        ("昆仑山脉西起帕米尔高原东部", "昆仑山脉"),
        ("鲁迅原名周树人。", "鲁迅"),
        ("東京タワーは、港区にある。", "東京タワー"),
        ("As of the census of 2000, Pima had 735 people.", "Pima"),
        ("nothing here", ""),
        ("", ""),
    ],
)
def test_a_text_is_about_what_it_begins_with(text: str, name: str) -> None:
    assert leading_name(text) == name


def test_a_document_answers_to_its_aliases() -> None:
    text = "Maria Karolina Leszczynska (1703 – 1768), also known as Marie Leczinska, was a queen."
    assert {"maria karolina leszczynska", "marie leczinska", "maria leszczynska"} <= set(own_names("", text))
    assert own_names("Smyrna, Georgia", "A city.")[:2] == ("smyrna georgia", "smyrna")
    assert "cdp" in own_names("", "A census place (CDP) is a place.")


@pytest.mark.parametrize(
    "text",
    [
        "In 1946, Mr. Ace met \"Blue moon and Co.\" of ``the Coast'' and iOS. Then Mrs. Dee, Rev. Ott-Lee & Sons.",
        "In the Who. It's The A-Team: 1930 in Turku, 3rd of May/June in Łódź – D’Arcy’s “Old Rock”；《红楼梦》1987年由Penguin出版。",
        "It He She In The A 12 of 1999.",
        "",
    ],
)
def test_names_are_found_in_order_at_their_places(text: str) -> None:
    found = names(text)
    assert all(text[start:end] == name for name, start, end in found)
    assert found == sorted(found, key=lambda one: one[1])


def test_texts_in_lines_are_those_one_by_one() -> None:
    texts = [
        "The A Team (film)",
        "Mama's Boy\nBand",
        "An",
        "",
        "O'Neil|X",
        "Łódź",
        "《红楼梦》",
        "the",
        "The The",
        "J. R. É",
    ]
    assert flattened_lines(texts) == f" {' | '.join(map(flattened, texts))} ".replace("|  |", "| |")
    assert [one.strip() for one in key_lines(texts).split("|")] == [name_key(one) for one in texts]


@pytest.mark.parametrize(
    "text", ["\ud800 X", "(" * 5000, "A " * 5000, "It " * 5000, "1 of " * 5000, "’'s 's", "“" * 3000, "Ａ" * 4000]
)
def test_odd_text_does_no_harm(text: str) -> None:
    names(text)
    own_names(text, text)
    assert name_key(text) == name_key(text)
    assert flattened(text) == flattened(flattened(text))


@given(st.text(alphabet="aBéÅßøı –—“”’'s½ñ", max_size=20))
def test_a_name_with_accents_is_flattened_like_one_with_marks(text: str) -> None:
    assert flattened(text) == flattened(normalize("NFD", text))
