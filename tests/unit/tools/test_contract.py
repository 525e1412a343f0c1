"""The contract of tools: every kind of tool in clicket fulfils it, and a foreign tool is completed once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest
from langchain_core.tools import tool as langchain_tool

from clicket import NativeTool, tool
from clicket.adapters.langchain import from_langchain
from clicket.adapters.mcp.imported_tool import ImportedTool
from clicket.agents.read_result import read_result
from clicket.agents.subagents import AgentTool
from clicket.agents.turn_tool import TurnTool
from clicket.errors import UsageError
from clicket.interpreter import code_interpreter
from clicket.search import deep_search
from clicket.search.web.json_path import JsonPath
from clicket.search.web.result_fields import Fields
from clicket.search.web.search_request import RequestTemplate, SearchTool
from clicket.tools import BasicTool, CompletedTool, Options, Registry, Tool, Traits, as_tool
from clicket.tools.rest import RestTool

NO_ARGUMENTS = {"type": "object", "properties": {}}


@tool
def add(a: int, b: int) -> int:
    return a + b


class Runs:
    async def run(self, x: int) -> int:
        return x

    def run_sync(self, x: int) -> int:
        return x


class Counter(NativeTool):
    input_schema = NO_ARGUMENTS

    def run(self, arguments: Any, ctx: Any) -> int:
        return 1


class Basic:
    """A foreign tool, as docs/guides/migrating.md writes it."""

    name = "basic"
    description = "Basic."
    input_schema = NO_ARGUMENTS
    options = Options()
    is_async = False

    def bind(self, arguments: dict[str, Any]) -> Any:
        return arguments

    def run(self, bound: Any, ctx: Any) -> Any:
        return bound


def imported() -> Any:
    remote = mcp_types.Tool(name="far", input_schema=NO_ARGUMENTS, output_schema=NO_ARGUMENTS)
    unused: Any = SimpleNamespace(name="there")
    return ImportedTool(unused, unused, unused, remote, prefix="", options={}, trust_hints=False)


def question() -> Any:
    asks = RequestTemplate(
        url="https://example.org/", params={"q": "{query}"}, results=JsonPath("results"), fields=Fields()
    )
    return SearchTool("ask", "example", asks, rest={})


AGENT: Any = SimpleNamespace(name="ann", limits=SimpleNamespace(max_steps=3))
HOST: Any = SimpleNamespace(installed=lambda name: None)


@langchain_tool
def theirs(x: int) -> int:
    """Theirs."""
    return x


KINDS: dict[str, Callable[[], Any]] = {
    "function": lambda: add,
    "class": lambda: as_tool(Runs),
    "native": lambda: as_tool(Counter),
    "rest": lambda: RestTool("get", "GET", "https://example.org/"),
    "mcp": imported,
    "langchain": lambda: from_langchain(theirs),
    "web": question,
    "interpreter": lambda: code_interpreter,
    "search": lambda: deep_search,
    "turn of an agent": lambda: TurnTool("ann", AGENT),
    "agent": lambda: AgentTool(AGENT, "ann", "", lambda *_: AGENT, HOST),
    "read_result": lambda: read_result,
    "from outside": lambda: as_tool(Basic()),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_tool_keeps_the_whole_contract(kind: str) -> None:
    made = KINDS[kind]()
    assert isinstance(made, Tool)
    assert as_tool(made) is made, "a tool of clicket needs no completion"
    assert isinstance(made.traits, Traits)
    assert made.run_sync is None or callable(made.run_sync)
    assert made.output_schema is None or made.output_schema["type"] == "object"
    assert isinstance(made.data_version(), str)
    assert await made.sweep(frozenset()) == 0
    assert isinstance(made.owned_by(Registry()), type(made))


def test_traits_of_ours() -> None:
    traits = {kind: make().traits for kind, make in KINDS.items()}
    assert traits["function"] == Traits(wants_context=False)
    assert traits["native"] == Traits(one_call_per_thread=True)
    assert traits["interpreter"] == Traits(one_call_per_thread=True, timeout_is_failure=False)
    assert code_interpreter(session="call").traits.one_call_per_thread is False
    assert traits["turn of an agent"] == Traits(internal=True, holds_slot=False, ends_its_calls=True)
    assert traits["agent"] == Traits(holds_slot=False, ends_its_calls=True)
    assert traits["read_result"] == Traits(listed=False)
    assert {kind for kind, each in traits.items() if each == Traits()} == {
        "rest", "mcp", "langchain", "web", "search", "from outside"
    }  # fmt: skip


def test_a_tool_that_is_not_listed_is_found_all_the_same() -> None:
    registry = Registry([add])
    registry.lend(read_result)
    assert [each.name for each in registry] == ["add"]
    assert registry.find("read_result").tool is read_result


async def test_a_tool_from_outside_is_completed_with_defaults() -> None:
    given = Basic()
    assert isinstance(given, BasicTool)
    assert not isinstance(given, Tool)
    made = as_tool(given)
    assert isinstance(made, CompletedTool)
    assert made.given is given
    assert made.run({"a": 1}, None) == {"a": 1}
    assert made.data_version() == ""
    assert made.is_cacheable({})
    assert made.owned_by(object()) is made
    await made.close()
    given.description = "Another one."
    assert made.description == "Another one."


async def test_what_a_tool_from_outside_has_of_the_contract_is_used() -> None:
    closed: list[str] = []

    class More(Basic):
        traits = Traits(holds_slot=False)
        output_schema = NO_ARGUMENTS

        def data_version(self) -> str:
            return "7"

        def is_cacheable(self, output: Any) -> bool:
            return False

        async def close(self) -> None:
            closed.append("closed")

    made = as_tool(More())
    assert (made.traits.holds_slot, made.data_version(), made.is_cacheable(1)) == (False, "7", False)
    assert made.output_schema == NO_ARGUMENTS
    await made.close()
    assert closed == ["closed"]


async def test_a_blocking_close_is_not_the_contracts() -> None:
    class Blocking(Basic):
        def close(self) -> None:
            raise AssertionError("it would block the loop")

    await as_tool(Blocking()).close()


def test_traits_that_are_none_are_refused() -> None:
    class Wrong(Basic):
        traits = {"listed": False}  # noqa: RUF012  # what is refused

    with pytest.raises(UsageError, match="traits"):
        as_tool(Wrong())


def test_a_tool_from_outside_may_be_registered_twice_and_its_name_not() -> None:
    given = Basic()
    registry = Registry([given])
    registry.add(given)
    with pytest.raises(UsageError, match="two tools are named 'basic'"):
        registry.add(Basic())
