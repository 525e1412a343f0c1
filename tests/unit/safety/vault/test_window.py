"""However a text is cut into pieces: no part of a secret leaks, and no other text is lost or moved."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.safety.vault.test_shapes import TOKENS

from clicket.safety.vault import MASK, Window, look

PASSWORD = "hunter2 hunter2!"
SECRETS = look({"password": PASSWORD}, None, frozenset({"password"}))

words = st.sampled_from(["sk", "-", "s", "h", "hunter2", " and ", "://", "u:", "@", "eyJ", ".", "AK", "Bea", "rer "])
parts = st.lists(st.one_of(words, st.sampled_from([*TOKENS.values(), PASSWORD, " ", "\n"])), max_size=12)


def through(text: str, cuts: list[int]) -> list[str]:
    window = Window(SECRETS)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [window.push(text[a:b]) for a, b in pairwise(places)] + [window.flush()]


@given(parts, st.lists(st.integers(0, 800), max_size=20))
@example(["x ", TOKENS["Anthropic"], " y"], list(range(800)))
@example(["x ", PASSWORD, " y", PASSWORD], list(range(100)))
@example(["https://u:", PASSWORD[:7], "@h"], list(range(100)))
def test_no_cut_lets_a_secret_out(given_parts: list[str], cuts: list[int]) -> None:
    text = "".join(given_parts)
    shown = "".join(through(text, cuts))
    assert PASSWORD not in shown
    for part in given_parts:
        if part in TOKENS.values() and f" {part} " in f" {text} ":
            assert part not in shown
            assert part[8:24] not in shown


@given(st.text(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_an_ordinary_text_comes_out_as_it_went_in(text: str, cuts: list[int]) -> None:
    window = Window()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [window.push(text[a:b]) for a, b in pairwise(places)]
    if MASK not in "".join(pieces):
        assert "".join(pieces) + window.flush() == text


def test_ordinary_pieces_are_not_held_back() -> None:
    window = Window()
    for piece in ("partial output", "lines", "a", "task", "x - y", "snake_", "https://example.com"):
        assert window.push(piece) == piece


def test_what_looks_like_a_secret_for_ever_is_let_go_hidden() -> None:
    window = Window()
    assert window.push("sk-" + "a1B" * 4_000) == ""
    assert window.push("a1B" * 4_000) == MASK
