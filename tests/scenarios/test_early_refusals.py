"""Mistakes in a program raise where they are made, and the message names the line to change."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE

import clicket.sync
from clicket import NativeTool, Runtime, ToolCall, ToolContext, tool
from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.cli.tool_loader import load
from clicket.engine.executors import LoopWatch, loop_watch
from clicket.errors import UsageError
from clicket.runtime.settings import Settings
from clicket.testing import ScriptedModel, memory_runtime

MEMORY = Settings(store="memory://")


@tool
async def echo(text: str) -> str:
    return text


def line_of(text: str) -> int:
    """The number of the line of this file that ends with a mark."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


# Names of tools that an agent may use.


@pytest.mark.parametrize("kind", [ReActAgent, PlanExecuteAgent])
async def test_an_agent_refuses_the_name_of_a_tool_that_does_not_exist(kind: Any) -> None:
    async with memory_runtime([echo]) as rt:
        with pytest.raises(UsageError, match=r"no tool 'ecko'. Did you mean 'echo'\? Registered: echo"):
            kind(rt, ScriptedModel([]), tools=["ecko"])
        assert rt.registry.get(f"agent:{'react' if kind is ReActAgent else 'plan'}") is None, "no tool stays registered"
        kind(rt, ScriptedModel([]), tools=["echo", "read_result"])
        kind(rt, ScriptedModel([]), tools=[])


async def test_a_tool_that_is_given_to_an_agent_must_be_in_its_runtime() -> None:
    async with memory_runtime() as rt:
        with pytest.raises(UsageError, match=r"no tool .echo.\..*rt\.add"):
            ReActAgent(rt, ScriptedModel([]), tools=[echo])
        rt.add(echo)
        ReActAgent(rt, ScriptedModel([]), tools=[echo])


# Methods.


class Shop:
    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices

    @tool(read_only=True)
    async def price(self, item: str) -> int:
        """The price of an item."""
        return self.prices[item]

    @tool
    def stock(self, item: str, ctx: ToolContext) -> str:
        return f"{item} {ctx.attempt}"

    @staticmethod
    @tool
    def currency(country: str) -> str:
        return f"money of {country}"


async def test_a_method_is_a_tool_of_its_object() -> None:
    shop = Shop({"tea": 300})
    async with memory_runtime([shop.price, shop.stock, Shop.currency]) as rt:
        rt.add(shop.price)  # the same tool once more
        listed = {each.name: each for each in await rt.tools()}
        assert list(listed["price"].input_schema["properties"]) == ["item"]
        assert listed["price"].description == "The price of an item."
        assert listed["price"].read_only
        assert (await rt.call("price", {"item": "tea"})).output == 300
        assert (await rt.call("stock", {"item": "tea"})).output == "tea 1"
        assert (await rt.call("currency", {"country": "x"})).output == "money of x"
        with pytest.raises(UsageError, match="two tools are named 'price'"):
            rt.add(Shop({}).price)
    assert await shop.price("tea") == 300, "calling the tool calls the method"
    assert await Shop.price(shop, "tea") == 300


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'price' .*is a method of Shop.*Shop\(…\)\.price"):
        Runtime([Shop.price], settings=MEMORY)


def test_a_class_method_is_refused_where_it_is_declared() -> None:
    with pytest.raises(UsageError, match="classmethod"):

        class _Wrong:
            @tool
            @classmethod
            def price(cls, item: str) -> int:
                return 1


def test_a_method_cannot_run_in_a_child_process() -> None:
    with pytest.raises(UsageError, match=r"method.*process"):

        class _Wrong:
            @tool(isolation="process")
            def price(self, item: str) -> int:
                return 1


# Keywords.


def test_a_runtime_takes_settings_as_keywords_and_refuses_others() -> None:
    for kind in (Runtime, clicket.sync.Runtime):
        made: Any = kind([echo], store="memory://", max_concurrency=3, retention=60)
        assert (made.settings.limits.max_concurrency, made.settings.retention.age) == (3, 60.0)
        made = kind([echo], settings=MEMORY, lease=5)
        assert made.settings.limits.lease == 5.0
        for wrong, near in (("stor", "store"), ("max_concurency", "max_concurrency"), ("tool", "tools")):
            with pytest.raises(UsageError, match=rf"no keyword {wrong!r}. Did you mean '{near}'"):
                kind(**{wrong: "memory://"})
        with pytest.raises(UsageError, match="max_concurrency"):
            kind([echo], store="memory://", max_concurrency="many")


