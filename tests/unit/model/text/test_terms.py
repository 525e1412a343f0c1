"""Spellings of the same word have the same term, in every script."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.model.text.terms import fold, identifiers, singles, stem, terms, terms_of_spans


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("films directed", "film directs"),
        ("Café MÜLLER", "cafe muller"),
        ("ﬁne Ｗide", "fine wide"),
        ("Straße", "STRASSE"),
        ("Łódź, Ørsted", "lodz orsted"),
        ("e\u0301clair", "éclair"),
        ("Ёлка", "елка"),
        ("شَمْس", "شمس"),
    ],
)
def test_what_reads_the_same_is_the_same(one: str, other: str) -> None:
    assert terms(one) == terms(other) != []


@given(st.text(alphabet=st.characters(max_codepoint=0x24F), max_size=20))
def test_letters_with_accents_and_with_marks_are_folded_alike(text: str) -> None:
    assert fold(text) == fold(normalize("NFD", text))


def test_small_words_are_dropped_and_others_stay_in_order() -> None:
    assert terms("Who is the director of the film The Thing, and who is Ed Wood?") == [
        "director",
        "film",
        "thing",
        "ed",
        "wood",
    ]


def test_text_without_spaces_becomes_pairs() -> None:
    assert terms("北京大学 Python编程") == ["北京", "京大", "大学", "python", "编程"]
    assert terms("京") == ["京"]
    assert terms("서울특별시") == ["서울", "울특", "특별", "별시"]
    assert terms("東京タワー") == terms("東京ﾀﾜｰ")
    assert singles("北京 abc 京") == ["北", "京"]


def test_question_words_of_chinese_are_dropped() -> None:
    assert not {"什么", "哪里", "多少"} & set(terms("这部电影的导演出生在什么地方？在哪里？有多少人？"))


def test_vowel_signs_stay_in_their_words() -> None:
    assert terms("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


def test_very_long_words_are_cut() -> None:
    assert max(map(len, terms("x" * 5_000 + " 北" + "é" * 5_000))) <= 100


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_has_terms_that_can_be_kept(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    for term in found:
        term.encode()  # no lone surrogate is a term
        assert term.split() == [term]


def test_english_words_are_stemmed_and_others_are_not() -> None:
    assert terms("running 北京") == [stem("running"), stem("北京")] == ["run", "北京"]


@given(st.text(alphabet="Running, résumé – 北京. 1.5 \n", max_size=60), st.data())
def test_terms_of_spans_are_the_terms_of_the_parts(text: str, data: st.DataObject) -> None:
    places = st.integers(0, len(text))
    spans = [tuple(sorted((data.draw(places), data.draw(places)))) for _ in range(3)]
    assert terms_of_spans(text, spans) == [terms(text[start:end]) for start, end in spans]


@given(st.lists(st.sampled_from(["The running", "of", "résumé –", "x" * 101, "Straße 5"]), max_size=6))
def test_terms_of_spans_are_the_same_if_those_of_the_text_are_known(parts: list[str]) -> None:
    text, ends = ". ".join(parts), [len(". ".join(parts[: number + 1])) for number in range(len(parts))]
    spans = [(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
    found = terms_of_spans(text, spans, tuple(terms(text)))
    assert [list(one) for one in found] == [terms(part) for part in parts]


def test_identifiers_are_tokens_of_their_own() -> None:
    assert identifiers("No full stop. Nothing here, and/") == []
    assert identifiers("json.loads()") == identifiers("JSON.loads") != identifiers("json/loads")
    assert set(identifiers("lru_cache")) < set(identifiers("functools.lru_cache"))
    assert identifiers("/etc/cron.daily/") == identifiers("see /etc/cron.daily.")
    assert identifiers("3.1") != identifiers("3.11")
