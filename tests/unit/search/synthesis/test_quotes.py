"""Quotes are found in a document although they look different, but not with other words."""

from __future__ import annotations

import pytest

from clicket.model.document import Document
from clicket.search.synthesis import find_span

TEXT = (
    "The “Old” Tower — built in 1847 by J. Café — stands\n in  Pisa. It has 1500 steps, the ﬁrst of stone. 它建于北京。"
)
DOCUMENT = Document(id="a", text=TEXT)


@pytest.mark.parametrize(
    ("quote", "original"),
    [
        ("built in 1847", "built in 1847"),
        ('the "old" tower - built in 1847', "The “Old” Tower — built in 1847"),
        ("stands in Pisa", "stands\n in  Pisa"),
        ("…stands in Pisa...", "stands\n in  Pisa"),
        ("by J. Cafe\u0301", "by J. Café"),
        ("the first of stone", "the ﬁrst of stone"),
        ("建于北京", "建于北京"),
        ("it has 1500 steps , the", "It has 1500 steps, the"),
    ],
)
def test_a_quote_that_only_looks_different_is_found_and_the_documents_own_text_is_taken(
    quote: str, original: str
) -> None:
    span = find_span(DOCUMENT, quote)
    assert span is not None
    assert TEXT[slice(*span)] == original


@pytest.mark.parametrize(
    "quote",
    [
        "built in 1848",
        "500",  # in 1500
        "owe",  # in Tower
        "built by J. Café",
        "Tower in Pisa",
        "Tower … Pisa",
        "J. Cafe",
        "",
        "…",
        "“”",
        "x" * 100_000,
    ],
)
def test_a_quote_with_other_words_is_not(quote: str) -> None:
    assert find_span(DOCUMENT, quote) is None