def test_every_setting_is_a_keyword_of_a_runtime() -> None:
    from clicket.runtime.settings.settings import KEYS
    from clicket.runtime.settings.types import RuntimeOptions, SettingsOptions

    own = set(inspect.signature(Runtime).parameters)
    assert set(RuntimeOptions.__annotations__) == set(KEYS) - own
    assert set(SettingsOptions.__annotations__) == set(KEYS)


async def test_a_call_refuses_unknown_keywords() -> None:
    async with memory_runtime([echo]) as rt:
        wrong: Any = {"tread": "t"}
        for way in (rt.call, rt.submit):
            with pytest.raises(UsageError, match=r"no keyword .tread.\. Did you mean .thread."):
                await way("echo", {"text": "a"}, **wrong)
        with pytest.raises(UsageError, match="'tread'"):
            async for _ in rt.stream("echo", {"text": "a"}, **wrong):
                pass
        argument: Any = {"text": "a"}
        with pytest.raises(UsageError, match=r"no keyword 'text'.*rt.call\('echo', \{'text': …\}\)"):
            await rt.call("echo", **argument)
        with pytest.raises(UsageError, match="no keyword 'tread'"):
            await rt.call_many([{"tool": "echo", **wrong}])
        assert (await rt.history()).items == [], "no call was made"
    with pytest.raises(TypeError):
        ToolCall("echo", **wrong)


def test_tools_are_a_list() -> None:
    for kind in (Runtime, clicket.sync.Runtime):
        with pytest.raises(UsageError, match=r"tools is a list: write tools=\[echo\]"):
            kind(tools=echo, settings=MEMORY)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"tools is a list"):
            kind(tools="echo", settings=MEMORY)
        with pytest.raises(UsageError, match=r"tools is a list.*module"):
            kind(tools=asyncio, settings=MEMORY)
        with pytest.raises(UsageError, match=r"tools is a list"):
            kind(tools=7, settings=MEMORY)  # type: ignore[arg-type]


# Declarations.


