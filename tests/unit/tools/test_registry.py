"""A registry: names are unique, errors suggest near misses, and an object that is not a tool is refused at registration."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import NativeTool, RestTool, tool
from clicket.agents.plan import PLAN_NAMES
from clicket.agents.read_result import READ_RESULT
from clicket.errors import ToolNotFound, UsageError
from clicket.tools import registry
from clicket.tools.depends import names_of
from clicket.tools.function import function_tool
from clicket.tools.protocol import Tool
from clicket.tools.registry import RESERVED, Registry, as_tool

NO_ARGUMENTS = {"type": "object", "properties": {}}
ONE_NUMBER = {"type": "object", "properties": {"a": {"type": "integer"}}}
NONSENSE = {"type": "nonsense"}


@tool
def weather(city: str) -> str:
    return city


def plain(a: int) -> int:
    """A plain function."""
    return a


async def later() -> None: ...


class Runs:
    async def run(self, x: int) -> int:
        return x


class Counter(NativeTool):
    input_schema = NO_ARGUMENTS

    def run(self, arguments: Any, ctx: Any) -> int:
        return 1


def test_everything_that_people_register_becomes_a_tool() -> None:
    registry = Registry([weather, plain, later, Runs, Counter])
    assert registry.names == {"weather", "plain", "later", "runs", "counter"}
    assert len(registry) == 5
    assert [each.name for each in registry] == ["weather", "plain", "later", "runs", "counter"]
    assert all(isinstance(each, Tool) for each in registry)
    assert registry.get("weather") is weather
    assert registry.get("nobody") is None


def test_a_tool_of_ones_own_needs_no_base_class() -> None:
    class Mine:
        name = "mine"
        description = "Mine."
        input_schema = ONE_NUMBER
        options = weather.options
        is_async = False

        def bind(self, arguments: dict[str, Any]) -> Any:
            return arguments

        def run(self, bound: Any, ctx: Any) -> Any:
            return bound

    registered = Registry([Mine()]).find("mine")
    found, check = registered.tool, registered.check
    assert found.description == "Mine."
    assert check({"a": 1}) == []
    assert check({"a": "x", "b": 1})


@pytest.mark.parametrize("thing", [3, "weather", object(), [weather], None, int])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match=r"tool|run"):
        Registry([thing])


def test_a_name_is_taken_once() -> None:
    registry = Registry([weather])
    registry.add(weather)  # the same tool again is not a duplicate
    with pytest.raises(UsageError, match="two tools are named 'weather'"):
        registry.add(tool(name="weather")(lambda: None))
    assert registry.get("weather") is weather


def named(name: Any) -> list[Any]:
    """Things of every kind that can be registered, with this name."""

    class Native(Counter):
        pass

    class Mine:
        description = "Mine."
        input_schema = NO_ARGUMENTS
        options = weather.options
        is_async = False

        def bind(self, arguments: dict[str, Any]) -> Any:
            return arguments

        def run(self, bound: Any, ctx: Any) -> Any:
            return bound

    class Object:
        async def run(self) -> int:
            return 1

    Native.name = Mine.name = Object.name = name  # type: ignore[attr-defined]
    return [
        lambda: tool(name=name)(lambda: None), lambda: Native, Mine, Object,
        lambda: RestTool(name, "GET", "https://api.example.com/x"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("kind", range(5))
def test_reserved_names_cannot_be_registered(name: str, kind: int) -> None:
    registry = Registry([weather])
    with pytest.raises(UsageError, match=f"'{name}' is a name of clicket's own"):
        registry.add(named(name)[kind]())
    assert registry.get(name) is None


@pytest.mark.parametrize("name", ["agent:helper", "", "a b", "a\nb", "\x1b[2J", "x" * 200, 7])
@pytest.mark.parametrize("kind", range(5))
def test_what_is_no_name_is_refused_whatever_is_registered(name: Any, kind: int) -> None:
    registry = Registry([weather])
    if kind != 3 or name != "":  # an object without a name is named after its class
        with pytest.raises(UsageError, match="is not a name for a tool"):
            registry.add(named(name)[kind]())
    assert name not in registry.names


def test_a_tool_of_clickets_own_is_lent_once() -> None:
    own = function_tool(plain, name="read_result", options={}, listed=False)
    registry = Registry([weather])
    registry.lend(own)
    registry.lend(own)
    assert registry.get("read_result") is own
    assert [each.name for each in registry] == ["weather"]
    with pytest.raises(UsageError, match="own"):
        registry.add(tool(name="read_result")(lambda: None))


def test_the_list_follows_every_change() -> None:
    registry = Registry([weather])
    assert [each.name for each in registry.listed()] == ["weather"]
    registry.add(plain)
    assert [each.name for each in registry.listed()] == ["weather", "plain"]
    registry.remove("weather")
    assert [each.name for each in registry.listed()] == ["plain"]
    lent = function_tool(plain, name="find_tools", options={}, listed=True)
    registry.lend(lent)
    assert registry.listed()[-1] is lent
    registry.lend_later("find_tools", lambda: lent)
    assert [each.name for each in registry.listed()] == ["plain"]
    assert registry.get("find_tools") is lent
    assert registry.listed()[-1] is lent


def test_every_name_that_agents_treat_in_a_way_of_its_own_is_reserved() -> None:
    assert {*PLAN_NAMES, READ_RESULT} <= RESERVED


def test_a_missing_tool_names_near_misses_and_what_there_is() -> None:
    registry = Registry([weather, plain])
    with pytest.raises(ToolNotFound) as missing:
        registry.find("wether")
    assert missing.value.code == "tool_not_found"
    assert "Did you mean 'weather'?" in missing.value.message
    assert "plain" in missing.value.message
    with pytest.raises(ToolNotFound, match="none"):
        Registry().find("x")


@pytest.mark.parametrize("name", ["", "x" * 10_000, None, ["weather"], 5])
def test_any_name_may_be_requested(name: Any) -> None:
    with pytest.raises(ToolNotFound) as missing:
        Registry([weather]).find(name)
    assert len(missing.value.message) < 1_000


def test_a_tool_whose_schema_cannot_be_used_is_not_registered() -> None:
    class Bad(Counter, name="bad"):
        input_schema = NONSENSE

    registry = Registry([weather])
    with pytest.raises(UsageError, match="bad"):
        registry.add(Bad)
    assert registry.names == {"weather"}


def test_as_tool_leaves_tools_as_they_are() -> None:
    assert as_tool(weather) is weather


@pytest.mark.parametrize(("needed", "most"), [(None, 0), ("login", 2)])
def test_a_tool_more_does_not_look_at_all_the_others(
    needed: str | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    monkeypatch.setattr(registry, "names_of", lambda groups: looks.append(groups) or names_of(groups))
    known = Registry()
    for number in range(30):
        known.add(tool(name=f"t{number}", depends_on=needed)(lambda: ""))
    assert len(looks) <= most * 30


def test_a_tool_that_needs_nothing_any_more_is_not_dependent() -> None:
    known = Registry([needy := tool(name="needy", depends_on="login")(lambda: "")])
    assert known.dependent == {"needy"}
    needy.options = tool(name="needy")(lambda: "").options
    known.add(needy)
    assert known.dependent == set()
