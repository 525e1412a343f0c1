"""The tools of a runtime by name. Names are unique; an object that cannot be a tool is refused when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from clicket.errors import ToolNotFound, UsageError, did_you_mean
from clicket.tools.check import Check, compile_schema
from clicket.tools.completed import CompletedTool
from clicket.tools.depends import find_cycle, names_of
from clicket.tools.function import FunctionTool, class_tool, tool
from clicket.tools.native import NativeTool, SessionTool
from clicket.tools.protocol import BasicTool, Tool

__all__ = ["Registered", "Registry", "as_tool"]


class Registered(NamedTuple):
    """A tool, and the compiled check of its input schema."""

    tool: Tool
    check: Check


class Registry:
    """Tools and their compiled schemas."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self.tools: dict[str, Registered] = {}
        """By name; only the registry changes it."""
        self._inner: dict[str, Registered] = {}
        self.dependent: set[str] = set()
        """Names of the tools that depend on others."""
        for each in tools:
            self.add(each)

    def add(self, given: Any) -> Tool:
        added = as_tool(given).owned_by(self)
        known = self.tools.get(added.name)
        if known is not None and _origin(known.tool) is not _origin(added):
            raise UsageError(f"two tools are named {added.name!r}; give one of them another name with @tool(name=…).")
        if added.options.depends_on:  # a tool that needs none is on no circle
            self._refuse_cycle(added)
        self.tools[added.name] = Registered(added, compile_schema(added.input_schema, f"tool {added.name!r}"))
        if added.options.depends_on:
            self.dependent.add(added.name)
        else:
            self.dependent.discard(added.name)
        return added

    def add_inner(self, inner: Tool) -> None:
        """Add a tool that only clicket's own parts call: it is not listed, not offered, and found by `inner` alone. Its calls are
        recovered after a crash like all others. It replaces an earlier one of the same name."""
        self._inner[inner.name] = Registered(inner, compile_schema(inner.input_schema, f"tool {inner.name!r}"))

    def remove(self, name: str) -> bool:
        """Running calls continue; new calls fail with `ToolNotFound`. False: there is no such tool."""
        self.dependent.discard(name)
        return self.tools.pop(name, None) is not None

    def _refuse_cycle(self, added: Tool) -> None:
        """Follows what the tool needs through all tools, so that the order of registration does not matter."""

        def needed_by(name: str) -> list[str]:
            known = self.tools.get(name) if name in self.dependent else None
            tool = added if name == added.name else known.tool if known is not None else None
            return [] if tool is None else names_of(tool.options.depends_on)

        cycle = find_cycle(added.name, needed_by)
        if cycle is not None:
            raise UsageError(
                f"tool {added.name!r}: depends_on goes round in a circle ({' -> '.join(cycle)}), so none of them could ever "
                "be called. Take one of the dependencies out."
            )

    def find(self, name: str) -> Registered:
        try:
            return self.tools[name]
        except (KeyError, TypeError):
            raise ToolNotFound(
                f"there is no tool {str(name)[:200]!r}.{did_you_mean(str(name), [each.name for each in self])} "
                f"Registered: {', '.join(sorted(each.name for each in self)) or 'none'}."
            ) from None

    def inner(self, name: str) -> Registered:
        """Like `find`, but finds internal tools, too."""
        return self._inner.get(name) or self.find(name)

    def get(self, name: str) -> Tool | None:
        found = self.tools.get(name) or self._inner.get(name)
        return found.tool if found else None

    def __iter__(self) -> Iterator[Tool]:
        return (each.tool for each in self.tools.values() if each.tool.traits.listed)

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.tools) | frozenset(self._inner)

    @property
    def inner_names(self) -> frozenset[str]:
        return frozenset(self._inner)


def as_tool(given: Any) -> Tool:
    """Make a tool of what can be registered: a tool, a function, or an object or class with run methods."""
    if isinstance(given, NativeTool) or (isinstance(given, type) and issubclass(given, NativeTool)):
        return SessionTool(given)
    if isinstance(given, FunctionTool):  # before the slow look at every attribute
        return given
    if isinstance(given, BasicTool) and not isinstance(given, type):
        return given if isinstance(given, Tool) else CompletedTool(given)
    if inspect.isroutine(given):
        made: Tool = tool(given)
        return made
    instance = given() if isinstance(given, type) else given
    if hasattr(instance, "run") or hasattr(instance, "run_sync"):
        return class_tool(instance)
    raise UsageError(
        f"{given!r} is not a tool. Register a function, an object made by @tool, a RestTool or a NativeTool."
    )


def _origin(tool: Tool) -> object:
    """The object that was registered: registering it twice is allowed, a second tool of its name is not."""
    return tool.given if isinstance(tool, CompletedTool) else tool
