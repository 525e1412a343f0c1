"""Known values are found, few or many, and the search in one pass finds the same as a search for each value."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clicket.errors import InvalidInput
from clicket.safety.vault import MASK, hide, hide_text, look
from clicket.safety.vault.hiding import MAX_SECRETS
from clicket.safety.vault.values import Values

_TEXTS = st.text("ab", min_size=4, max_size=9)
_OTHERS = tuple(f"other value {number}" for number in range(20))


def _covered(text: str, values: Values) -> set[int]:
    return {at for start, end in values.places(text) for at in range(start, end)}


@given(known=st.lists(_TEXTS, min_size=1, max_size=8, unique=True), text=st.text("ab ", max_size=60))
@example(known=["bbbb", "bbbba"], text="bbbb")
def test_many_values_are_found_where_few_are(known: list[str], text: str) -> None:
    assert _covered(text, Values((*known, *_OTHERS))) == _covered(text, Values(tuple(known)))


@given(known=st.lists(_TEXTS, min_size=1, max_size=8, unique=True), text=st.text("ab ", max_size=60))
def test_the_beginning_of_a_value_at_the_end_of_a_text_is_found(known: list[str], text: str) -> None:
    begins = [at for at in range(len(text)) if any(one.startswith(text[at:]) and one != text[at:] for one in known)]
    first = min(begins, default=len(text))
    assert Values(tuple(known)).open_from(text, len(text)) == first
    assert Values((*known, *_OTHERS)).open_from(text, len(text)) <= first


@pytest.mark.parametrize("text", ["aaaa" * 30, "aaaa" * 30 + "b", "abab" * 40 + "a"])
def test_values_that_overlap_themselves_are_found(text: str) -> None:
    value = text[: len(text) // 2]
    starts = [at for at in range(len(text)) if text.startswith(value, at)]
    assert {start for start, _ in Values((value,)).places(text)} == set(starts)
    begun = next(at for at in range(1, len(text) + 1) if text.startswith(text[at:]))
    assert Values((text,)).open_from(text[1:], len(text)) == begun - 1


def test_a_text_that_is_hard_for_many_values_is_masked_whole() -> None:
    values = Values(tuple("a" * size for size in range(4, 400)))
    text = "a" * 2_000
    assert list(values.places(text))[-1] == (0, len(text))


def test_more_secrets_than_can_be_searched_for_are_refused() -> None:
    tokens = " ".join(f"sk-{number:020d}A" for number in range(MAX_SECRETS + 1))
    with pytest.raises(InvalidInput, match="more than 5,000 secrets"):
        look({"text": tokens}, None)
    with pytest.raises(InvalidInput, match="more than 5,000 secrets"):
        look({"people": [f"name {number}" for number in range(MAX_SECRETS + 1)]}, None, frozenset({"people"}))
    found = look({"text": tokens}, None, refuse=False)
    assert found is not None
    assert found.arguments["text"].count(MASK) == MAX_SECRETS + 1


def test_a_short_password_of_a_url_is_masked_in_its_place_alone() -> None:
    secrets = look({"url": "redis://:ab@host/0"}, None)
    assert hide({"url": "redis://:ab@host/0", "note": "cab"}, secrets) == {
        "url": f"redis://:{MASK}@host/0",
        "note": "cab",
    }
    assert hide_text("cab", secrets) == "cab"


def test_masked_keys_stay_apart() -> None:
    shown = hide({f"sk-{number:020d}A": number for number in range(50)})
    assert list(shown.values()) == list(range(50))
