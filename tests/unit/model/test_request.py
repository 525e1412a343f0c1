"""Options beside the arguments: a mistake there is a mistake in the program, and raises at once."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import ToolCall, tool
from clicket.errors import ClicketError, UsageError
from clicket.model.request import checked


@tool
def add(a: int) -> int:
    return a


@pytest.mark.parametrize(
    "options",
    [
        {"id": "x" * 512},
        {"id": "call_é/../ 1"},
        {"thread": "t", "timeout": 1, "deadline": 0.001, "priority": -3},
        {"request_id": "r", "metadata": {"a": [1, {"b": None}]}},
        {"metadata": {}},
    ],
)
def test_taken_as_it_is(options: dict[str, Any]) -> None:
    request = checked(ToolCall("add", {"a": 1}, **options))
    for name, value in options.items():
        assert getattr(request, name) == value


@pytest.mark.parametrize(
    "options",
    [
        {"id": ""}, {"id": "x" * 513}, {"id": "a\x00b"}, {"id": "\ud800"}, {"id": 7}, {"thread": ""}, {"thread": None},
        {"thread": "\udfff"}, {"request_id": ""}, {"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")},
        {"timeout": float("inf")}, {"timeout": "5"}, {"timeout": True}, {"deadline": 0}, {"deadline": float("nan")},
        {"priority": 1.5}, {"priority": None}, {"priority": True}, {"metadata": [1]}, {"metadata": "x"},
    ],
    ids=str,
)  # fmt: skip  # one list of mistakes
def test_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        checked(ToolCall("add", {"a": 1}, **options))
    assert next(iter(options)) in refused.value.message, "the message names the option"


@pytest.mark.parametrize(
    "metadata",
    [{"a": object()}, {"a": float("nan")}, {"a": b"x"}, {"a": "\ud800"}],
    ids=lambda v: type(next(iter(v.values()))).__name__,
)
def test_metadata_is_json(metadata: dict[str, Any]) -> None:
    with pytest.raises(ClicketError):
        checked(ToolCall("add", {}, metadata=metadata))


def test_metadata_is_a_copy() -> None:
    given = {"a": [1]}
    request = checked(ToolCall("add", {}, metadata=given))
    given["a"].append(2)
    assert request.metadata == {"a": [1]}


@pytest.mark.parametrize(
    ("given", "name"),
    [(add, "add"), ("add", "add"), ("no\x00such\ud800", "no\\x00such\\ud800"), (7, "7"), ("x" * 600, "x" * 512)],
)
def test_a_tools_name_is_made_printable(given: Any, name: str) -> None:
    """A call of an unknown tool is refused and recorded like every other: any name must be storable."""
    assert checked(ToolCall(given, {})).tool == name
