"""How a text is cut into statements, and what each is read with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.search.synthesis.statements import statements
from clicket.search.text.sentences import MAX_SENTENCE

PAGE = """9.9. Quotas

The quota system limits disk space. It needs a kernel that supports it.

Linux has 3 runlevels:

0 (halt the system),
1 (single-user mode),
6 (reboot the system).

To list the rules, run the following command:

nft list ruleset

9.9.1. Can a limit be exceeded?

No. The system refuses any operation that exceeds it.

Level | Numeric value
WARNING | 30
ERROR | 40

Chapter 8. Users | Chapter 10. Networks
"""
WRAPPED = (
    "This text was wrapped by an editor that breaks lines at about\n"
    "seventy characters, so that a sentence goes on in the next\n"
    "line of the text."
)


def found(text: str) -> dict[str, tuple[str, str]]:
    """By the text of each statement: its kind, and what it is read with."""
    return {
        text[one.start : one.end]: (one.kind, text[one.lead[0] : one.lead[1]] if one.lead else "")
        for one in statements(text)
    }


def test_a_list_item_is_read_with_its_lead_and_a_row_with_its_header() -> None:
    read = found(PAGE)
    assert read["6 (reboot the system)."] == ("item", "Linux has 3 runlevels:")
    assert read["WARNING | 30"] == ("row", "Level | Numeric value")
    assert read["The quota system limits disk space."] == ("sentence", "")


def test_a_sentence_with_a_colon_and_what_follows_are_one_statement() -> None:
    read = found(PAGE)
    assert read["To list the rules, run the following command:\n\nnft list ruleset"][0] == "lead"
    assert (
        read["Linux has 3 runlevels:\n\n0 (halt the system),\n1 (single-user mode),\n6 (reboot the system)."][0]
        == "lead"
    )
    assert read["To list the rules, run the following command:"][0] == "open"


def test_a_short_reply_is_read_with_its_reason() -> None:
    assert "No. The system refuses any operation that exceeds it." in found(PAGE)


def test_statements_know_their_heading_and_questions_are_no_statements() -> None:
    by_text = {PAGE[one.start : one.end]: one for one in statements(PAGE)}
    assert {"quota"} <= by_text["The quota system limits disk space."].heading
    assert {"limit", "exceed"} <= by_text["WARNING | 30"].heading
    assert "9.9.1. Can a limit be exceeded?" not in by_text


def test_navigation_and_tables_of_contents_are_left_out() -> None:
    contents = "Guide\n\nTable of Contents\n\n1.1. First\n1.2. Second\n1.3. Third\n\nThe text begins here."
    assert not any("Chapter" in text for text in found(PAGE))
    assert not any("Second" in text or "Contents" in text for text in found(contents))
    assert "The text begins here." in found(contents)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# Title\n\n1. Open the file.\n2. Write to it.\n3. Close it.",
            {"Open the file.", "Write to it.", "Close it."},
        ),
        (
            "first line of a list that is not wrapped at all, because it is short\nsecond\nthird one",
            {"second", "third one"},
        ),
        (WRAPPED, {WRAPPED}),
    ],
)
def test_lines(text: str, expected: set[str]) -> None:
    assert expected <= set(found(text))


@given(st.text(alphabet=st.characters(), max_size=400) | st.text(alphabet="aB. \n|:1#-`?。王=(", max_size=400))
def test_statements_are_spans_of_the_text_whatever_it_is(text: str) -> None:
    for one in statements(text):
        assert 0 <= one.start < one.end <= len(text)
        assert one.end - one.start <= MAX_SENTENCE
        assert text[one.start : one.end].strip()
        assert one.lead is None or 0 <= one.lead[0] < one.lead[1] <= len(text)
