"""The tools of a runtime by name. Names are unique; an object that cannot be a tool is refused when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from clicket.errors import ToolNotFound, UsageError, did_you_mean
from clicket.model.undo import UNDO_PART, reconcile_tool, undo_tool
from clicket.tools.check import Check, compile_schema
from clicket.tools.completed import CompletedTool
from clicket.tools.depends import find_cycle, names_of
from clicket.tools.function import FunctionTool, class_tool, name_of, tool
from clicket.tools.native import NativeTool, SessionTool
from clicket.tools.place import place_of, placed
from clicket.tools.protocol import BasicTool, Tool
from clicket.tools.undo_tools import undo_tools

__all__ = ["RESERVED", "Registered", "Registry", "as_tool"]

RESERVED = frozenset(
    {"background_calls", "cancel_background_call", "find_tools", "plan", "planning", "raise_budget", "read_result"}
)
"""Names of the tools that agents bring along, and handle in a way of their own. No other tool has one of them, wherever it comes
from. Names with a colon are those of agents' turns; the rule for names keeps them free."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool, and the compiled check of its input schema."""

    tool: Tool
    check: Check


class Registry:
    """Tools and their compiled schemas."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self.tools: dict[str, Registered] = {}
        """By name; only the registry changes it."""
        self._listed: tuple[Tool, ...] | None = None
        """What `listed` returns; None: `tools` has changed."""
        self._inner: dict[str, Registered] = {}
        self._users: dict[str, set[str]] = {}
        """Of inner tools that were lent: the tools whose running calls can call them."""
        self._later: dict[str, Callable[[], Tool]] = {}
        self.dependent: set[str] = set()
        """Names of the tools that depend on others."""
        self.with_deps: set[str] = set()
        """Names of the tools that need deps."""
        self.shared: set[str] = set()
        """Names of the tools that have one breaker over all callers."""
        for each in _listed(tools):
            self.add(each)

    def add(self, given: Any) -> Tool:
        added = as_tool(given).owned_by(self)
        _check_name(added)
        self._refuse_taken(added)
        if added.options.depends_on:  # a tool that needs none is on no circle
            self._refuse_cycle(added)
        where = placed(f"tool {added.name!r}", added)
        self.tools[added.name] = Registered(added, compile_schema(added.input_schema, where))
        self._listed = None
        self._add_undo(added)
        if added.options.depends_on:
            self.dependent.add(added.name)
        else:
            self.dependent.discard(added.name)
        if added.traits.deps:
            self.with_deps.add(added.name)
        else:
            self.with_deps.discard(added.name)
        if added.options.breaker == "shared":
            self.shared.add(added.name)
        return added

    def lend(self, own: Tool) -> None:
        """Add a tool of clicket's own under its reserved name, unless it is there."""
        if own.name not in self.tools:
            self.tools[own.name] = Registered(own, compile_schema(own.input_schema, f"tool {own.name!r}"))
            self._listed = None

    def lend_to(self, user: str, given: Any) -> str:
        """Add an inner tool that only running calls of the tool `user` can call, and of the other tools that it is lent to; returns its
        name. A tool of the runtime may be lent, too: every caller can call it. `UsageError`: another tool has its name."""
        lent = as_tool(given)
        _check_name(lent)
        self._refuse_taken(lent)
        if lent.name not in self.tools:
            if lent.name not in self._users:
                self.add_inner(lent)
            self._users.setdefault(lent.name, set()).add(user)
        return lent.name

    def lend_later(self, name: str, make: Callable[[], Tool]) -> None:
        """Add a tool of clicket's own once a call or an agent names it, in place of one that was added before."""
        self.remove(name)
        self._inner.pop(name, None)
        self._later[name] = make

    def _made(self, name: str) -> Registered | None:
        make = self._later.pop(name, None)
        if make is None:
            return None
        own = make()
        self.lend(own)
        self.add_inner(own)  # also a runtime that leaves calls to workers continues its calls
        return self.tools[name]

    def add_inner(self, inner: Tool) -> None:
        """Add a tool that only clicket's own parts call: it is not listed, not offered, and found by `inner` alone. Its calls are
        recovered after a crash like all others. It replaces an earlier one of the same name."""
        self._inner[inner.name] = Registered(inner, compile_schema(inner.input_schema, f"tool {inner.name!r}"))
        self._add_undo(inner)

    def _add_undo(self, tool: Tool) -> None:
        """What undoes its calls stays when the tool is removed, until another tool has its name."""
        for name in (undo_tool(tool.name), reconcile_tool(tool.name), reconcile_tool(undo_tool(tool.name))):
            self._inner.pop(name, None)
        for own in undo_tools(tool):
            self.add_inner(own)

    def inner_tools(self, prefix: str) -> list[Tool]:
        """The inner tools whose names begin so."""
        return [each.tool for name, each in self._inner.items() if name.startswith(prefix)]

    def add_part(self, part: Tool) -> None:
        """Add an inner tool that only running calls of the tool `part.traits.part_of` can call. Unlike other inner tools, it may not have
        the name of another tool."""
        self._refuse_taken(part)
        self.add_inner(part)

    def _refuse_taken(self, added: Tool) -> None:
        known = self.known(added.name)
        if known is None or _same(known.tool, added):
            return
        parent = known.tool.traits.part_of
        if parent and parent not in self.tools:  # it was left behind by a tool that was removed
            return
        places = ", ".join(filter(None, (place_of(known.tool), place_of(added))))
        where = f" ({places})" if places else ""
        raise UsageError(
            f"two tools are named {added.name!r}{where}; give one of them another name with @tool(name=…)."
        )

    def remove(self, name: str) -> bool:
        """Running calls continue; new calls fail with `ToolNotFound`. False: there is no such tool."""
        self.dependent.discard(name)
        self.with_deps.discard(name)
        self.shared.discard(name)
        self._listed = None
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
                f"{placed(f'tool {added.name!r}', added)}: depends_on goes round in a circle ({' -> '.join(cycle)}), so none "
                "of them could ever be called. Take one of the dependencies out."
            )

    def uses_credential(self, provider: str) -> bool:
        """Does a tool need credentials for this provider?"""
        return any(provider in each.tool.options.credentials for each in self.tools.values())

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """`UsageError` if a name is not the name of a tool."""
        for name in names:
            if name not in self.tools:
                listed = sorted(each.name for each in self)
                raise UsageError(
                    f"there is no tool {name!r}.{did_you_mean(name, listed)} Registered: {', '.join(listed) or 'none'}. "
                    "Add it to the runtime first: Runtime(tools=[…]), or rt.add(…)."
                )

    def find(self, name: str, within: str = "") -> Registered:
        """The tool that a call names. `within`: the tool whose running call makes the call, and which can also call its parts."""
        try:
            return self.tools[name]
        except (KeyError, TypeError):
            made = self._made(name) if isinstance(name, str) else None
            if made is not None:
                return made
            inner = self._inner.get(name) if isinstance(name, str) else None
            if inner is not None:
                parent = inner.tool.traits.part_of
                lent = self._users.get(name, ())
                if within and (within == parent or within in lent):
                    return inner
                own = "the agents whose middleware brings it" if lent else "clicket's own parts, such as agents,"
                users = "`undo`" if parent == UNDO_PART else f"running calls of {parent!r}" if parent else own
                raise ToolNotFound(f"there is no tool {name!r} for callers: only {users} can call it.") from None
            raise ToolNotFound(
                f"there is no tool {str(name)[:200]!r}.{did_you_mean(str(name), [each.name for each in self])} "
                f"Registered: {', '.join(sorted(each.name for each in self)) or 'none'}."
            ) from None

    def inner(self, name: str) -> Registered:
        """Like `find`, but finds internal tools, too."""
        return self._inner.get(name) or self.find(name)

    def known(self, name: str) -> Registered | None:
        """A tool of either kind, without making one that is lent later."""
        return self.tools.get(name) or self._inner.get(name)

    def get(self, name: str) -> Tool | None:
        found = self.tools.get(name) or self._inner.get(name) or self._made(name)
        return None if found is None else found.tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.listed())

    def listed(self) -> tuple[Tool, ...]:
        """The tools that callers see, in the order of their registration."""
        if self._listed is None:
            self._listed = tuple(each.tool for each in self.tools.values() if each.tool.traits.listed)
        return self._listed

    def all(self) -> Iterable[Tool]:
        """Every tool, also those that callers do not see."""
        return [each.tool for each in {**self._inner, **self.tools}.values()]

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.tools) | frozenset(self._inner)

    def is_inner(self, name: str) -> bool:
        return name in self._inner and name not in self.tools

    @property
    def inner_names(self) -> frozenset[str]:
        return frozenset(self._inner)


