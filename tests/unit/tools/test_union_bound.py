"""A union that holds itself: a wrong argument is named in a line, and pydantic is not asked where its work would multiply."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from clicket import Runtime, tool
from clicket.errors import InvalidInput
from clicket.tools import NativeTool, as_tool
from clicket.tools.union_bound import UnionBound


class And(BaseModel):
    op: Literal["and"]
    args: list[Expression]


class Or(BaseModel):
    op: Literal["or"]
    args: list[Expression]


class Not(BaseModel):
    op: Literal["not"]
    args: list[Expression]


class Leaf(BaseModel):
    op: Literal["leaf"]
    name: str


Expression = And | Or | Not | Leaf


class Both(BaseModel):
    op: Literal["both"]
    args: list[Tagged]


Tagged = Annotated[Both | Leaf, Field(discriminator="op")]
for _model in (And, Or, Not, Both):
    _model.model_rebuild()


@tool
def match(expression: Expression) -> str:
    """Find what matches."""
    return type(expression).__name__


@tool
def match_tagged(expression: Tagged) -> str:
    """Find what matches."""
    return type(expression).__name__


def nested(levels: int, leaf: Any, ops: tuple[str, ...] = ("and", "or", "not")) -> dict[str, Any]:
    value = leaf
    for level in range(levels):
        value = {"op": ops[level % len(ops)], "args": [value]}
    return {"expression": value}


GOOD, BAD = {"op": "leaf", "name": "x"}, {"op": "leaf", "name": 1}


async def test_a_small_wrong_argument_is_refused_in_one_line() -> None:
    arguments = nested(9, BAD)
    assert len(json.dumps(arguments)) < 307
    async with Runtime([match], store="memory://") as rt:
        result = await rt.call("match", arguments)
    assert result.error is not None
    assert result.error.code == "invalid_input"
    path = "/expression" + "/args/0" * 9 + "/name"
    assert f'{path}: 1 is not of type "string"' in result.error.message
    assert len(result.error.message) < 300


async def test_ordinary_levels_are_taken_and_more_are_refused_with_the_way_out() -> None:
    async with Runtime([match, match_tagged], store="memory://") as rt:
        assert (await rt.call("match", nested(7, GOOD))).output == "And"
        refused = await rt.call("match", nested(30, GOOD))
        assert refused.error is not None
        assert refused.error.code == "invalid_input"
        assert "nested too deeply for a union that holds itself" in refused.error.message
        assert "discriminator" in refused.error.message
        assert (await rt.call("match_tagged", nested(30, GOOD, ("both",)))).output == "Both"


def test_visits_are_counted_and_not_made() -> None:
    plain, tagged = UnionBound(match.input_schema), UnionBound(match_tagged.input_schema)
    counts = [plain.visits(nested(levels, GOOD)) for levels in (2, 3, 4, 5)]
    assert all(3 * few < more + 20 for few, more in pairwise(counts)), "each level has three times as many"
    assert plain.visits(nested(40, GOOD)) == plain.visits(nested(45, GOOD)), "no more are counted than are allowed"
    assert tagged.visits(nested(40, GOOD, ("both",))) < 300


def test_a_tool_with_sessions_has_the_same_bound() -> None:
    class Matcher(NativeTool):
        """Find what matches."""

        class Arguments(BaseModel):
            expression: Expression

        def run(self, expression: Any) -> str:
            return "found"

    made = as_tool(Matcher)
    made.bind(nested(3, GOOD))
    with pytest.raises(InvalidInput, match="nested too deeply"):
        made.bind(nested(30, GOOD))
