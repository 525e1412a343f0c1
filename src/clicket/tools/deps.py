"""Deps of tools: values of the process, such as a pool of connections, that are no arguments: no model sees them and none is stored.

A tool reads them as `ctx.deps["db"]`, or has a parameter `db: Annotated[Pool, Depends("db")]`. The run of an agent brings them
(`agent.run(…, deps={"db": pool})`), or the runtime makes them: `Runtime(deps={"db": factory})`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from clicket.errors import DepUnavailable, RetryableError, UsageError, did_you_mean
from clicket.model.deps import how_to_give

__all__ = ["NO_DEPS", "DepValues", "Depends", "Factory", "InThread", "check_factories", "factory_failed", "make_dep"]

Factory = Callable[[], Any]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Depends:
    """In the hint of a tool's parameter: the parameter gets the dep of this name, and is not in the tool's schema."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(f'Depends takes the name of a dep, such as Depends("db"), not {name!r:.100}.')
        self.name: str = name

    def __repr__(self) -> str:
        return f"Depends({self.name!r})"


class DepValues(dict[str, Any]):
    """Deps by name. A name that is not there raises an error that says how to give it."""

    def __init__(self, values: Mapping[str, Any] = {}, failed: Mapping[str, Exception] = {}) -> None:
        """`failed`: why a factory made no value; raised when that dep is read."""
        super().__init__(values)
        self._failed = failed

    def __missing__(self, name: str) -> Any:
        if name in self._failed:
            raise self._failed[name]
        raise DepUnavailable(f"there is no dep {name!r} here.{did_you_mean(str(name), self)} {how_to_give(name)}")

    def __repr__(self) -> str:
        """Without values: they may hold secrets."""
        return f"<deps {', '.join(self) or 'none'}>"


NO_DEPS: Mapping[str, Any] = DepValues()


def check_factories(factories: Mapping[str, Factory] | None) -> dict[str, Factory]:
    """The `deps` of a runtime."""
    found = dict(factories or {})
    for name, factory in found.items():
        if not isinstance(name, str) or not name or not callable(factory):
            raise UsageError(
                f"deps: {name!r:.100} must be the name of a function without arguments that makes the value, such as "
                f'deps={{"db": connect}}; for a value that is there, deps={{"db": lambda: value}}. It is {factory!r:.100}.'
            )
    return found


def factory_failed(name: str, error: Exception) -> DepUnavailable:
    """For the call that needs the dep."""
    failed = DepUnavailable(
        f"the factory of the dep {name!r} (Runtime(deps=…)) failed: {type(error).__name__}: {error}. The next call that needs the dep "
        "calls it again.",
        retryable=isinstance(error, RetryableError | ConnectionError),
    )
    failed.__cause__ = error
    return failed


async def make_dep(factory: Factory, exits: AsyncExitStack, in_thread: InThread) -> Any:
    """What a factory makes. `exits` closes it: with its `aclose` or `close`; else, if it is a context manager, it is entered now, and left
    then. What a generator function yields is the value. `in_thread` runs what may block, unless the factory is async."""
    run = _in_place if inspect.iscoroutinefunction(factory) else in_thread
    value = await run(factory)
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        value = asynccontextmanager(lambda made=value: made)()
    elif inspect.isgenerator(value):
        value = contextmanager(lambda made=value: made)()
    close = getattr(value, "aclose", None) or getattr(value, "close", None)
    if callable(close) and not isinstance(value, type):
        exits.push_async_callback(_closed, close, run)
    elif hasattr(type(value), "__aenter__"):
        return await exits.enter_async_context(value)
    elif hasattr(type(value), "__enter__"):
        entered = await run(value.__enter__)
        exits.push_async_callback(run, lambda: value.__exit__(None, None, None))
        return entered
    return value


async def _in_place(function: Callable[[], Any]) -> Any:
    return function()


async def _closed(close: Callable[[], Any], run: InThread) -> None:
    closing = close() if inspect.iscoroutinefunction(close) else await run(close)
    if inspect.isawaitable(closing):
        await closing
