"""Schemas that are recursive, remote, explosive, or disagree with the function: no fetch, no hang, no wrong value in a body."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import label, make

from clicket import NativeTool, Runtime, State, ToolResult, tool
from clicket.errors import UsageError

ran: list[Any] = []


@tool
async def take() -> str:
    return "ran"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def refuse(rt: Runtime, arguments: Any, name: str) -> ToolResult:
    """The call must be refused, its tool must not run, and the next call must work."""
    result = await rt.call(name, arguments)
    assert result.state is State.FAILED, ran
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert not ran
    assert (await rt.call("take")).output == "ran"
    return result


def paths(result: ToolResult) -> set[str]:
    assert result.error is not None
    return {problem["path"] for problem in result.error.details["problems"]}


class Raw(NativeTool, name="raw"):
    def run(self, arguments: dict[str, Any], ctx: Any) -> str:
        ran.append(arguments)
        return "ran"


def raw(schema: Any) -> Any:
    return type("Raw", (Raw,), {"input_schema": schema}, name="raw")


RECURSIVE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}},
    "required": ["tree"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


async def test_a_recursive_schema_works(store: str) -> None:
    good: Any = {"v": 1}
    for _ in range(40):
        good = {"v": 1, "next": good}
    bad: Any = {"v": "x"}
    for _ in range(3):
        bad = {"v": 1, "next": bad}
    async with make([raw(RECURSIVE), take], store) as rt:
        assert (await rt.call("raw", {"tree": good})).success
        ran.clear()
        result = await refuse(rt, {"tree": bad}, "raw")
    assert paths(result) == {"/tree/next/next/next/v"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"$ref": "https://example.invalid/x"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "properties": {"a": {"$dynamicRef": "http://127.0.0.1:9/s#meta"}}},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "minProperties": -1},
        "not a schema",
        [1],
    ],
    ids=label,
)
def test_a_schema_that_cannot_be_used_is_refused_where_it_is_registered(schema: Any) -> None:
    started = time.monotonic()
    with pytest.raises(UsageError, match="raw"):
        make([raw(schema)])
    assert time.monotonic() - started < PATIENCE  # nothing was fetched


async def test_an_endlessly_recursive_schema_does_not_affect_other_tools(store: str) -> None:
    endless = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    try:
        rt = make([raw(endless), take], store)
    except UsageError:
        return
    async with rt:
        await asyncio.wait_for(rt.call("raw", {"a": 1}), PATIENCE)
        assert (await rt.call("take")).success


async def test_a_pattern_that_explodes_is_bounded_in_time(store: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    async with make([raw(schema), take], store) as rt:
        started = time.monotonic()
        result = await rt.call("raw", {"a": "a" * 5_000 + "!"})
        assert time.monotonic() - started < PATIENCE  # exponential time would take for ever
        assert result.error is not None
        assert result.error.code == "invalid_input"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        {"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}]},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}]},
        {"$ref": "#/$defs/in", "$defs": {"in": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
    ],
    ids=["plain", "allOf", "anyOf", "ref"],
)
async def test_unknown_fields_are_refused_whatever_the_schema_is_made_of(store: str, schema: Any) -> None:
    async with make([raw(schema), take], store) as rt:
        assert (await rt.call("raw", {"a": 1})).success
        ran.clear()
        await refuse(rt, {"a": 1, "unknown": 2}, "raw")
        await refuse(rt, {"a": "x"}, "raw")


async def test_a_schema_that_allows_more_is_obeyed(store: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    async with make([raw(schema), take], store) as rt:
        assert (await rt.call("raw", {"a": 1, "more": "text"})).success
        ran.clear()
        await refuse(rt, {"a": 1, "more": 2}, "raw")


async def test_whole_object_rules_count(store: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "minProperties": 1,
        "dependentRequired": {"b": ["a"]},
    }
    async with make([raw(schema), take], store) as rt:
        assert (await rt.call("raw", {"a": 1})).success
        ran.clear()
        for bad in ({}, {"a": 1, "b": 1}, {"b": 1}):
            await refuse(rt, bad, "raw")


async def test_a_schema_that_lies_about_the_function_is_caught_before_the_body(store: str) -> None:
    """The schema accepts, the type does not: the call is refused, not run with a wrong value."""

    class Liar:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            from pydantic_core import core_schema

            return core_schema.no_info_plain_validator_function(cls.check)

        @classmethod
        def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
            return {"type": "string"}

        @classmethod
        def check(cls, value: Any) -> Any:
            raise ValueError("never good enough")

    class Broken(Liar):
        @classmethod
        def check(cls, value: Any) -> Any:
            raise RuntimeError("broken check")

    @tool
    async def lies(x: Liar) -> str:
        ran.append(x)
        return "ran"

    @tool
    async def broken(x: Broken) -> str:
        ran.append(x)
        return "ran"

    async with make([lies, broken, take], store) as rt:
        result = await refuse(rt, {"x": "text"}, "lies")
        assert result.error is not None
        assert "never good enough" in result.error.message
        result = await refuse(rt, {"x": "text"}, "broken")
        assert result.error is not None
        assert "broken check" in result.error.message
