"""Parameters that get deps, and what a factory makes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any

import pytest

from clicket import Depends, ToolContext, tool
from clicket.errors import DepUnavailable
from clicket.tools.deps import DepValues, make_dep


def test_a_parameter_with_depends_is_in_no_schema_whatever_else_its_hint_says() -> None:
    @tool
    def mine(
        a: int, db: Annotated[Any, "a text", Depends("db")], ctx: ToolContext, more: Annotated[object, Depends("x")]
    ) -> None:
        """Does it."""

    assert list(mine.input_schema["properties"]) == ["a"]
    assert mine.traits.deps == ("db", "x")
    assert mine.traits.any_dep


def test_a_tool_that_only_names_its_deps_reads_no_others() -> None:
    @tool
    def mine(db: Annotated[Any, Depends("db")]) -> None: ...

    assert mine.input_schema["properties"] == {}
    assert (mine.traits.wants_context, mine.traits.any_dep) == (True, False)


def test_values_are_not_shown() -> None:
    values = DepValues({"db": "secret"}, {"x": DepUnavailable("why")})
    assert repr(values) == "<deps db>"
    assert values.get("nothing") is None
    with pytest.raises(DepUnavailable, match="why"):
        values["x"]


async def test_what_an_async_factory_made_is_closed_on_the_loop() -> None:
    where: list[str] = []

    class Value:
        def close(self) -> None:
            where.append("loop")

    async def factory() -> Value:
        return Value()

    async def in_thread(function: Any) -> Any:
        where.append("thread")
        return function()

    async with AsyncExitStack() as exits:
        await make_dep(factory, exits, in_thread)
    async with AsyncExitStack() as exits:
        await make_dep(Value, exits, in_thread)
    assert where == ["loop", "thread", "thread", "loop"]


async def test_a_class_or_a_module_that_has_a_close_is_not_closed() -> None:
    class Kind:
        def close(self) -> None:
            raise AssertionError("it is of its instances")

    async def factory() -> type[Kind]:
        return Kind

    async with AsyncExitStack() as exits:
        assert await make_dep(factory, exits, factory) is Kind  # type: ignore[arg-type]  # not called
