"""Which names a text mentions."""

from __future__ import annotations

import pytest

from clicket.search.synthesis.source_documents import mentions


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("He met Ed Wood.", "ed wood", True),
        ("Ed Wood's film", "ed wood", True),
        ("He played Romeo & Juliet.", "romeo juliet", True),
        ("Tromeo and Juliet, not Romeo and Juliet", "romeo and juliet", True),
        ("Tromeo and Juliet", "romeo and juliet", False),
        ("Edwood", "ed", False),
        ("Woodward", "wood", False),
        ("He went to Malmö – or Lund.", "malmo", True),
        ("北京大学在北京。", "北京", True),
        ("", "ed wood", False),
    ],
)
def test_a_name_is_mentioned_as_a_whole(text: str, name: str, expected: bool) -> None:
    assert mentions(text, name) is expected
