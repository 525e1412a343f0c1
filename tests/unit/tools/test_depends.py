"""Dependencies are declared in three forms, and never form a cycle."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket import Runtime, tool
from clicket.errors import UsageError
from clicket.tools.depends import find_cycle, make_groups


def named(name: str, depends_on: Any = None) -> Any:
    @tool(name=name, depends_on=depends_on)
    async def body() -> None: ...

    return body


@pytest.mark.parametrize(
    ("given_as", "groups"),
    [
        (None, []),
        ("a", [("all", ("a",))]),
        (["a", "b"], [("all", ("a", "b"))]),
        (("a",), [("all", ("a",))]),
        ({"any": ["a", "b"]}, [("any", ("a", "b"))]),
        ({"sequence": ["a", "b"], "any": "c"}, [("sequence", ("a", "b")), ("any", ("c",))]),
    ],
)
def test_three_forms(given_as: Any, groups: list[Any]) -> None:
    assert [(group.kind, group.names) for group in make_groups("tool 'x'", given_as)] == groups


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (5, "not 5"),
        ([], "depends_on takes"),
        ([1], "depends_on takes"),
        ([""], "depends_on takes"),
        (["a", "a"], "twice"),
        ({"anny": ["a"]}, "Did you mean 'any'"),
        ({"all": []}, "depends_on takes"),
    ],
)
def test_wrong_forms_are_refused_where_the_tool_is_declared(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        named("x", wrong)


@pytest.mark.parametrize(
    "tools",
    [
        [named("a", "a")],
        [named("a", "b"), named("b", "a")],
        [named("a", {"any": ["b", "x"]}), named("b", {"sequence": ["c"]}), named("c", ["a"])],
    ],
    ids=["itself", "two", "three"],
)
def test_a_circle_is_refused_at_registration_whatever_the_order(tools: list[Any]) -> None:
    for order in (tools, tools[::-1]):
        with pytest.raises(UsageError, match="circle"):
            Runtime(order, store="memory://")


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3), max_size=8))
def test_a_way_round_is_found_if_there_is_one(graph: dict[int, list[int]]) -> None:
    edges = {str(k): [str(v) for v in vs] for k, vs in graph.items()}

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        rest = list(edges.get(start, ()))
        while rest:
            name = rest.pop()
            if name not in seen:
                seen.add(name)
                rest += edges.get(name, ())
        return seen

    for name in edges:
        cycle = find_cycle(name, lambda each: edges.get(each, ()))
        assert (cycle is not None) == (name in reaches(name))
        if cycle is not None:
            assert cycle[0] == cycle[-1] == name
            assert all(after in edges[before] for before, after in pairwise(cycle))
