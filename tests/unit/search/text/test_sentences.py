"""Where sentences begin and end, and the time for hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import PATIENCE

from clicket.search.text.sentences import MAX_SENTENCE, sentences


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. J. R. Smith Jr. came in 1892. He left.", ["Dr. J. R. Smith Jr. came in 1892.", "He left."]),
        (
            "It was in the U.S. Army. He lived in the U.S. The end.",
            ["It was in the U.S. Army.", "He lived in the U.S.", "The end."],
        ),
        ("Pi is 3.14. See No. 5 of vol. 2, i.e. the last.", ["Pi is 3.14.", "See No. 5 of vol. 2, i.e. the last."]),
        ('She said "Yes." He left.', ['She said "Yes."', "He left."]),
        ("It is so.[1][2] Next.", ["It is so.[1][2]", "Next."]),
        (
            "他出生于北京。后来去了上海！真的吗？「对。」好",
            ["他出生于北京。", "后来去了上海！", "真的吗？", "「对。」", "好"],
        ),
        (
            "# Title\nText here\n\n- one\n- two. Three.\n1. four",
            ["Title", "Text here", "one", "two.", "Three.", "four"],
        ),
        (
            "A line of a text file that was wrapped by its editor at\nsome column goes on. End.",
            ["A line of a text file that was wrapped by its editor at\nsome column goes on.", "End."],
        ),
    ],
)
def test_a_text_is_cut_where_its_sentences_end(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_what_is_too_long_is_cut_at_a_clause() -> None:
    text = "; ".join(["a clause of some length that goes on for a while"] * 20) + "."
    pieces = cut(text)
    assert len(pieces) > 1
    assert all(len(piece) <= MAX_SENTENCE for piece in pieces)
    assert all(piece.endswith(";") for piece in pieces[:-1])


@given(st.text(alphabet=st.characters(), max_size=1500) | st.text(alphabet="aB1. \n#-。！;,\"[]'", max_size=1500))
def test_spans_are_in_order_tight_and_short(text: str) -> None:
    behind = 0
    for start, end in sentences(text):
        assert behind <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert end - start <= MAX_SENTENCE
        behind = end


@pytest.mark.parametrize("unit", [".", " ", "\n ", "a. ", "- ", "1. ", "\n\t\n.", ".[1", '."', "x", "。", "Mr. "])
def test_the_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    began = time.process_time()
    sentences(unit * 100_000)
    assert time.process_time() - began < PATIENCE