def as_tool(given: Any) -> Tool:
    """Make a tool of what can be registered: a tool, a function, or an object or class with run methods."""
    if isinstance(given, NativeTool) or (isinstance(given, type) and issubclass(given, NativeTool)):
        return SessionTool(given)
    if isinstance(given, FunctionTool):  # before the slow look at every attribute
        if given.of_object:
            owner = given.fn.__qualname__.rpartition(".")[0].rpartition(".")[2]
            raise UsageError(
                f"{placed(f'tool {given.name!r}', given)} is a method of {owner}, so it needs an object: register "
                f"{owner}(…).{given.fn.__name__} instead of {owner}.{given.fn.__name__}."
            )
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


def _check_name(added: Tool) -> None:
    name = name_of(added.name, "", f"{type(added).__name__}")
    if name in RESERVED:
        raise UsageError(
            f"{name!r} is a name of clicket's own: agents bring a tool of that name along. Give this one another name "
            "(@tool(name=…)), or import it with a prefix."
        )


def _listed(tools: Any) -> Iterable[Any]:
    """The tools of a list; `UsageError` for one tool, text or a module in its place."""
    if isinstance(tools, str | bytes | type) or not isinstance(tools, Iterable):
        meant = f"write tools=[{tools.name}]" if isinstance(tools, FunctionTool) else "write tools=[one, another]"
        if inspect.ismodule(tools):
            meant = f"name the tools of the module, as in tools=[{tools.__name__}.NAME]"
        raise UsageError(f"tools is a list: {meant}, not {tools!r:.60}.")
    return tools


def _same(one: Tool, other: Tool) -> bool:
    """Was the same object registered? Registering it twice is allowed, a second tool of its name is not."""
    if isinstance(one, FunctionTool) and isinstance(other, FunctionTool) and inspect.ismethod(one.fn):
        return bool(one.fn == other.fn)  # a method's tool is made anew each time it is named
    return _origin(one) is _origin(other)


def _origin(tool: Tool) -> object:
    return tool.given if isinstance(tool, CompletedTool) else tool
