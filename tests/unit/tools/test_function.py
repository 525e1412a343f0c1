"""`@tool`: bare or with options, on functions, methods and classes; the function itself is unchanged."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from clicket import ToolContext, tool
from clicket.errors import UsageError
from clicket.tools.context import STREAMED
from clicket.tools.function import FunctionTool, class_tool, snake_case


class FakeContext:
    """Collects what a generator emits."""

    def __init__(self) -> None:
        self.emitted: list[Any] = []
        self.drained = 0

    def emit(self, chunk: Any) -> None:
        self.emitted.append(chunk)

    async def drain(self) -> None:
        self.drained += 1


def test_bare_and_with_options() -> None:
    @tool
    def bare(a: int) -> int:
        """Doc."""
        return a

    @tool()
    def empty(a: int) -> int:
        return a

    @tool(name="other.name-1", description="Said so.", timeout=5, tags=["x"])
    def full(a: int) -> int:
        """Doc."""
        return a

    assert (bare.name, bare.description, bare.options.timeout) == ("bare", "Doc.", 30)
    assert (empty.name, empty.description) == ("empty", "")
    assert (full.name, full.description, full.options.timeout, full.options.tags) == (
        "other.name-1", "Said so.", 5, frozenset({"x"}),
    )  # fmt: skip


async def test_the_function_can_still_be_called() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool
    async def later(a: int) -> int:
        return a

    assert add(1) == 3
    assert add(1, b=5) == 6
    assert await later(4) == 4
    assert add.__name__ == "add"
    assert add.__wrapped__ is add.fn  # type: ignore[attr-defined]  # as `functools.update_wrapper` sets it
    assert inspect.signature(add) == inspect.signature(add.fn)
    assert repr(add) == "<tool add>"


def test_the_tool_has_what_others_set_on_its_function() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    add.owner = "billing"  # type: ignore[attr-defined]
    add.output_schema = add.close = "theirs"  # type: ignore[attr-defined]
    made = tool(name="sum")(add)
    assert (made.__doc__, made.__module__, made.__qualname__) == (add.__doc__, add.__module__, add.__qualname__)
    assert (made.owner, made.name) == ("billing", "sum")
    assert "theirs" not in (made.output_schema, made.close)


def test_what_is_async_is_known() -> None:
    async def coroutine() -> None: ...
    async def stream() -> AsyncIterator[int]:
        yield 1

    def plain() -> None: ...
    def generate() -> Iterator[int]:
        yield 1

    assert [tool(f).is_async for f in (coroutine, stream, plain, generate)] == [True, True, False, False]


async def test_generators_emit_what_they_yield() -> None:
    closed = []

    @tool
    async def stream(n: int, ctx: ToolContext) -> AsyncIterator[int]:
        try:
            for i in range(n):
                yield i
        finally:
            closed.append(True)

    @tool
    def generate(n: int) -> Iterator[str]:
        for i in range(n):
            yield str(i)

    one: Any = FakeContext()
    assert await stream.run({"n": 3}, one) is STREAMED
    assert (one.emitted, one.drained) == ([0, 1, 2], 3)
    assert closed == [True]
    two: Any = FakeContext()
    assert generate.run({"n": 2}, two) is STREAMED
    assert two.emitted == ["0", "1"]


async def test_a_generator_whose_reader_fails_is_closed() -> None:
    closed = []

    @tool
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    class Failing(FakeContext):
        def emit(self, chunk: Any) -> None:
            raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await stream.run({}, Failing())  # type: ignore[arg-type]  # a stand-in
    assert closed == [True]


@pytest.mark.parametrize("name", ["", "with space", "a/b", "ünï", "x" * 129, 5])
def test_names_that_no_model_could_use_are_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        tool(name=name)(lambda: None)
    assert tool(name="x" * 128)(lambda: None).name == "x" * 128


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UsageError, match="<lambda>"):
        tool(lambda: None)


@pytest.mark.parametrize("thing", [3, "text", None.__class__, object()])
def test_what_is_not_a_function_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError):
        tool(name="x")(thing)


def test_a_wrong_option_is_named_with_a_near_miss() -> None:
    with pytest.raises(UsageError, match=r"timeot.*timeout"):
        tool(timeot=3)(lambda: None)  # type: ignore[call-overload]  # the point


def test_methods_and_partials_are_tools_too() -> None:
    class Service:
        def __init__(self) -> None:
            self.base = 10

        def add(self, n: int) -> int:
            return self.base + n

    made = tool(Service().add)
    assert made.name == "add"
    assert made.run(made.bind({"n": 1}), None) == 11

    def power(base: int, exponent: int) -> int:
        return base**exponent

    square = tool(name="square")(functools.partial(power, exponent=2))
    assert square.run(square.bind({"base": 3}), None) == 9


def test_a_decorated_async_function_is_seen_as_async() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def work(a: int) -> int:
        return a

    assert work.is_async
    assert list(work.input_schema["properties"]) == ["a"]


class Both:
    """Two bodies."""

    timeout = 7.0
    tags = ("x",)

    async def run(self, a: int) -> str:
        return f"run {a}"

    def run_sync(self, a: int) -> str:
        return f"sync {a}"


async def test_a_class_with_both_bodies_keeps_both() -> None:
    made = class_tool(Both())
    assert (made.name, made.description, made.is_async) == ("both", "Two bodies.", True)
    assert (made.options.timeout, made.options.tags) == (7.0, frozenset({"x"}))
    assert made.run_sync is not None
    assert await made.run({"a": 1}, None) == "run 1"
    assert made.run_sync({"a": 1}, None) == "sync 1"  # type: ignore[arg-type]  # no context is needed


def test_a_class_with_one_body_serves_both_callers() -> None:
    class OnlySync:
        def run_sync(self, a: int) -> int:
            return a

    class OnlyAsync:
        async def run(self) -> None: ...

    one, two = class_tool(OnlySync()), class_tool(OnlyAsync())
    assert (one.is_async, one.run_sync) == (False, None)
    assert (two.is_async, two.run_sync) == (True, None)


def test_a_class_with_no_body_or_a_wrong_one_is_refused() -> None:
    """Neither overridden: an error at registration, never two methods that call each other for ever."""

    class Nothing: ...

    class Wrong:
        async def run_sync(self) -> None: ...

    with pytest.raises(UsageError, match="run"):
        class_tool(Nothing())
    with pytest.raises(UsageError, match="run_sync"):
        class_tool(Wrong())


def test_the_decorator_takes_classes() -> None:
    @tool(name="thing", max_retries=1)
    class Thing:
        """A thing."""

        def run_sync(self, x: int) -> int:
            return x

    assert isinstance(Thing, FunctionTool)
    assert (Thing.name, Thing.description, Thing.options.max_retries) == ("thing", "A thing.", 1)


@pytest.mark.parametrize(
    ("name", "snake"),
    [("Weather", "weather"), ("DeepSearch", "deep_search"), ("HTTPTool", "httptool"), ("a1B", "a1_b")],
)
def test_class_names_become_tool_names(name: str, snake: str) -> None:
    assert snake_case(name) == snake
