"""Stateful tools: one instance per thread, opened once, one call at a time, closed when idle and at exit."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from tests.kit.waiting import eventually
from tests.scenarios.kit import make

from clicket import NativeTool, State, ToolContext
from clicket.errors import UsageError

NO_ARGUMENTS = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Notes(NativeTool, timeout=5, tags="notes"):
    """Keeps what it is told."""

    input_schema = TEXT

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._log = log

    def open(self, thread: str) -> None:
        self._log.append(f"open {thread}")
        self.thread = thread

    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> list[str]:
        assert ctx.thread == self.thread
        self.kept.append(arguments["text"])
        return list(self.kept)

    def close(self) -> None:
        self._log.append(f"close {self.thread}")


class AsyncNotes(Notes):
    async def open(self, thread: str) -> None:
        await asyncio.sleep(0)
        super().open(thread)

    async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> list[str]:
        await asyncio.sleep(0)
        return super().run(arguments, ctx)

    async def close(self) -> None:
        await asyncio.sleep(0)
        super().close()


log: list[str] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    log.clear()


@pytest.fixture(params=[Notes, AsyncNotes], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_each_thread_has_a_state_of_its_own_opened_once_and_closed_at_exit(store: str, kind: Any) -> None:
    name = "notes" if kind is Notes else "async_notes"
    async with make([kind], store) as rt:
        for text in ("a", "b"):
            for thread in ("one", "two"):
                await rt.call(name, {"text": f"{thread} {text}"}, thread=thread)
        one = await rt.call(name, {"text": "c"}, thread="one")
        two = await rt.call(name, {"text": "d"}, thread="two")
        assert log == ["open one", "open two"]
    assert one.output == ["one a", "one b", "c"]
    assert two.output == ["two a", "two b", "d"]
    assert sorted(log[2:]) == ["close one", "close two"]


async def test_an_instance_may_be_registered_and_is_not_itself_used(store: str) -> None:
    class Greeter(NativeTool):
        input_schema = NO_ARGUMENTS

        def __init__(self, greeting: str) -> None:
            self.greeting = greeting
            self.count = [0]

        def run(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
            self.count[0] += 1
            return f"{self.greeting} {self.count[0]}"

    mine = Greeter("hello")
    async with make([mine], store) as rt:
        assert (await rt.call("greeter", thread="a")).output == "hello 1"
        assert (await rt.call("greeter", thread="a")).output == "hello 2"
        assert (await rt.call("greeter", thread="b")).output == "hello 1"
    assert mine.count == [0]
    with pytest.raises(UsageError, match="instance"):
        make([Greeter])


async def test_calls_of_one_thread_do_not_meet_and_threads_do_not_wait_for_each_other(store: str) -> None:
    inside: dict[str, int] = {}
    meetings = []
    gate = asyncio.Event()

    class Busy(NativeTool):
        input_schema = NO_ARGUMENTS

        async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> None:
            inside[ctx.thread] = inside.get(ctx.thread, 0) + 1
            meetings.append(inside[ctx.thread])
            await gate.wait()
            inside[ctx.thread] -= 1

    async with make([Busy], store) as rt:
        handles = [await rt.submit("busy", thread=thread) for thread in ("a", "b") for _ in range(4)]
        await eventually(lambda: inside == {"a": 1, "b": 1})
        gate.set()
        assert all([(await h.result()).success for h in handles])
    assert meetings == [1] * 8


async def test_what_is_open_and_in_what_state_can_be_looked_at(store: str, kind: Any) -> None:
    rt = make([], store)
    tool = rt.add(kind)
    async with rt:
        await rt.call(tool.name, {"text": "x"}, thread="one")
        await rt.call(tool.name, {"text": "y"}, thread="one")
        session = tool.sessions["one"]  # type: ignore[attr-defined]  # the tool that a NativeTool becomes
        assert (session.thread, session.connection, session.calls) == ("one", "open", 2)
        assert session.state["kept"] == ["x", "y"]
        assert "_log" not in session.state
        assert session.opened_at is not None
        assert session.last_used_at is not None
        assert session.opened_at <= session.last_used_at
    assert not tool.sessions  # type: ignore[attr-defined]


async def test_idle_sessions_are_closed_and_opened_anew(store: str, kind: Any) -> None:
    rt = make([], store)
    tool: Any = rt.add(type("Lazy", (kind,), {"idle_after": 0.0}, name="lazy"))
    async with rt:
        await rt.call("lazy", {"text": "x"}, thread="one")
        await rt.call("lazy", {"text": "y"}, thread="two")
        assert await tool.sweep(frozenset({"two"})) == 1
        assert log == ["open one", "open two", "close one"]
        result = await rt.call("lazy", {"text": "z"}, thread="one")
        assert result.output == ["z"]  # a new state
        assert log == ["open one", "open two", "close one", "open one"]


async def test_a_session_that_could_not_be_opened_is_tried_again(store: str) -> None:
    tries = []

    class Moody(NativeTool, max_retries=0):
        input_schema = NO_ARGUMENTS

        def open(self, thread: str) -> None:
            tries.append(thread)
            if len(tries) == 1:
                raise OSError("no connection")

        def run(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
            return "ran"

    async with make([Moody], store) as rt:
        first = await rt.call("moody")
        second = await rt.call("moody")
    assert first.error is not None
    assert first.error.type == "OSError"
    assert second.output == "ran"


async def test_a_close_that_fails_harms_neither_the_other_sessions_nor_the_exit(store: str) -> None:
    closed = []

    class Clumsy(NativeTool):
        input_schema = NO_ARGUMENTS

        def open(self, thread: str) -> None:
            self.thread = thread

        def run(self, arguments: dict[str, Any], ctx: ToolContext) -> None: ...

        def close(self) -> None:
            if self.thread == "bad":
                raise ValueError("jammed")
            closed.append(self.thread)

    async with make([Clumsy], store) as rt:
        for thread in ("a", "bad", "b"):
            await rt.call("clumsy", thread=thread)
    assert sorted(closed) == ["a", "b"]


async def test_a_blocking_session_runs_off_the_loop_and_closes_there_too(store: str) -> None:
    threads = []

    class Blocking(NativeTool):
        input_schema = NO_ARGUMENTS

        def _here(self) -> None:
            threads.append(threading.current_thread() is threading.main_thread())

        def open(self, thread: str) -> None:
            self._here()

        def run(self, arguments: dict[str, Any], ctx: ToolContext) -> None:
            self._here()

        def close(self) -> None:
            self._here()

    async with make([Blocking], store) as rt:
        await rt.call("blocking")
    assert threads == [False, False, False]


async def test_options_come_as_class_keywords_or_attributes(store: str) -> None:
    class Slow(NativeTool, name="slow-tool", description="Never ends."):
        input_schema = NO_ARGUMENTS
        timeout = 0.05

        async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> None:
            await asyncio.Event().wait()

    async with make([Slow, Notes], store) as rt:
        listed = {info.name: info for info in await rt.tools()}
        result = await rt.call("slow-tool")
    assert listed["slow-tool"].description == "Never ends."
    assert listed["notes"].description == "Keeps what it is told."
    assert listed["notes"].timeout == 5
    assert listed["notes"].tags == ["notes"]
    assert result.state is State.TIMEOUT


async def test_a_model_named_arguments_checks_and_describes_the_input(store: str) -> None:
    class Ask(NativeTool):
        class Arguments(BaseModel):
            question: str
            depth: int = 1

            @field_validator("depth")
            @classmethod
            def shallow(cls, value: int) -> int:
                if value > 3:
                    raise ValueError("at most 3")
                return value

        def run(self, arguments: Any, ctx: ToolContext) -> Any:
            return arguments["question"] if isinstance(arguments, dict) else arguments.question

    async with make([Ask], store) as rt:
        [info] = await rt.tools()
        assert info.input_schema["required"] == ["question"]
        assert (await rt.call("ask", {"question": "why"})).output == "why"
        for bad in ({"question": 3}, {"question": "x", "other": 1}, {"question": "x", "depth": 9}):
            result = await rt.call("ask", bad)
            assert result.error is not None, bad
            assert result.error.code == "invalid_input"


@pytest.mark.parametrize(
    ("namespace", "keywords", "part"),
    [
        ({}, {}, "run"),
        ({"run": lambda self, arguments, ctx: None}, {"isolation": "process"}, "process"),
        ({"run": lambda self, arguments, ctx: None}, {"timeot": 3}, "timeout"),
        ({"run": lambda self, arguments, ctx: None}, {"name": "no name!"}, "name"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_registered(namespace: Any, keywords: Any, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        make([type("Odd", (NativeTool,), namespace, **keywords)])
