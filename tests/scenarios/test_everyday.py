"""Everyday use: results, handles, reprs, help, completion, decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

from clicket import Policy, Record, Rule, Runtime, Settings, State, tool
from clicket.agents import ReActAgent
from clicket.client import Client
from clicket.errors import ClicketError, ToolCallFailed
from clicket.runtime import blocking as sync
from clicket.testing import ScriptedModel, memory_runtime


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool(max_retries=0)
async def broken() -> None:
    raise KeyError("price")


@tool
async def waits() -> str:
    await asyncio.sleep(60)
    return "done"


@tool
async def pay(amount: int) -> str:
    return f"paid {amount}"


TILL = """
from clicket import tool

@tool
async def pay(amount: int) -> str:
    return f"paid {amount}"

@tool
async def print_label(name: str) -> str:
    return name
"""
ASK = Policy(rules=[Rule(verdict="ask", tools=["pay"])])


# Results.


async def test_the_content_of_a_failure_is_what_the_model_should_read() -> None:
    async with memory_runtime([add, broken, waits]) as rt:
        refused = await rt.call("add", {"a": 1})
        failed = await rt.call("broken", id="f")
        late = await rt.call("waits", timeout=0.01)
        for result in (refused, failed, late):
            assert result.content == str(result.error)
            assert result.error is not None
            assert result.error.code in result.content
        assert (await rt.get("f")).content == failed.content
        assert (await (await rt.handle("f")).result()).content == failed.content, "read from its record, too"
        assert (await rt.call("nothing")).content.startswith("tool_not_found: ")
        many = await rt.call_many([("add", {"a": 1, "b": 1}), {"tool": "add", "arguments": {}, "thread": ""}])
        assert "thread" in many[1].content, "a call that was never created"


async def test_unwrap_gives_the_output_or_raises_what_went_wrong() -> None:
    async with memory_runtime([add, broken]) as rt:
        assert (await rt.call("add", {"a": 1, "b": 2})).unwrap() == 3
        result = await rt.call("broken")
        with pytest.raises(ToolCallFailed, match="price") as caught:
            result.unwrap()
        assert caught.value.code == "tool_error"
        assert caught.value.result is result
        assert isinstance(caught.value, ClicketError)


async def test_a_result_is_waited_for_up_to_a_timeout() -> None:
    async with memory_runtime([waits, add]) as rt:
        handle = await rt.submit("waits", id="w")
        with pytest.raises(TimeoutError, match=r"call 'w' has not ended after 0\.01 s; it goes on"):
            await handle.result(timeout=0.01)
        assert await rt.state("w") is State.RUNNING
        await handle.cancel()
        assert (await handle.result(timeout=PATIENCE)).state is State.CANCELLED


def test_a_result_is_waited_for_up_to_a_timeout_without_a_loop() -> None:
    with sync.Runtime([waits], settings=Settings(store="memory://")) as rt:
        handle = rt.submit("waits", id="w")
        with pytest.raises(TimeoutError, match="it goes on"):
            handle.result(timeout=0.01)
        assert repr(handle) == "<call w>"
        handle.cancel()
        assert handle.result(timeout=PATIENCE).state is State.CANCELLED


# One name for each concept.


async def test_ids_and_items_have_one_name() -> None:
    async with memory_runtime([add]) as rt:
        result = await rt.call("add", {"a": 1, "b": 2}, id="x")
        record, handle = await rt.get("x"), await rt.handle("x")
        assert {result.id, result.call_id, record.id, record.call_id, handle.id, handle.call_id} == {"x"}
        assert {event.call_id for event in record.events} == {"x"}
        agent = ReActAgent(rt, ScriptedModel(["hello"]))
        await agent.run("hi")
        page = await agent.history()
        assert page.items == page.turns
        assert len(page.items) == 1


# Reprs.


async def test_objects_are_short_to_look_at() -> None:
    async with memory_runtime([add, broken]) as rt:
        good, bad = await rt.call("add", {"a": 1, "b": 2}, id="x"), await rt.call("broken", id="y")
        long = await rt.call("add", {"a": 10**300, "b": 2}, id="z")
        record: Record = await rt.get("x")
        page = await rt.history(limit=2)
        agent = ReActAgent(rt, ScriptedModel([]), name="clerk")
        assert repr(good) == "<result x of add: completed, 3>"
        assert repr(bad).startswith("<result y of broken: failed, tool_error: ")
        assert repr(record) == f"<call x of add: completed, {len(record.events)} events>"
        assert repr(record.events[0]) == "<event 1 of call x: created, pending>"
        assert repr(page) == f"<page of 2 calls, more at cursor {page.cursor!r}>"
        assert repr(rt) == "<Runtime memory:// with 2 tools, open>"
        assert repr(rt.acting_for("ann")) == "<Runtime memory:// with 2 tools, open, for 'ann'>"
        assert repr(agent) == "<agent clerk>"
        for each in (good, bad, long, record, page, record.events[0], await rt.handle("x"), (await rt.tools())[0]):
            assert len(repr(each)) <= 160, repr(each)
    assert repr(rt) == "<Runtime memory:// with 2 tools, not open>"
    closed = Runtime(store="postgresql://me:hidden@db/calls")
    assert "hidden" not in repr(closed)
    assert repr(Client("http://127.0.0.1:8000", key="ck_secret")) == "<Client http://127.0.0.1:8000>"
    assert repr(sync.Runtime(settings=Settings(store="memory://"))) == "<sync.Runtime memory:// with 0 tools, not open>"


# Decisions from a terminal.


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "everyday_till.py").write_text(TILL)
    return Place(tmp_path, sqlite_url(tmp_path), "everyday_till", USER="ann", LOGNAME="ann")


def test_a_second_decision_gets_the_first(place: Place) -> None:
    with sync.Runtime([pay], store=place.store, policy=ASK) as rt:
        for id in ("first", "second"):
            rt.submit("pay", {"amount": 5}, id=id)
        done = place.inside("approve", "first", "--arguments", '{"amount": 3}', "--reason", "ok")
        assert done.returncode == 0, done.stderr
        assert (rt.handle("first").result()).output == "paid 3"
        again = place.inside("approve", "first", "--by", "bob")
        assert again.returncode == 1
        assert "first does not wait for approval any more: it was approved already, by ann" in again.stderr
        denied = place.inside("deny", "second", "--by", "bob", "--reason", "no")
        assert denied.returncode == 0
        late = place.inside("approve", "second")
        assert "it was denied already, by bob" in late.stderr
        listed = place.ask("approve")
        assert listed["items"] == listed["calls"] == []
    shown = place.inside("show", "first")
    text = " ".join(shown.stdout.split())
    assert "approved by ann" in text
    assert "ok" in text
    assert '{"amount":5}' in text.replace(" ", ""), "the arguments before the edit"
    assert "denied by bob" in " ".join(place.inside("show", "second").stdout.split())


# Help and completion.


@pytest.mark.parametrize("words", [("ps",), ("cache", "stats"), ("approve",), ()])
def test_help_names_no_type_for_a_switch(place: Place, words: tuple[str, ...]) -> None:
    output = place.inside(*words, "--help").stdout
    assert "--json" in output
    assert "<bool>" not in output


def completed(place: Place, *words: str) -> list[str]:
    line = " ".join(("clicket", *words))
    asked = {"_CLICKET_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return place.inside(**asked).stdout.split()


def test_the_shell_completes_tools_ids_and_states(place: Place) -> None:
    with sync.Runtime([pay], store=place.store, policy=ASK) as rt:
        rt.submit("pay", {"amount": 5}, id="order-1")
        rt.submit("pay", {"amount": 5}, id="order-2", thread="t-2")
        assert completed(place, "approve", "ord") == ["order-2", "order-1"]
        assert completed(place, "show", "order-1") == ["order-1"]
        assert completed(place, "cancel", "order-2") == ["order-2"]
        assert completed(place, "ps", "--thread", "t-") == ["t-2"]
    assert completed(place, "call", "p") == ["pay", "print_label"]
    assert completed(place, "tools", "pr") == ["print_label"]
    assert completed(place, "ps", "--tool", "pa") == ["pay"]
    assert completed(place, "ps", "--state", "r") == ["running", "retrying"]
    assert completed(place, "approve", "--store", "sqlite:///nowhere.db", "x") == []
    assert not (place.folder / "nowhere.db").exists()


# Examples.

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
EXTRAS = {
    "anthropic": "anthropic", "openai": "openai", "langchain_core": "langchain", "pydantic_ai": "pydantic-ai",
    "opentelemetry": "telemetry", "clicket.server": "server", "clicket.mcp": "mcp", "redis": "redis", "psycopg": "postgres",
}  # fmt: skip


def test_examples_are_numbered_without_holes_and_name_their_extra() -> None:
    import ast

    from tests.kit.imports import parsed

    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    for path in EXAMPLES:
        tree = parsed(path.read_text("utf-8"))
        imported = {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
        imported |= {name.name for each in ast.walk(tree) if isinstance(each, ast.Import) for name in each.names}
        for module, extra in EXTRAS.items():
            if any(name == module or name.startswith(f"{module}.") for name in imported):
                assert f"clicket[{extra}]" in (ast.get_docstring(tree) or ""), f"{path.name} needs {extra}"
