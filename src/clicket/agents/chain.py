"""The methods of an agent's middleware, each in the order in which it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from clicket.agents.turn_limits import check_counts
from clicket.errors import UsageError, did_you_mean

__all__ = ["METHODS", "NO_MIDDLEWARE", "Chain", "Method"]

METHODS = ("tools", "instructions", "before_model", "after_model", "before_tool", "after_tool", "at_end")
_REVERSED = ("after_model", "after_tool", "at_end")


class Method(NamedTuple):
    """One method of one middleware. `is_derived`: what it returns follows from the entries of the turn, so it is not recorded."""

    by: str
    on: str
    call: Callable[..., Any]
    is_derived: bool


class Chain:
    """`before` a request or a call, methods are called as listed; after it, in reverse."""

    __slots__ = (
        "after_model",
        "after_tool",
        "at_end",
        "before_model",
        "before_tool",
        "instructions",
        "names",
        "output_retries",
        "tools",
    )

    def __init__(self, middleware: Iterable[object] = (), *, output_retries: int = 2) -> None:
        """`output_retries`: how many answers of a turn may be refused before it ends."""
        check_counts(0, output_retries=output_retries)
        self.output_retries: int = output_retries
        listed = _checked(middleware)
        self.names: tuple[str, ...] = tuple(_name(each) for each in listed)
        if len(set(self.names)) < len(self.names):
            raise UsageError(
                f"two of the agent's middleware have the same name ({', '.join(self.names)}): give one a `name` of its own."
            )
        self.tools: tuple[Method, ...] = _of(listed, "tools")
        self.instructions: tuple[Method, ...] = _of(listed, "instructions")
        self.before_model: tuple[Method, ...] = _of(listed, "before_model")
        self.after_model: tuple[Method, ...] = _of(listed, "after_model")
        self.before_tool: tuple[Method, ...] = _of(listed, "before_tool")
        self.after_tool: tuple[Method, ...] = _of(listed, "after_tool")
        self.at_end: tuple[Method, ...] = _of(listed, "at_end")

    def __repr__(self) -> str:
        return f"<middleware {', '.join(self.names) or 'none'}>"


def _checked(middleware: Iterable[object]) -> list[object]:
    if isinstance(middleware, str) or not isinstance(middleware, Iterable):
        raise UsageError(f"middleware is a list: write middleware=[{middleware!r:.100}].")
    listed = list(middleware)
    for each in listed:
        if isinstance(each, type):
            raise UsageError(f"middleware are objects, not classes: write {each.__name__}().")
        if not any(callable(getattr(each, name, None)) for name in METHODS):
            public = [name for name in dir(each) if not name.startswith("_")]
            near = next((hint for name in public if (hint := did_you_mean(name, METHODS))), "")
            raise UsageError(f"{each!r:.100} is not middleware: it has none of the methods {', '.join(METHODS)}.{near}")
    return listed


def _name(middleware: object) -> str:
    name = getattr(middleware, "name", "") or type(middleware).__name__
    if not isinstance(name, str):
        raise UsageError(f"the name of a middleware is a text, not {name!r:.100}.")
    return name


def _of(listed: list[object], on: str) -> tuple[Method, ...]:
    found: list[Method] = []
    for each in listed:
        method = getattr(each, on, None)
        if callable(method) and not _is_default(method):
            found.append(Method(_name(each), on, method, getattr(each, "is_derived", False) is True))
    return tuple(reversed(found) if on in _REVERSED else found)


def _is_default(method: Callable[..., Any]) -> bool:
    """Is it inherited from `Middleware`, and does nothing?"""
    function = inspect.unwrap(getattr(method, "__func__", method))
    return getattr(function, "is_default", False) is True


NO_MIDDLEWARE = Chain()