def test_a_declaration_is_refused_with_its_file_and_line() -> None:
    def here(mark: str) -> str:
        return rf"tests/scenarios/test_early_refusals\.py:{line_of(mark)}\)"

    with pytest.raises(UsageError, match=rf"tool 'misspelt' \({here('option')}: unknown option 'timeot'"):

        @tool(timeot=3)  # type: ignore[call-overload]  # option
        def misspelt() -> None: ...

    with pytest.raises(UsageError, match=rf"tool 'starred' \({here('stars')}: parameter 'items'"):

        @tool  # stars
        def starred(*items: int) -> None: ...

    with pytest.raises(UsageError, match=rf"tool 'Counter' \({here('class')}: timeout must be"):

        @tool(timeout=-1)
        class Counter:
            def run(self, step: int) -> int:  # class
                return step

    with pytest.raises(UsageError, match=rf"tool 'Odd' \({here('native')}: max_retries must be"):

        class Odd(NativeTool, max_retries=-1):
            def run(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:  # native
                return None

        Runtime([Odd], settings=MEMORY)

    @tool(name="twin")  # first
    def one() -> None: ...

    @tool(name="twin")  # second
    def two() -> None: ...

    with pytest.raises(
        UsageError, match=rf"two tools are named 'twin' \(.*:{line_of('first')}.*:{line_of('second')}\)"
    ):
        Runtime([one, two], settings=MEMORY)

    @tool(depends_on="right")  # left
    def left() -> None: ...

    @tool(depends_on="left")
    def right() -> None: ...

    with pytest.raises(
        UsageError, match=r"tool '(left|right)' \(.*test_early_refusals\.py:\d+\): depends_on goes round"
    ):
        Runtime([left, right], settings=MEMORY)


# A body that blocks the loop.


@tool(timeout=0.05)
async def sleeper(wait_first: bool) -> str:
    if wait_first:
        await asyncio.sleep(0)
    SEEN.wait(2)  # blocks
    return "slept"


SEEN = threading.Event()


class _Told(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "clicket.execution":
            SEEN.set()


@pytest.mark.parametrize("submitted", [False, True])
@pytest.mark.parametrize("wait_first", [False, True])
async def test_an_async_body_that_blocks_the_loop_past_its_timeout_is_reported(
    wait_first: bool, submitted: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_watch, "LOOK_EVERY", 0.01)
    SEEN.clear()
    handler = _Told()
    logging.getLogger("clicket.execution").addHandler(handler)
    try:
        async with memory_runtime([sleeper]) as rt:
            if submitted:
                result = await (await rt.submit("sleeper", {"wait_first": wait_first})).result()
            else:
                result = await rt.call("sleeper", {"wait_first": wait_first})
    finally:
        logging.getLogger("clicket.execution").removeHandler(handler)
    assert result.output == "slept"
    place = f"tests/scenarios/test_early_refusals.py:{line_of('blocks')}"
    assert result.metadata["blocked_loop"]["at"] == place
    assert result.metadata["blocked_loop"]["seconds"] >= 0.05
    messages = [record.getMessage() for record in caplog.records if record.name == "clicket.execution"]
    assert len(messages) == 1, "once for each call"
    assert f"tool 'sleeper', call {result.call_id}" in messages[0]
    assert place in messages[0]
    assert "timeout of 0.05 s" in messages[0]


async def test_a_busy_loop_is_not_taken_for_a_blocked_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(timeout=PATIENCE)
    async def busy() -> int:
        end, turns = time.monotonic() + 0.3, 0
        while time.monotonic() < end:
            turns += 1
            await asyncio.sleep(0)
        return turns

    monkeypatch.setattr(loop_watch, "LOOK_EVERY", 0.005)
    for _ in range(
        10
    ):  # a machine without a free processor may block the loop for a moment; a wrong watch is wrong each time
        caplog.clear()
        async with memory_runtime([busy], lease=0.05) as rt:
            result = await rt.call("busy")
        if "blocked_loop" not in result.metadata:
            break
    assert "blocked_loop" not in result.metadata
    assert not [record for record in caplog.records if record.name == "clicket.execution"]


async def test_a_process_that_was_paused_is_not_taken_for_a_blocked_loop(caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch(patience=0.1)

    @tool(timeout=0.1)
    async def looked_at(pause: float) -> None:
        for now in (100.0, 100.05, 100.05 + pause):
            watch.look(now)  # the event loop is blocked meanwhile

    async with memory_runtime([looked_at]) as rt:
        results = {pause: await rt.call("looked_at", {"pause": pause}) for pause in (60.0, 0.5)}
    assert [pause for pause, result in results.items() if "blocked_loop" in result.metadata] == [0.5]
    assert len([record for record in caplog.records if record.name == "clicket.execution"]) == 1


# Another event loop.


def test_a_second_event_loop_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    rt = Runtime([echo], store=f"sqlite:///{tmp_path}/calls.db")
    loop = asyncio.new_event_loop()

    async def use() -> None:
        for way in (rt.call, rt.submit):
            with pytest.raises(UsageError, match=r"another event loop.*clicket\.sync\.Runtime"):
                await way("echo", {"text": "a"})
        for read in (rt.history(), rt.get("x"), rt.close(), rt.recover()):
            with pytest.raises(UsageError, match="another event loop"):
                await read

    loop.run_until_complete(rt.open())
    asyncio.run(use())  # the first one is not closed
    assert loop.run_until_complete(rt.call("echo", {"text": "b"}, id="mine")).output == "b"
    assert [each.id for each in loop.run_until_complete(rt.history()).items] == ["mine"]
    loop.run_until_complete(rt.close())
    loop.close()


def test_an_event_loop_that_has_ended_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "LOOK_EVERY", 0.01)  # its thread ends with the event loop
    rt = Runtime([echo], settings=MEMORY)
    asyncio.run(rt.open())

    async def late() -> None:
        with pytest.raises(UsageError, match="which has ended"):
            await rt.call("echo", {"text": "a"})

    asyncio.run(late())


# Modules of a command line.


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "from clicket import RestTool\n\ndef make():\n    return RestTool('x', 'GOT', 'https://e.org')\n\nX = make()\n",
            r"^shop_N \(shop_N\.py:4\): REST tool 'x': unknown method 'GOT'",
        ),
        (
            "from clicket import tool\n\n@tool(timeot=2)\ndef f() -> int: ...\n",
            r"^shop_N: tool 'f' \(shop_N\.py:3\): unknown option 'timeot'",
        ),
        ("def f(:\n", r"SyntaxError: invalid syntax \(shop_N\.py:1\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .*\(shop_N\.py:2\)"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_reported_with_the_users_line(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shop_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=told.replace("shop_N", name)):
        load(name)
