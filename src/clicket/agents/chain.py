"""The methods of an agent's middleware, and its checks, each in the order in which it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, NamedTuple

from clicket.agents.check import Check
from clicket.agents.turn_limits import check_counts
from clicket.errors import UsageError, did_you_mean
from clicket.tools import Tool

__all__ = ["METHODS", "NO_MIDDLEWARE", "Chain", "Method"]

METHODS = ("tools", "instructions", "before_model", "after_model", "before_tool", "after_tool", "at_end")
_REVERSED = ("after_model", "after_tool", "at_end")


class Method(NamedTuple):
    """One method of one middleware, or a check. `is_derived`: what it returns follows from the entries of the turn, so it is not
    recorded."""

    by: str
    on: str
    call: Callable[..., Any]
    is_derived: bool = False
    check: Check | None = None


class Chain:
    """`before` a request or a call, methods are called as listed; after it, in reverse. Checks come last, as listed: nothing changes what
    they have let through. `input` and `output` are checks."""

    __slots__ = (
        "after_model",
        "after_tool",
        "at_end",
        "before_model",
        "before_tool",
        "input",
        "instructions",
        "names",
        "output",
        "output_retries",
        "own_tools",
        "places",
        "tools",
    )

    def __init__(
        self, middleware: Iterable[object] = (), *, checks: Iterable[Check] = (), output_retries: int = 2
    ) -> None:
        """`output_retries`: how many answers of a turn may be refused before it ends."""
        check_counts(0, output_retries=output_retries)
        self.output_retries: int = output_retries
        listed = _checked(middleware)
        names = [_name(each) for each in listed]
        if len(set(names)) < len(names):
            raise UsageError(
                f"two of the agent's middleware have the same name ({', '.join(names)}): give one a `name` of its own."
            )
        checked = _checks(checks)
        self.names: tuple[str, ...] = (*names, *(each.label for each in checked))
        """What the digest of the agent has of them: one that checks less is another agent."""
        self.own_tools: tuple[Tool, ...] = tuple(tool for each in listed for tool in getattr(each, "own_tools", ()))
        """Of clicket's own middleware: known to the runtime from the time when the agent is made."""
        self.places: dict[str, Any] = {each.place: each for each in listed if hasattr(each, "place")}
        """Middleware that belongs to one place: `is_here` says whether that can be used."""
        self.tools: tuple[Method, ...] = _of(listed, "tools")
        self.instructions: tuple[Method, ...] = _of(listed, "instructions")
        own_last = sorted(_of(listed, "before_model"), key=lambda method: method.is_derived)
        self.before_model: tuple[Method, ...] = tuple(own_last)
        """Derived ones last: they may return a whole request, and it must have the edits of the others."""
        self.after_model: tuple[Method, ...] = _of(listed, "after_model")
        self.before_tool: tuple[Method, ...] = (*_of(listed, "before_tool"), *_on(checked, "tool_call"))
        self.after_tool: tuple[Method, ...] = (*_of(listed, "after_tool"), *_on(checked, "tool_result"))
        self.at_end: tuple[Method, ...] = _of(listed, "at_end")
        self.input: tuple[Method, ...] = _on(checked, "input")
        self.output: tuple[Method, ...] = _on(checked, "output")

    def __repr__(self) -> str:
        return f"<middleware {', '.join(self.names) or 'none'}>"

    def with_input_of(self, first: Chain) -> Chain:
        """Of an agent to which a turn is handed that the agent of `first` began: that one's checks have let its message pass."""
        if self.input == first.input:
            return self
        other = copy(self)
        other.input = first.input
        return other

    @property
    def asking(self) -> frozenset[str]:
        """Names of the checks that may ask a person by a call of their own."""
        return frozenset(method.by for method in (*self.input, *self.output))

    def number_of(self, method: Method) -> int:
        """The place of a check of the message or the answer; the same in every process that has the agent."""
        return (*self.input, *self.output).index(method)


def _checks(checks: Iterable[Check]) -> list[Check]:
    listed: list[Any] = list(checks) if isinstance(checks, Iterable) else [None]
    if not all(isinstance(each, Check) for each in listed):
        raise UsageError(f"checks is a list of Check(function, on='output'), not {checks!r:.100}.")
    labels = [f"{each.on}:{each.name}" for each in listed]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the agent's checks are {twice!r}: give one a name of its own, Check(…, name='…').")
    return listed


def _on(checks: Iterable[Check], on: str) -> tuple[Method, ...]:
    return tuple(Method(each.name, on, each.function, check=each) for each in checks if each.on == on)


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
