"""Problems of arguments are listed up to a limit, and found in big arguments without reading all of them."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import Runtime, tool
from clicket.errors import MAX_PROBLEMS, InvalidInput, did_you_mean
from clicket.model.arguments import parse_arguments
from clicket.tools.check import compile_schema

TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def problems(schema: dict[str, Any], arguments: Any) -> list[dict[str, str]]:
    return compile_schema({"type": "object", "properties": {"a": schema}}, "a tool")(arguments)


def test_no_more_problems_are_listed_than_can_be_read() -> None:
    found = problems(TEXTS, {f"b{number}": 1 for number in range(5_000)})
    assert len(found) == MAX_PROBLEMS + 1
    error = InvalidInput(found)
    assert error.problems[-1]["message"] == "there are more problems; these are the first 100"
    assert len(error.problems) == MAX_PROBLEMS + 1
    assert len(InvalidInput(found[:MAX_PROBLEMS]).problems) == MAX_PROBLEMS


@pytest.mark.parametrize("schema", [TEXTS, {"anyOf": [TEXTS, {"type": "null"}]}], ids=["a list", "a list or nothing"])
def test_a_wrong_item_of_many_is_named(schema: dict[str, Any]) -> None:
    first, *_ = problems(schema, {"a": ["x", 7, *["x"] * 100_000]})
    assert (first["path"], "not of type" in first["message"]) == ("/a/1", True)


def test_a_wrong_item_far_behind_is_refused_though_not_named() -> None:
    (found,) = problems(TEXTS, {"a": [*map(str, range(100_000)), 7]})
    assert found["path"] == ""
    assert "too many values to say which one" in found["message"]


def test_what_was_cut_to_be_looked_at_is_no_problem() -> None:
    wanted = {**TEXTS, "minItems": 50_000}
    assert problems(wanted, {"a": ["x"] * 60_000}) == []
    (found,) = problems(wanted, {"a": [7, *["x"] * 60_000]})
    assert found["path"] == "/a/0"
    (short,) = problems(wanted, {"a": ["x"]})
    assert "items" in short["message"]


async def test_the_error_for_big_arguments_of_wrong_types_is_short() -> None:
    @tool
    def take(a: list[str] | None) -> str:
        return "never"

    async with Runtime([take], store="memory://") as rt:
        result = await rt.call("take", {"a": [1] * 200_000})
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert len(result.error.message) < 20_000


def test_paths_and_names_of_any_length_are_cut() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_arguments({"k" * 10_000: [float("nan")] * 500}, max_size=1024 * 1024)
    assert len(refused.value.problems) == MAX_PROBLEMS + 1
    assert max(len(each["path"]) for each in refused.value.problems) < 600
    assert did_you_mean("x" * 5_000, ["x" * 4_999]) == ""


def test_a_key_that_is_written_often_is_named_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_arguments('{"a": {"b": 1, "b": 2, "b": 3}, "c": [{"d": 1, "d": 1}]}', max_size=1024)
    assert [each["path"] for each in refused.value.problems] == ["/a/b", "/c/0/d"]


@pytest.mark.parametrize("text", ['{"a":"' + "[" * 200, '{"a":"' + '\\"' * 200 + "[" * 200, '{"a":"\\'])
def test_a_string_without_an_end_is_said_to_have_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="not valid JSON: Unterminated string"):
        parse_arguments(text, max_size=1024)
