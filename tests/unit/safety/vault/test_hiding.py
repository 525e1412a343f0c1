"""Declared fields and their values, wherever they reappear."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.model import ToolError
from clicket.safety.vault import MASK, Secrets, hide, hide_error, hide_said, hide_text, look

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def secrets_of(arguments: Any, *sensitive: str) -> Secrets:
    found = look(arguments, None, frozenset(sensitive))
    assert found is not None
    return found


def test_names_count_at_any_depth_and_pointers_at_their_place() -> None:
    given = {"password": "p1p1", "a": [{"password": {"x": 1}}], "card": {"number": 4111, "kind": "v"}, "number": 5}
    shown = secrets_of(given, "password", "/card/number").arguments
    assert shown == {"password": MASK, "a": [{"password": MASK}], "card": {"number": MASK, "kind": "v"}, "number": 5}


def test_a_pointer_reads_as_the_standard_says() -> None:
    given = {"a/b": {"c~d": "value"}, "list": ["x", "y"]}
    assert secrets_of(given, "/a~1b/c~0d", "/list/1").arguments == {"a/b": {"c~d": MASK}, "list": ["x", MASK]}


def test_what_was_not_given_is_no_secret() -> None:
    found = secrets_of({"password": None, "x": 1}, "password")
    assert found.arguments == {"password": None, "x": 1}
    assert not found.masked


@pytest.mark.parametrize("value", ['qu"ote\\d', "lines\nof text", "ümlaut ß", "a b/c?d=e&f", " spaced "])
def test_a_value_is_found_in_the_spellings_that_errors_use(value: str) -> None:
    secrets = secrets_of({"password": value}, "password")
    for spelled in (value, value.strip(), repr(value), json.dumps(value), quote(value), quote(value, safe="")):
        assert value.strip() not in hide_text(f"no good: {spelled}!", secrets)
        assert MASK in hide_text(f"no good: {spelled}!", secrets)


def test_numbers_are_values_too() -> None:
    secrets = secrets_of({"pin": 48151623}, "pin")
    assert hide({"a": 48151623, "b": "it is 48151623", "c": 4815}, secrets) == {
        "a": MASK,
        "b": f"it is {MASK}",
        "c": 4815,
    }


def test_short_values_are_hidden_in_their_field_and_nowhere_else() -> None:
    secrets = secrets_of({"password": "abc", "text": "abcdef"}, "password")
    assert secrets.arguments == {"password": MASK, "text": "abcdef"}


def test_a_value_that_is_part_of_another_leaves_no_rest() -> None:
    secrets = secrets_of({"a": {"password": "hunter2hunter"}, "b": {"password": "hunter"}}, "password")
    assert hide_text("it is hunter2hunter and hunter.", secrets) == f"it is {MASK} and {MASK}."


def test_keys_that_are_hidden_stay_apart() -> None:
    secrets = secrets_of({"a": {"password": "value one"}, "b": {"password": "value two"}}, "password")
    assert hide({"value one": 1, "value two": 2, "c": 3}, secrets) == {MASK: 1, f"{MASK} 2": 2, "c": 3}


def test_an_error_is_hidden_in_all_its_parts_and_keeps_our_names() -> None:
    secrets = secrets_of({"path": "hunter2"}, "path")
    error = ToolError(code="x", message="bad hunter2", type="Hunter", details={"path": "at hunter2", "n": 1})
    assert hide_error(error, secrets) == ToolError(
        code="x", message=f"bad {MASK}", type="Hunter", details={"path": f"at {MASK}", "n": 1}
    )
    fine = ToolError(code="x", message="fine", type="T", details={"path": "/a"})
    assert hide_error(fine, secrets) is fine
    assert hide_said({"path": "/a"}, secrets) == {"path": "/a"}


def test_a_text_that_was_cut_in_a_secret_ends_before_it() -> None:
    secrets = secrets_of({"password": "correct horse battery"}, "password")
    assert hide_text("x" * 4_000 + "correct hor", secrets) == "x" * 4_000 + MASK


def test_what_nests_too_deeply_is_hidden_as_a_whole() -> None:
    deep: Any = "sk-ant-api03-" + "aB3" * 10
    for _ in range(5_000):
        deep = [deep]
    assert hide(deep) == MASK


def test_an_ordinary_call_has_no_secrets() -> None:
    assert look({"city": "Amsterdam", "text": "see https://example.com/a_b-c about it"}, {"a": [1]}) is None
    assert look({"text": "an sk-word, an eyJ, and a Bearer of news"}, None) is None


@given(plain, st.text("xyz0189 ", min_size=4, max_size=12))
def test_a_declared_value_is_nowhere_in_what_is_shown(value: Any, password: str) -> None:
    secrets = secrets_of({"password": password}, "password")
    shown = hide({"a": [value, {"b": f"{value}{password}"}], password: value}, secrets)

    def texts(each: Any) -> Any:
        if isinstance(each, dict):
            return [text for pair in each.items() for part in pair for text in texts(part)]
        if isinstance(each, list):
            return [text for part in each for text in texts(part)]
        return [each] if isinstance(each, str) else []

    assert not any(password in text for text in texts(shown))


@given(plain)
def test_without_secrets_nothing_changes(value: Any) -> None:
    assert hide(value) == value
